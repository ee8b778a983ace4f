"""One thread (the models here are tiny; more threads would only wait for each other), and no trace outside tmp."""

import os
import signal
import sys
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"  # a test that wants a hub starts its own on 127.0.0.1
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as `&` in a script leaves it, and every process started here would be deaf to it
    signal.signal(signal.SIGINT, signal.default_int_handler)

import torch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def state_in_tmp(tmp_path_factory, monkeypatch):
    """Caches and the ledger of looks go to a temporary folder, never to the user's own."""
    monkeypatch.setenv("MINIBERT_STATE", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setenv("MINIBERT_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
