"""Start-up, and how cost grows with rows and tokens, as Markdown tables: `python tests/benchmarks/scale.py RUN`

RUN is a trained run folder, which `transformers` opens too. Every measurement is a process of its own.
  start    `import minibert` beside `import torch` alone, and serve.py until it answers beside `import transformers` and
           loading the same weights; the two take turns, medians over the rounds
  rows     a CSV of so many short rows: read, check, split and tokenise it (and once more, from the cache), and score it
           with minibert.predictor; memory is the highest of the whole process
  tokens   Predictor on the same number of tokens in texts of 16 to 512 of them
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent.parent

IMPORTS = {
    "`import torch`": "import torch",
    "`import torch, minibert`": "import torch, minibert",
    "`import torch, minibert`, all four public names": "import torch; from minibert import Predictor, load_classifier, load_encoder, load_tokenizer",
    "`import transformers` and its loading": "from transformers import AutoModel, AutoTokenizer; AutoModel.from_pretrained({run!r}); "
                                            "AutoTokenizer.from_pretrained({run!r})",
}
READ = """
import json, resource, sys, time
from minibert import data, load_tokenizer
tokenizer, seconds = load_tokenizer(sys.argv[2]), {}
start = time.perf_counter()
dataset = data.load_data(sys.argv[1], quiet=True)
seconds["read"] = time.perf_counter() - start
for name in ("tokenise", "again"):
    start = time.perf_counter()
    store = data.tokenize_store(tokenizer, dataset.train.texts, quiet=True)
    seconds[name] = time.perf_counter() - start
print(json.dumps({**seconds, "tokens": len(store.ids), "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""
TOKENS = """
import json, sys, time
from minibert import Predictor
predictor, clock = Predictor(sys.argv[1], say=str), getattr(time, sys.argv[2])
found = {}
for length in (16, 32, 64, 128, 256, 512):
    text = " ".join(["good"] * (length - predictor.tokenizer.num_special(False)))
    texts = [text] * (int(sys.argv[3]) // length)
    predictor.max_len = length
    predictor.logits(texts[:2])
    start = clock()
    predictor.logits(texts)
    found[length] = clock() - start
print(json.dumps(found))
"""


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("run", type=Path)
    p.add_argument("--only", nargs="+", choices=("start", "rows", "tokens"), default=("start", "rows", "tokens"))
    p.add_argument("--rows", nargs="+", type=int, default=(10_000, 100_000, 1_000_000))
    p.add_argument("--tokens", type=int, default=32_768, help="in each measurement of `tokens`")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--clock", choices=("perf_counter", "process_time"), default="perf_counter")
    given = p.parse_args()
    with tempfile.TemporaryDirectory() as work:
        os.environ.update(MINIBERT_CACHE=work, MINIBERT_STATE=work, TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1")
        if "start" in given.only:
            start_up(given)
        if "rows" in given.only:
            growing_rows(given, Path(work))
        if "tokens" in given.only:
            found = json.loads(python(TOKENS, given.run, given.clock, given.tokens))
            print(f"| tokens of a text | seconds for {given.tokens:,} tokens | against 128 |\n|---|---|---|")
            for length, seconds in found.items():
                print(f"| {length} | {seconds:.2f} | {seconds / found['128']:.2f} |")


def python(code: str, *words: object) -> str:
    return subprocess.run([sys.executable, "-c", code, *map(str, words)], cwd=ROOT, text=True, check=True, stdout=subprocess.PIPE).stdout


def start_up(given: argparse.Namespace) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in (*IMPORTS, "serve.py, until it answers")}
    for _ in range(given.rounds):
        for name, code in IMPORTS.items():
            start = time.perf_counter()
            python(code.format(run=str(given.run.resolve())))
            seconds[name].append(time.perf_counter() - start)
        seconds["serve.py, until it answers"].append(serve(given.run))
    print("| start-up | seconds, median | smallest to largest |\n|---|---|---|")
    for name, all_rounds in seconds.items():
        print(f"| {name} | {median(all_rounds):.2f} | {min(all_rounds):.2f} to {max(all_rounds):.2f} |")
    print(flush=True)


def serve(run: Path) -> float:
    """Seconds from the start of serve.py to the line that says where it listens, which it prints when it answers."""
    start = time.perf_counter()
    server = subprocess.Popen([sys.executable, str(ROOT / "serve.py"), str(run), "--port", "0"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    next(line for line in server.stdout if re.search("serving .* at http", line))
    seconds = time.perf_counter() - start
    server.terminate()
    server.communicate()
    return seconds


def growing_rows(given: argparse.Namespace, work: Path) -> None:
    print("| rows | read and check | tokenise | from the cache | memory | score the file | a row | memory |\n|---|---|---|---|---|---|---|---|")
    with open(ROOT / "data" / "reviews.csv", encoding="utf-8", newline="") as f:
        reviews = [(row["text"], row["label"]) for row in csv.DictReader(f)]
    for n in given.rows:
        path = work / f"{n}.csv"
        with open(path, "w", encoding="utf-8", newline="") as f:
            table = csv.writer(f)
            table.writerow(["text", "label"])
            table.writerows((f"{text} {i}", label) for i in range(n) for text, label in [reviews[i % len(reviews)]])
        read = json.loads(python(READ, path, given.run))
        scored = work / "scored.csv"
        start = time.perf_counter()
        with open(scored, "wb") as out:
            child = subprocess.Popen([sys.executable, "-m", "minibert.predictor", str(given.run.resolve()), str(path), "--quiet"], cwd=ROOT, stdout=out)
            _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        with open(scored, encoding="utf-8", newline="") as f:
            assert status == 0 and sum(1 for _ in csv.reader(f)) == n + 1
        print(f"| {n:,} | {read['read']:.1f} s | {read['tokenise']:.1f} s | {read['again']:.2f} s | {read['peak']:,.0f} MiB | {seconds:.1f} s "
              f"| {seconds / n * 1e6:,.0f} µs | {usage.ru_maxrss / 1024:,.0f} MiB |", flush=True)
    print()


if __name__ == "__main__":
    main()
