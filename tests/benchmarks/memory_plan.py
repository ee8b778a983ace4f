"""The memory plan that train.py prints, beside what training steps really take: `python tests/benchmarks/memory_plan.py`

One process per row. Measured is the highest resident memory of a few optimizer steps on rows of full length, minus what
was resident before the model was built (after a step of a toy model, which loads the libraries' code). Linux only.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

BASE = dict(vocab_size=30522)
MINILM = dict(vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
SIZES = {"tiny": "TINY", "MiniLM": MINILM, "BERT-base": BASE}
ROWS = [  # model, batch, tokens, hidden dropout, attention dropout, implementation
    ("tiny", 64, 64, 0.0, 0.0, "sdpa"), ("tiny", 64, 256, 0.0, 0.0, "sdpa"), ("tiny", 64, 256, 0.1, 0.1, "sdpa"),
    ("MiniLM", 16, 128, 0.0, 0.0, "sdpa"), ("MiniLM", 16, 128, 0.1, 0.0, "sdpa"), ("MiniLM", 16, 128, 0.1, 0.1, "sdpa"),
    ("MiniLM", 16, 256, 0.0, 0.0, "sdpa"), ("MiniLM", 16, 256, 0.1, 0.0, "sdpa"), ("MiniLM", 16, 256, 0.1, 0.1, "sdpa"),
    ("MiniLM", 16, 256, 0.1, 0.1, "eager"), ("BERT-base", 4, 128, 0.1, 0.0, "sdpa"),
]
STEPS = 3
MIB = 2**20


def highest() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def measure(row: int) -> str:
    """One row of the table, in this process."""
    import torch
    import train
    from minibert import devices
    from minibert.config import EncoderConfig
    from minibert.model import Classifier
    from minibert.optimization import make_optimizer, parameter_groups

    name, batch, length, hidden, attention, implementation = ROWS[row]
    sizes = {**train.TINY, "vocab_size": train.TINY_VOCABULARY} if name == "tiny" else SIZES[name]
    cpu = torch.device("cpu")

    def steps(config: EncoderConfig, batch: int, length: int, count: int) -> Classifier:
        model = Classifier(config, 2, "linear", implementation)
        groups = parameter_groups(model, 1e-5, 0.01, 1.0)
        optimizer = make_optimizer(groups, cpu)
        trained = [p for g in groups for p in g["params"]]
        for _ in range(count):
            ids = torch.randint(config.vocab_size, (batch, length))
            optimizer.zero_grad(set_to_none=True)
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), token_type_ids=torch.zeros_like(ids))
            torch.nn.functional.cross_entropy(logits.float(), ids[:, 0] % 2, reduction="sum").backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
        return model

    steps(EncoderConfig(vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8), 2, 8, 2)
    config = EncoderConfig(**{**sizes, "hidden_dropout_prob": hidden, "attention_probs_dropout_prob": attention})
    before = devices.resident_memory()
    model = steps(config, batch, length, STEPS)
    measured = highest() - before
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    plan = devices.memory_plan(config, trained, sum(p.numel() for p in model.parameters()) - trained, batch, length,
                               precision="fp32", attention_dropout=attention, hidden_dropout=hidden,
                               fused_attention=implementation == "sdpa" and attention == 0)
    planned = sum(plan.values())
    return (f"| {name} | {batch} × {length} | {hidden:g} | {attention:g} | {implementation} | {planned / MIB:,.0f} | {measured / MIB:,.0f} | "
            f"{planned / measured:.2f} |")


def main() -> None:
    if len(sys.argv) > 1:
        print(measure(int(sys.argv[1])))
        return
    print("| model | batch | hidden dropout | attention dropout | attention | planned MiB | measured MiB | planned / measured |")
    print("|---|---|---|---|---|---|---|---|")
    for row in range(len(ROWS)):
        done = subprocess.run([sys.executable, __file__, str(row)], capture_output=True, text=True)
        print(done.stdout.strip() or done.stderr, flush=True)


if __name__ == "__main__":
    main()
