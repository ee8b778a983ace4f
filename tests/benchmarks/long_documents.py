"""Documents longer than the model reads: what right, left, head+tail and chunk cost and give, as a Markdown table.

    python tests/benchmarks/long_documents.py ../shared/imdb/aclImdb_labelled.tar.gz --model FOLDER [--work DIR]

IMDB reviews of more than --longer-than tokens: so many of the training rows to train on, others of them to validate on,
and so many of the test rows, drawn once (seed 0). train.py learns them under each --truncate with the same flags; then
one evaluate.py call scores all four, which is one look. Runs that have ended in --work are not trained again.
"""

import argparse
import contextlib
import io
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from minibert import Predictor, data, load_tokenizer  # noqa: E402
from minibert.files import read_json, write_csv  # noqa: E402
from speed import Shape, train_minibert  # noqa: E402  (beside this file)

WAYS = ("right", "left", "head+tail", "chunk")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("archive")
    p.add_argument("--model", required=True)
    p.add_argument("--work", type=Path, default=Path("runs/long"))
    p.add_argument("--longer-than", type=int, default=256)
    p.add_argument("--rows", type=int, nargs=3, default=(1000, 300, 1000), metavar=("TRAIN", "VAL", "TEST"))
    p.add_argument("--lr", default="1e-4")
    p.add_argument("--epochs", default="2")
    given = p.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    table = given.work / "documents.csv"
    if not table.exists():
        write_documents(table, given)
    runs = {way: given.work / way.replace("+", "-") for way in WAYS}
    for way, run in runs.items():
        if not (run / "run.json").exists():
            script("train.py", "--data", table, "--model", given.model, "--truncate", way, "--max-len", given.longer_than,
                   "--lr", given.lr, "--epochs", given.epochs, "--out", run, *(["--resume"] if run.exists() else []))
    training = time_training(given, table)
    seconds = {way: time_prediction(run, table) for way, run in runs.items()}
    if not all("test" in read_json(run / "metrics.json", "figures") for run in runs.values()):
        script("evaluate.py", *runs.values())
    print(f"{given.rows[0]:,} training, {given.rows[1]:,} validation and {given.rows[2]:,} test reviews of more than {given.longer_than} tokens, "
          f"--max-len {given.longer_than} --lr {given.lr} --epochs {given.epochs}\n")
    print("| --truncate | val macro-F1 | test macro-F1 | test accuracy (95 %) | training, against right | prediction, against right |")
    print("|---|---|---|---|---|---|")
    for way, run in runs.items():
        figures = read_json(run / "metrics.json", "figures")
        low, high = figures["test"]["accuracy_ci95"]
        print(f"| {way} | {figures['val']['macro_f1']:.4f} | {figures['test']['macro_f1']:.4f} | {figures['test']['accuracy']:.4f} ({low:.3f} to {high:.3f}) "
              f"| {training[way] / training['right']:.2f} × | {seconds[way] / seconds['right']:.2f} × |")


def write_documents(table: Path, given: argparse.Namespace) -> None:
    """The long reviews as one CSV with a `split` column."""
    dataset = data.load_data(given.archive)
    tokenizer, rng, rows = load_tokenizer(given.model), np.random.default_rng(0), []
    for split, wanted in zip(("train", "val", "test"), given.rows):
        part = getattr(dataset, split)
        order = rng.permutation(len(part))
        long = []
        for start in range(0, len(order), 1000):
            some = order[start:start + 1000]
            long += [i for i, ids in zip(some, tokenizer.ids([part.texts[i] for i in some])) if len(ids) + 2 > given.longer_than]
            if len(long) >= wanted:
                break
        rows += [[part.texts[i], part.names[part.labels[i]], split] for i in long[:wanted]]
    write_csv(table.with_name("head.csv"), ["text"], [row[:1] for row in rows[:200]])
    write_csv(table, ["text", "label", "split"], rows)


def time_training(given: argparse.Namespace, table: Path, rows: int = 64, batch: int = 16) -> dict[str, float]:
    """Seconds of the processor for one epoch on the first of the documents, each way twice, there and back."""
    part = data.load_data(str(table), quiet=True).train.take(range(min(rows, given.rows[0])))
    seconds = dict.fromkeys(WAYS, 0.0)
    for way in (*WAYS, *reversed(WAYS)):
        job = {"way": "minibert", "model": given.model, "max_len": given.longer_than, "batch": batch, "truncate": way, "clock": "processor"}
        with contextlib.redirect_stdout(io.StringIO()):
            seconds[way] += train_minibert(job, part.texts, part.labels.tolist(), Shape(job))
    return seconds


def time_prediction(run: Path, table: Path) -> float:
    """Seconds of the processor to score 200 of the documents."""
    predictor, texts = Predictor(run, say=str), pd.read_csv(table.with_name("head.csv"), keep_default_na=False)["text"].tolist()
    predictor.logits(texts[:8])
    start = time.process_time()
    predictor.logits(texts)
    return time.process_time() - start


def script(name: str, *words: object) -> None:
    print("$", name, *words, flush=True)
    start = time.monotonic()
    subprocess.run([sys.executable, ROOT / name, *map(str, words)], check=True)
    print(f"  {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
