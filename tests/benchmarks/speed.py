"""Training and prediction beside transformers, ONNX Runtime and the machine's own ceiling, as Markdown tables.

    python tests/benchmarks/speed.py ../shared/imdb/aclImdb_labelled.tar.gz --model FOLDER
    python tests/benchmarks/speed.py … --only train --max-len 256 --batch-size 16 --size minilm --rows 128 --rounds 3

Every measurement is a process of its own that sees the same reviews and prints its seconds; the ways take turns (A B C,
C B A, …), so that what else the machine does falls on all of them. Figures are medians over the rounds, with the
smallest and largest in brackets. `--size minilm` is FOLDER's weights, `base` random weights of BERT-base's size.

Training: one epoch, seconds of the optimizer steps (reading, validation and saving not counted).
  minibert         train.py's own `fit`: length buckets, no attention dropout on a CPU
  amp              the same with --amp (left out where the CPU has no bf16: it would be the same run)
  transformers     (a) the loop most people write: shuffled, DataCollatorWithPadding, dropout as the checkpoint has it
  grouped          (a′) the same with attention dropout 0 and rows of like length together
  padded           (a) with every row padded to max_len
Prediction: all the texts in their order, tokenising included.
  minibert, fast   Predictor in fp32 and with precision="fast"
  pipeline         (b) pipeline("text-classification", batch_size=…)
  sorted           (b) what sentence-transformers' encode does: longest first by characters, then batches
  onnx, onnx-int8  (c) ONNX Runtime on the same weights, batches sorted by tokens
Share of the ceiling (d): FLOPs of the model on the tokens that are not padding, over the time, over what a large fp32 (or
bf16) matrix product reaches here. A training step counts three forwards.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Callable, Iterable

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

TRAINING = ("minibert", "amp", "transformers", "grouped", "padded")
PREDICTION = ("minibert", "fast", "pipeline", "sorted", "onnx", "onnx-int8")
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
BASE = dict(vocab_size=30522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072)


# ---- the parent: takes turns and prints ----------------------------------------------------------------------

def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("archive")
    p.add_argument("--model", required=True, help="a folder of BERT weights")
    p.add_argument("--only", nargs="+", choices=("train", "predict", "single"), default=("train", "predict", "single"))
    p.add_argument("--size", nargs="+", choices=("minilm", "base"), default=("minilm", "base"))
    p.add_argument("--max-len", nargs="+", type=int, default=(128, 256, 512))
    p.add_argument("--batch-size", nargs="+", type=int, default=(16, 32))
    p.add_argument("--rows", type=int, default=320, help="reviews (for base: a tenth of them)")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--clock", choices=tuple(CLOCKS), default="wall", help="processor: on a machine that has other work too, with --threads 1")
    p.add_argument("--ways", nargs="+", help="only these of the ways above")
    p.add_argument("--job", help=argparse.SUPPRESS)
    given = p.parse_args()
    if given.job:
        print("RESULT " + json.dumps(run_job(json.loads(given.job))))
        return
    with tempfile.TemporaryDirectory() as work:
        write_reviews(given.archive, Path(work) / "reviews.json", max(given.rows, 1000))
        models = {"minilm": given.model, "base": Path(work) / "base"}
        if "base" in given.size:
            write_base(Path(given.model), models["base"])
        print(f"torch {torch.__version__}, {given.threads} threads, {given.rounds} rounds, {given.clock} clock\n")
        for size in given.size:
            rows = given.rows if size == "minilm" else max(given.rows // 10, max(given.batch_size))
            common = dict(model=str(models[size]), work=work, threads=given.threads, clock=given.clock)
            if "train" in given.only:
                for max_len in given.max_len:
                    for batch in given.batch_size:
                        table(f"Training, {size}, {rows} reviews, max_len {max_len}, batch {batch}", chosen(TRAINING, given), "transformers",
                              {**common, "kind": "train", "rows": rows, "max_len": max_len, "batch": batch}, given)
            if "predict" in given.only:
                for max_len in given.max_len:
                    table(f"Prediction, {size}, {rows} reviews, max_len {max_len}, batch 32", chosen(PREDICTION, given), "pipeline",
                          {**common, "kind": "predict", "rows": rows, "max_len": max_len, "batch": 32}, given)
            if "single" in given.only and size == "minilm":
                table("Prediction, minilm, 1,000 sentences one at a time", chosen(("minibert", "fast", "pipeline"), given), "pipeline",
                      {**common, "kind": "single", "rows": 1000, "max_len": 128, "batch": 1}, given)


def chosen(ways: tuple[str, ...], given: argparse.Namespace) -> list[str]:
    from minibert.devices import cpu_has_bf16
    return [w for w in ways if (not given.ways or w in given.ways) and (w != "amp" or cpu_has_bf16())]


def table(title: str, ways: list[str], against: str, job: dict[str, Any], given: argparse.Namespace) -> None:
    """Run every way in every round and print the medians."""
    found: dict[str, list[dict]] = {way: [] for way in ways}
    ceilings = []
    for turn in range(given.rounds):
        for way in ways if turn % 2 == 0 else reversed(ways):
            found[way].append(in_a_process({**job, "way": way}))
        ceilings.append(in_a_process({**job, "kind": "ceiling"})["flops"])
    ceiling = median(ceilings)
    print(f"### {title} (fp32 matrix products: {ceiling / 1e9:.0f} GFLOP/s)\n")
    print(f"| way | seconds | examples/s | useful tokens/s | padding | of the ceiling | peak MiB | speed against {against} |")
    print("|---|---|---|---|---|---|---|---|")
    for way, rounds in found.items():
        seconds, one = [r["seconds"] for r in rounds], rounds[0]
        ratio = [b["seconds"] / r["seconds"] for r, b in zip(rounds, found.get(against, []))]
        print(f"| {way} | {median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f}) | {one['rows'] / median(seconds):.1f} "
              f"| {one['tokens'] / median(seconds):,.0f} | {one['padding'] / one['tokens']:.0%} "
              f"| {one['flops'] / median(seconds) / ceiling:.0%} | {median(r['peak'] for r in rounds):,.0f} "
              f"| {f'{median(ratio):.2f} × ({min(ratio):.2f} to {max(ratio):.2f})' if ratio else ''} |", flush=True)
    print()


def in_a_process(job: dict[str, Any]) -> dict[str, Any]:
    env = {**os.environ, "OMP_NUM_THREADS": str(job["threads"]), "TOKENIZERS_PARALLELISM": "false", "MINIBERT_CACHE": job["work"]}
    done = subprocess.run([sys.executable, __file__, "-", "--model", "-", "--job", json.dumps(job)], env=env, cwd=ROOT, text=True,
                          capture_output=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise SystemExit(f"{job}\n{done.stderr[-3000:]}")
    return json.loads(lines[-1][7:])


def write_reviews(archive: str, path: Path, n: int) -> None:
    from minibert import data
    train = data.load_data(archive).train
    rows = np.random.default_rng(0).permutation(len(train))[:n]
    path.write_text(json.dumps([[train.texts[i], int(train.labels[i])] for i in rows]), encoding="utf-8")


def write_base(like: Path, folder: Path) -> None:
    """Random weights of BERT-base's size, with the tokenizer of `like`."""
    import transformers
    torch.manual_seed(0)
    transformers.BertForSequenceClassification(transformers.BertConfig(**BASE)).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(like).save_pretrained(folder)


# ---- the child: one way, once --------------------------------------------------------------------------------

def run_job(job: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(job["threads"])
    if job["kind"] == "ceiling":
        return {"flops": matrix_rate(CLOCKS[job["clock"]])}
    rows = json.loads((Path(job["work"]) / "reviews.json").read_text(encoding="utf-8"))[:job["rows"]]
    texts, labels = [r[0] for r in rows], [r[1] for r in rows]
    if job["kind"] == "single":
        texts = [" ".join(text.split()[:20]) for text in texts]
    shape = Shape(job)
    if job["kind"] == "train":
        ours = job["way"] in ("minibert", "amp")
        seconds = (train_minibert if ours else train_transformers)(job, texts, labels, shape)
    else:
        seconds = PREDICT[job["way"]](job, texts, shape)
    return {"seconds": seconds, "rows": len(rows), "tokens": shape.tokens, "padding": shape.padding,
            "flops": shape.flops * (3 if job["kind"] == "train" else 1), "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


class Shape:
    """Counts what the model reads: tokens, padding, and the FLOPs that the logits need of a forward on the tokens alone."""

    def __init__(self, job: dict[str, Any]):
        config = json.loads((Path(job["model"]) / "config.json").read_text())
        self.layers, self.h, self.wide = config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"]
        self.tokens = self.padding = self.flops = 0

    def count(self, attention_mask: torch.Tensor | np.ndarray) -> None:
        lengths = np.asarray(attention_mask.sum(1), dtype=np.int64)
        self.tokens += int(lengths.sum())
        self.padding += int(np.prod(attention_mask.shape) - lengths.sum())
        # Per layer: four H×H products and two H×I per token, and QKᵀ and its product with V. Of the last layer, only keys
        # and values are needed of every token, and the rest of [CLS] alone; whoever computes more gets no credit for it.
        square, wide = 2 * self.h ** 2, 4 * self.h * self.wide
        self.flops += int(((self.layers - 1) * (lengths * (4 * square + wide) + 4 * lengths ** 2 * self.h)
                           + 2 * square * lengths + 2 * square + wide + 4 * lengths * self.h).sum())


def matrix_rate(clock: Callable[[], float], seconds: float = 2.0, n: int = 2048) -> float:
    """FLOP/s of large fp32 matrix products: the best of some."""
    a, b, best = torch.randn(n, n), torch.randn(n, n), 0.0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        start = clock()
        torch.mm(a, b)
        best = max(best, 2 * n ** 3 / (clock() - start))
    return best


def train_minibert(job: dict[str, Any], texts: list[str], labels: list[int], shape: Shape) -> float:
    """train.py's own loop on these rows, from the first window to the validation."""
    import train
    from minibert import data, devices
    from minibert.distributed import Processes
    from minibert.tokenization import load_tokenizer

    names = ["neg", "pos"]
    split = data.Split(texts, np.array(labels), np.arange(len(texts)), names)
    dataset = data.Dataset("bench", names, False, split, split.take([0, 1]), None, None)
    tokenizer = load_tokenizer(job["model"])
    store = lambda s: data.tokenize_store(tokenizer, s.texts, quiet=True)
    task = train.Task(dataset, tokenizer, store(dataset.train), store(dataset.val), None, None, {"fingerprint": {}}, {})
    marks, windows, validate = [], train.epoch_windows, train.validate  # the epoch's steps lie between these two calls
    train.epoch_windows = lambda *given: (marks.append(CLOCKS[job["clock"]]()), windows(*given))[1]
    train.validate = lambda *given: (marks.append(CLOCKS[job["clock"]]()), validate(*given))[1]
    with tempfile.TemporaryDirectory() as out:
        flags = train.read_flags(["--model", job["model"], "--max-len", str(job["max_len"]), "--batch-size", str(job["batch"]), "--epochs", "1",
                                  "--out", out, "--quiet", "--truncate", job.get("truncate", "right"), *(["--amp"] if job["way"] == "amp" else [])])
        device, silent = torch.device("cpu"), lambda line: None
        model = train.build_model(flags, 0, task, device, silent)
        for batch, _, _ in train.MicroBatches(flags, task, "train", windows(flags, task, job["batch"], 0, 1), model.config).start(device, 0):
            shape.count(batch["attention_mask"])
        with train.Stop() as stop:
            train.fit(flags, 0, Path(out), task, model, device, devices.choose_precision(device, flags.amp)[0], Processes(), stop, silent)
    return marks[1] - marks[0]


def train_transformers(job: dict[str, Any], texts: list[str], labels: list[int], shape: Shape) -> float:
    from torch.utils.data import DataLoader
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, get_linear_schedule_with_warmup

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(job["model"])
    more = {"attention_probs_dropout_prob": 0.0} if job["way"] == "grouped" else {}
    model = AutoModelForSequenceClassification.from_pretrained(job["model"], num_labels=2, **more).train()
    padding = "max_length" if job["way"] == "padded" else False
    encoded = tokenizer(texts, truncation=True, max_length=job["max_len"], padding=padding)
    rows = [{"input_ids": ids, "attention_mask": mask, "labels": label}
            for ids, mask, label in zip(encoded["input_ids"], encoded["attention_mask"], labels)]
    order: Any = {"shuffle": True, "batch_size": job["batch"]}
    if job["way"] == "grouped":
        by_length = np.argsort([len(r["input_ids"]) for r in rows], kind="stable")
        buckets = np.array_split(by_length, len(rows) // job["batch"])
        order = {"batch_sampler": [buckets[i].tolist() for i in np.random.default_rng(0).permutation(len(buckets))]}
    batches = DataLoader(rows, collate_fn=DataCollatorWithPadding(tokenizer), **order)
    optimizer = torch.optim.AdamW([{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.01},
                                   {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}], lr=2e-5)
    schedule = get_linear_schedule_with_warmup(optimizer, len(batches) // 10, len(batches))
    clock = CLOCKS[job["clock"]]
    start = clock()
    for batch in batches:
        shape.count(batch["attention_mask"])
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        loss.item()
    return clock() - start


def timed(job: dict[str, Any], texts: list[str], predict: Callable[[list[str]], Any]) -> float:
    """Seconds to predict all texts (one at a time for `single`), after a first call that is not counted."""
    clock = CLOCKS[job["clock"]]
    predict(texts[:2])
    start = clock()
    for part in ([t] for t in texts) if job["kind"] == "single" else [texts]:
        predict(part)
    return clock() - start


def predict_minibert(job: dict[str, Any], texts: list[str], shape: Shape) -> float:
    from minibert.convert import load_classifier
    from minibert.predictor import Predictor, token_budget_batches
    from minibert.tokenization import load_tokenizer

    silent = lambda line: None
    predictor = Predictor.from_parts(load_classifier(job["model"], 2, labels=["neg", "pos"], say=silent), load_tokenizer(job["model"]),
                                     {"labels": ["neg", "pos"], "multi_label": False, "max_len": job["max_len"], "truncate": "right"},
                                     precision="fast" if job["way"] == "fast" else "fp32", device="cpu", say=silent)
    windows = [w for of_text in predictor.encode(texts) for w in of_text]
    lengths = np.array([len(w.input_ids) for w in windows])
    for rows in token_budget_batches(lengths, predictor.batch_tokens) if job["kind"] != "single" else ([i] for i in range(len(texts))):
        shape.count(predictor.tokenizer.pad([windows[i] for i in rows])["attention_mask"])
    return timed(job, texts, predictor.predict)


def reference(job: dict[str, Any]) -> tuple[Any, Any]:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    return AutoTokenizer.from_pretrained(job["model"]), AutoModelForSequenceClassification.from_pretrained(job["model"], num_labels=2).eval()


def batches_of(order: Iterable[int], size: int) -> list[list[int]]:
    order = list(order)
    return [order[i:i + size] for i in range(0, len(order), size)]


def predict_pipeline(job: dict[str, Any], texts: list[str], shape: Shape) -> float:
    from transformers import pipeline
    tokenizer, model = reference(job)
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    for rows in batches_of(range(len(texts)), job["batch"]):
        shape.count(tokenizer([texts[i] for i in rows], truncation=True, max_length=job["max_len"], padding=True, return_tensors="np")["attention_mask"])
    return timed(job, texts, lambda part: classify(part, batch_size=job["batch"], truncation=True, max_length=job["max_len"]))


def predict_sorted(job: dict[str, Any], texts: list[str], shape: Shape) -> float:
    tokenizer, model = reference(job)

    def predict(part: list[str], count: bool = False) -> None:
        for rows in batches_of(np.argsort([-len(t) for t in part], kind="stable"), job["batch"]):
            batch = tokenizer([part[i] for i in rows], truncation=True, max_length=job["max_len"], padding=True, return_tensors="pt")
            if count:
                shape.count(batch["attention_mask"])
            else:
                with torch.inference_mode():
                    model(**batch).logits.softmax(-1).tolist()

    predict(texts, count=True)
    return timed(job, texts, predict)


def predict_onnx(job: dict[str, Any], texts: list[str], shape: Shape) -> float:
    import onnxruntime
    tokenizer, model = reference(job)
    path = Path(job["work"]) / f"{Path(job['model']).name}.onnx"
    if not path.exists():
        export_onnx(tokenizer, model, path)
    if job["way"] == "onnx-int8":
        whole, path = path, path.with_suffix(".int8.onnx")
        if not path.exists():
            from onnxruntime.quantization import QuantType, quantize_dynamic
            quantize_dynamic(whole, path, weight_type=QuantType.QInt8, per_channel=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job["threads"]
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def predict(part: list[str], count: bool = False) -> None:
        encoded = tokenizer(part, truncation=True, max_length=job["max_len"])
        order = np.argsort([-len(ids) for ids in encoded["input_ids"]], kind="stable")
        for rows in batches_of(order, job["batch"]):
            batch = tokenizer.pad({k: [encoded[k][i] for i in rows] for k in encoded}, return_tensors="np")
            if count:
                shape.count(batch["attention_mask"])
            else:
                session.run(["logits"], {k: batch[k].astype(np.int64) for k in ("input_ids", "attention_mask", "token_type_ids")})

    predict(texts, count=True)
    return timed(job, texts, predict)


def export_onnx(tokenizer: Any, model: Any, path: Path) -> None:
    batch = tokenizer(["one text", "another, longer text"], padding=True, return_tensors="pt")
    names = ["input_ids", "attention_mask", "token_type_ids"]
    axes = {0: "rows", 1: "tokens"}
    torch.onnx.export(model, tuple(batch[k] for k in names), str(path), input_names=names, output_names=["logits"],
                      dynamic_axes={**{k: axes for k in names}, "logits": {0: "rows"}}, dynamo=False, opset_version=17)


PREDICT = {"minibert": predict_minibert, "fast": predict_minibert, "pipeline": predict_pipeline, "sorted": predict_sorted,
           "onnx": predict_onnx, "onnx-int8": predict_onnx}

if __name__ == "__main__":
    main()
