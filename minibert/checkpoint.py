"""Run folders and resumable states: what is on disk is whole, checked, and never unpickled unsafely."""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from .cli import UserError
from .files import read_json, storage_faults, write_atomic, write_json

STATE_FORMAT = 2


def file_sha256(path: str | os.PathLike) -> str:
    """Hex SHA-256 of a file, read in pieces."""
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while piece := f.read(1 << 22):
            h.update(piece)
    return h.hexdigest()


# ---------------------------------------------------------------------- finished runs

@dataclass
class Run:
    """A finished run folder. `info` is its run.json."""

    folder: Path
    info: dict[str, Any]


def finished(folder: str | os.PathLike) -> bool:
    """run.json is written last, so its presence means that the run ended and everything else is there."""
    return (Path(folder) / "run.json").is_file()


def load_run(folder: str | os.PathLike, verify: bool = True) -> Run:
    """A run folder's run.json; with `verify` its weights and tokenizer are compared with their recorded checksums.

    Raises UserError when there is no run, when it has not ended, or when a file was changed or cut since.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; give the run folder that train.py printed.")
    if not finished(folder):
        if (folder / "state").is_dir():
            raise UserError(f"{folder} holds a run that has not ended; finish it with "
                            f"`python train.py --resume --out {folder}` and its other flags.")
        raise UserError(f"{folder} has no run.json: it is not a run folder of train.py's, or lost its record; restore the file or retrain.")
    info = read_json(folder / "run.json", "record of the run")
    if not isinstance(info, dict) or not isinstance(info.get("files"), dict):
        raise UserError(f"{folder / 'run.json'} is not a record that train.py wrote; retrain, or restore the file.")
    if verify:
        for name, digest in info["files"].items():
            path = folder / name
            if not path.is_file():
                raise UserError(f"{path} is missing: the run folder is incomplete; restore the file or retrain.")
            if file_sha256(path) != digest:
                raise UserError(f"{path} is not the file that training wrote (its checksum differs): it was altered "
                                "or cut; restore it or retrain.")
    return Run(folder, info)


def seed_folders(folder: str | os.PathLike) -> list[Path]:
    """The seed-N sub-folders of a family of runs, by seed; [] for a single run."""
    found = [p for p in Path(folder).glob("seed-*") if p.name[5:].isascii() and p.name[5:].isdigit() and p.is_dir()]
    return sorted(found, key=lambda p: int(p.name[5:]))


def seal_run(folder: str | os.PathLike, info: dict[str, Any], files: list[str]) -> None:
    """Write run.json, the last file of a run, with the checksums of `files`; then remove the resumable state."""
    folder = Path(folder)
    with storage_faults(f"read back {folder}"):
        for left in folder.glob(".*.tmp"):  # by processes that were killed while writing
            left.unlink(missing_ok=True)
        sums = {name: file_sha256(folder / name) for name in files}
    write_json(folder / "run.json", {**info, "files": sums})
    clear_state(folder)


def read_wiring(folder: str | os.PathLike, flags: dict[str, Any]) -> dict[str, Any] | None:
    """The record that `train.py --overfit` left in a run's folder, if it was of the same data, model and head."""
    for place in (Path(folder), Path(folder).parent):  # a seed's folder lies in its family's
        if (place / "wiring.json").is_file():
            found = read_json(place / "wiring.json", "record of the wiring check")
            if isinstance(found, dict) and all(found.get(k) == flags[k] for k in ("data", "model", "head")):
                return found
    return None


# ---------------------------------------------------------------------- resumable states

def _plain(value: Any) -> Any:
    """Refuse anything the safe loader would refuse on the way back in, now rather than after the crash."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)) and type(value) in (bool, int, float, str) \
            or isinstance(value, torch.Tensor):
        return value
    raise TypeError(f"a state holds plain Python and tensors only, not {type(value).__name__}")


def save_state(folder: str | os.PathLike, state: dict[str, Any]) -> None:
    """Write a resumable state. The one before stays until this one is whole.

    `state.json` names the tensor file and its checksum and is replaced last: a crash at any moment leaves a
    state.json that points at a complete file. So no state may be written over the one that state.json names:
    each has its place in the training in its name (two states can share an optimizer step: before and after
    validation).
    """
    where = Path(folder) / "state"
    name = f"state-{state['epoch']:04d}-{state['window']:08d}.pt"

    def write(temp: str) -> None:
        with open(temp, "wb") as f:  # given a path, torch would hide why a write failed
            torch.save(_plain(state), f)

    write_atomic(where / name, write)
    write_json(where / "state.json", {"format": STATE_FORMAT, "file": name, "sha256": file_sha256(where / name)})
    _tidy(where, {name, state["best_file"], "state.json"})


def save_best(folder: str | os.PathLike, epoch: int, weights: dict[str, torch.Tensor]) -> tuple[str, str]:
    """Write the best weights so far under their epoch's name; (name, checksum) go into the next state.

    `state_dict()` hands out live tensors that go on changing; what is on disk does not.
    """
    path = Path(folder) / "state" / f"best-{epoch}.safetensors"
    tensors = {k: v.detach().to("cpu", copy=True).contiguous() for k, v in weights.items()}
    write_atomic(path, lambda temp: save_file(tensors, temp))
    return path.name, file_sha256(path)


def load_best(folder: str | os.PathLike, name: str, sha256: str) -> dict[str, torch.Tensor]:
    """The weights written by `save_best`. Raises UserError when they are missing or altered."""
    path = Path(folder) / "state" / name
    if not path.is_file() or file_sha256(path) != sha256:
        raise UserError(f"{path} is missing, cut or altered, so the best epoch is lost; start over with --overwrite.")
    return load_file(path)


def has_state(folder: str | os.PathLike) -> bool:
    return (Path(folder) / "state" / "state.json").is_file()


def load_state(folder: str | os.PathLike) -> dict[str, Any]:
    """The last whole state. Raises UserError when it is missing, altered or of another format."""
    where = Path(folder) / "state"
    head = read_json(where / "state.json", "state to resume from")
    if not isinstance(head, dict) or head.get("format") != STATE_FORMAT or not isinstance(head.get("file"), str):
        raise UserError(f"{where / 'state.json'} is of another format than this version's; start over with --overwrite.")
    path = where / Path(head["file"]).name
    if not path.is_file() or file_sha256(path) != head.get("sha256"):
        raise UserError(f"{path} is missing, cut or altered, so the run cannot go on from it; start over with --overwrite.")
    return torch.load(path, map_location="cpu", weights_only=True)


def _tidy(where: Path, keep: set[str | None]) -> None:
    for path in where.iterdir():
        if path.name not in keep and path.name.startswith(("state-", "best-", ".")):
            with contextlib.suppress(OSError):
                path.unlink()


def clear_state(folder: str | os.PathLike) -> None:
    """Remove what resume needs; nothing else lives in `state/`."""
    where = Path(folder) / "state"
    if not where.is_dir():
        return
    with storage_faults(f"clear {where}"):
        (where / "state.json").unlink(missing_ok=True)  # first: without it the rest is no state, wherever this stops
    _tidy(where, set())
    with contextlib.suppress(OSError):
        where.rmdir()


def difference(saved: dict[str, Any], now: dict[str, Any]) -> str:
    """The first few differences between two flat records, in words; "" when there is none."""
    lines = [f"{k} was {saved.get(k)!r}, is {now.get(k)!r}" for k in sorted(saved.keys() | now.keys())
             if saved.get(k) != now.get(k)]
    return "; ".join(lines[:4]) + (f"; and {len(lines) - 4} more" if len(lines) > 4 else "")
