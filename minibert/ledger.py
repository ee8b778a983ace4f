"""The ledger of looks: how often a test set has been looked at, by anyone, with any model, on this machine.

A test set is honest once. Each later look lets its figures steer a choice, and the next figure is then optimistic by an
amount nobody can compute. So looks are counted outside any run folder, by the fingerprint of the test texts and labels:
another run, another seed or a copied folder does not start again at one.

One line of JSON per look, in `$MINIBERT_STATE/looks/<fingerprint>.jsonl` (default ~/.local/state/minibert).
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
from pathlib import Path


def folder() -> Path:
    """Where the ledger lies."""
    state = os.environ.get("MINIBERT_STATE") or Path.home() / ".local" / "state" / "minibert"
    return Path(state).expanduser() / "looks"


def looks(fingerprint: str) -> list[dict] | None:
    """The looks so far, oldest first: {"date", "runs"}; None where the ledger cannot be read.

    A damaged line is a look of unknown date: it is counted, for the doubt goes against the figure.
    """
    try:
        lines = (folder() / f"{fingerprint}.jsonl").read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        return None
    return [_read(line) for line in lines if line.strip()]


def record(fingerprint: str, runs: list[str]) -> int | None:
    """Write one look by `runs` down and return its number, 1 for the first; None where it cannot be written."""
    entry = {"date": datetime.datetime.now().isoformat(" ", "minutes"), "runs": runs}
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with open(folder() / f"{fingerprint}.jsonl", "a", encoding="utf-8") as ledger:
            fcntl.flock(ledger, fcntl.LOCK_EX)  # two evaluations at once must not share a number
            ledger.write(json.dumps(entry) + "\n")
            ledger.flush()
            os.fsync(ledger.fileno())
            found = looks(fingerprint)
            return None if found is None else len(found)
    except (OSError, RuntimeError):
        return None


def _read(line: str) -> dict:
    try:
        entry = json.loads(line)
        return {"date": str(entry["date"]), "runs": [str(r) for r in entry["runs"]]}
    except (ValueError, TypeError, KeyError):
        return {"date": "an unknown date", "runs": []}
