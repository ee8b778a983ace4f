"""The run of RUN once more, written the usual way with transformers: accuracy and time beside ours.

    python tests/benchmarks/imdb_transformers.py RUN [--test-rows 25000] [--attention-dropout 0.1]

RUN is a finished run folder of train.py on a pretrained model: its rows (limit and split included), weights, length,
truncation (left or right), batch size, rate, epochs and seed are taken from its run.json. Everything else is the usual
hand-written loop: AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, shuffled batches, AdamW, a
linear schedule with warmup; dropout as in RUN, which has no attention dropout on a CPU unless asked (transformers is
slower with it, see speed.py): `--attention-dropout 0.1` is what a checkpoint usually asks for. `--test-rows 0` leaves the
test set alone. Times are seconds of the wall clock and of the processor.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import accuracy_score, f1_score
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, get_linear_schedule_with_warmup

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
from evaluate import data_of_training  # noqa: E402  (the rows only)
from minibert import checkpoint  # noqa: E402


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("run")
    p.add_argument("--test-rows", type=int, default=25_000, help="how many of the test rows (drawn at random, seed 0)")
    p.add_argument("--attention-dropout", type=float, help="other than RUN's")
    given = p.parse_args()
    info = checkpoint.load_run(Path(given.run)).info
    flags, ours = info["flags"], given.run
    dataset = data_of_training(flags, quiet=True)
    train = dataset.train
    assert train.fingerprint() == info["data"]["fingerprint"]["train"], "these are not the rows of the run"
    test = dataset.test.take(np.sort(np.random.default_rng(0).permutation(len(dataset.test))[:given.test_rows]))

    attention = info["dropout"]["attention"] if given.attention_dropout is None else given.attention_dropout
    torch.manual_seed(info["seed"])
    tokenizer = AutoTokenizer.from_pretrained(info["model"], truncation_side=flags["truncate"])
    model = AutoModelForSequenceClassification.from_pretrained(info["model"], num_labels=len(dataset.labels),
                                                               attention_probs_dropout_prob=attention,
                                                               hidden_dropout_prob=info["dropout"]["hidden"])
    collate = DataCollatorWithPadding(tokenizer)

    def loader(split, shuffle, size):
        encoded = tokenizer(split.texts, truncation=True, max_length=flags["max_len"], padding=False)
        rows = [{"input_ids": ids, "attention_mask": [1] * len(ids), "labels": int(label)} for ids, label in zip(encoded["input_ids"], split.labels)]
        return DataLoader(rows, batch_size=size, shuffle=shuffle, collate_fn=collate)

    def evaluate(split, name):
        model.eval()
        wall, cpu, predicted, truth = time.monotonic(), time.process_time(), [], []
        with torch.no_grad():
            for batch in loader(split, False, 2 * flags["batch_size"]):
                truth += batch.pop("labels").tolist()
                predicted += model(**batch).logits.argmax(-1).tolist()
        print(f"{name} ({len(split):,} rows): accuracy {accuracy_score(truth, predicted):.4f}  macro_f1 {f1_score(truth, predicted, average='macro'):.4f}"
              f"  wall {time.monotonic() - wall:.0f} s  cpu {time.process_time() - cpu:.0f} s", flush=True)

    decayed = [p for n, p in model.named_parameters() if p.dim() > 1]
    plain = [p for n, p in model.named_parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": flags["weight_decay"]}, {"params": plain, "weight_decay": 0.0}], lr=flags["lr"])
    batches = loader(train, True, flags["batch_size"])
    total = len(batches) * flags["epochs"]
    schedule = get_linear_schedule_with_warmup(optimizer, int(total * flags["warmup_ratio"]), total)
    print(f"transformers, the same rows and settings as {ours}: {len(train):,} rows, {total:,} steps, {torch.get_num_threads()} thread(s), "
          f"attention dropout {attention:g}; ours took {info['seconds']:.0f} s of wall clock")
    for epoch in range(1, flags["epochs"] + 1):
        model.train()
        wall, cpu, losses = time.monotonic(), time.process_time(), []
        for batch in batches:
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), flags["max_grad_norm"])
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        print(f"epoch {epoch}: train_loss {np.mean(losses):.4f}  wall {time.monotonic() - wall:.0f} s  cpu {time.process_time() - cpu:.0f} s", flush=True)
        evaluate(dataset.val, "val")
    if len(test):
        evaluate(test, "test")


if __name__ == "__main__":
    main()
