"""Files that are whole or not there: atomic writes, a folder lock, and storage faults in words."""

from __future__ import annotations

import contextlib
import csv
import errno
import fcntl
import hashlib
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator

from .cli import UserError

_STORAGE = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EFBIG: "the file would be larger than the limit of this account or file system; raise it (`ulimit -f`) or choose another folder",
    errno.ENOENT: "no folder can be made there; choose another path",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.EACCES: "permission denied; choose a folder you may write to",
    errno.EPERM: "permission denied; choose a folder you may write to",
    errno.ENOTDIR: "a part of this path is a file, not a folder; choose another path",
    errno.EISDIR: "a folder stands where the file should go; choose another path",
    errno.EEXIST: "a file stands where the folder should go; choose another path",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
}


@contextlib.contextmanager
def storage_faults(doing: str) -> Iterator[None]:
    """Turn an OSError of the disk's (full, read-only, …) into a UserError: "cannot <doing>: …"."""
    try:
        yield
    except UserError:
        raise
    except Exception as e:
        why = _STORAGE.get(_error_number(e)) or ("its name holds a NUL; choose another" if "embedded null" in str(e) else None)
        if why is None:
            raise
        raise UserError(f"cannot {doing}: {why}; what was already written is untouched.") from e


def _error_number(e: BaseException | None) -> int | None:
    """The system's number behind an error: torch raises its own while it handles an OSError, and safetensors, written
    in Rust, has the number in its message only.
    """
    if e is None or isinstance(e, OSError):
        return e and e.errno
    found = re.search(r"\(os error (\d+)\)", str(e))
    return int(found.group(1)) if found else _error_number(e.__context__)


def write_atomic(path: str | os.PathLike, write: bytes | str | Callable[[str], Any]) -> None:
    """Write `path` whole or not at all: temporary file beside it, fsync, rename, fsync of the folder.

    `write` is the content, or a function that is given the temporary path and writes it.
    Raises UserError for a full or read-only disk; the previous file then survives.
    """
    path = Path(path)
    temp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with storage_faults(f"write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            if callable(write):
                write(str(temp))
                with open(temp, "rb+") as f:
                    os.fsync(f.fileno())
            else:
                with open(temp, "wb") as f:
                    f.write(write.encode("utf-8") if isinstance(write, str) else write)
                    f.flush()
                    os.fsync(f.fileno())
            os.chmod(temp, 0o666 & ~_umask())  # some writers make private files
            os.replace(temp, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temp)
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Strict JSON (no NaN), indented, atomically."""
    write_atomic(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | os.PathLike, what: str = "file") -> Any:
    """The value in a JSON file. Raises UserError if it is missing, unreadable or not JSON."""
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: the {what} is missing.") from None
    except (ValueError, RecursionError) as e:  # bad UTF-8, bad JSON, a number of 5,000 digits
        raise UserError(f"{path} (the {what}) is damaged, or not what its name says: it is not valid JSON ({e}).") from None
    except OSError as e:
        raise UserError(f"{path} cannot be read: {e.strerror}.") from None


def write_csv(path: str | os.PathLike, header: list[str], rows: Iterable[Iterable[Any]]) -> None:
    """A CSV file (UTF-8, `\\n` line ends), atomically."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(header)
    out.writerows(rows)
    write_atomic(path, text.getvalue())


def sha256(*parts: bytes | str) -> str:
    """Hex SHA-256 of the parts, each length-prefixed so that ("ab","c") and ("a","bc") differ."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()


@contextlib.contextmanager
def folder_lock(folder: str | os.PathLike, what: str) -> Iterator[None]:
    """Hold `folder/.lock` while the block runs; a second holder gets a UserError at once.

    The kernel drops the lock with the process, so a crash leaves nothing to clean up. Some network file systems have
    no locks: there the block runs without one, and stderr says so. Nobody could work there otherwise, and what the
    lock prevents is a rare mistake.
    """
    folder = Path(folder)
    with storage_faults(f"write to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        handle = open(folder / ".lock", "a")
    # A forked data loader's worker would hold the lock for seconds after its parent was killed.
    os.register_at_fork(after_in_child=handle.close)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            if e.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise UserError(f"{folder} is in use by another process ({what}); wait for it or choose another folder.") from None
            if e.errno not in (errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS):
                raise
            print(f"warning: the file system of {folder} has no locks, so nothing keeps a second process ({what}) out of it; "
                  "start none.", file=sys.stderr, flush=True)
        yield
    finally:
        handle.close()
