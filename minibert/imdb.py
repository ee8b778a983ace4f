"""IMDB: the Large Movie Review Dataset (Maas et al. 2011), read from its archive or folder, downloaded once.

The archive is read in one streaming pass and nothing of it is written to disk; what it claims is never trusted.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import http.client
import io
import os
import re
import tarfile
import urllib.error
import urllib.request
import zlib
from pathlib import Path
from typing import BinaryIO, Iterator

from . import cli, files
from .cli import UserError

URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
MD5 = "7c2ac02c03563afcf9b574c7e56c153a"
LAYOUT = re.compile(r"(?:[^/]+/)?(train|test)/(pos|neg)/(\w[\w.-]*\.txt)", re.ASCII)
MAX_REVIEW = 10_000_000  # bytes; the longest has 13,708 characters
MAX_DOWNLOAD = 1 << 30   # bytes; the archive has 84,125,825
MAX_UNPACKED = 1 << 30   # bytes; it unpacks to about 0.4 GB
MAX_MEMBERS = 300_000    # it has about 100,000
MAX_HEADER = 1 << 16     # bytes of one long-name or pax record, which tarfile reads into memory whole

Columns = dict[str, list[str]]  # "text", "label" (neg or pos), "file"


def read_archive(path: str | os.PathLike, quiet: bool = False) -> dict[str, Columns]:
    """aclImdb_v1.tar.gz (or its labelled part) in one streaming pass, nothing written to disk; `unsup` is ignored.

    A member with an absolute or climbing path, a link, a device, a size beyond reason or a damaged stream: UserError.
    """
    path = Path(path)
    found: dict[tuple[str, str, str], bytes] = {}
    try:
        with open(path, "rb") as raw, gzip.GzipFile(fileobj=raw) as unzipped:
            stream = _Bounded(unzipped, path)
            bar = cli.progress(desc=f"reading {path.name}", total=os.path.getsize(path), unit="B", unit_scale=True,
                               quiet=quiet)
            with bar, tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header) as archive:
                for count, member in enumerate(archive):
                    if count == MAX_MEMBERS:
                        raise UserError(f"{path} has more than {MAX_MEMBERS:,} members; it is not the IMDB archive.")
                    bar.update(raw.tell() - bar.n)
                    key = _member(member, path)
                    if key is None:
                        continue
                    if key in found:
                        raise UserError(f"{path} holds {member.name} twice; it is not the published archive.")
                    found[key] = archive.extractfile(member).read()
            while stream.read(1 << 20):  # to the end, where gzip keeps its checksum
                pass
    # tarfile and gzip meet hostile headers with any of these; all say one thing: this file is no archive we can read
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, OverflowError, IndexError) as e:
        if isinstance(e, UserError):
            raise
        raise UserError(f"{path} is no whole .tar.gz archive ({e}); it is truncated or damaged: fetch it again.") from None
    return _columns(str(path), found)


class _Bounded(io.RawIOBase):
    """The unpacked stream, with an end: a small archive can unpack to petabytes."""

    def __init__(self, stream: BinaryIO, path: Path):
        self.stream, self.path, self.count = stream, path, 0

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(size)
        self.count += len(data)
        if self.count > MAX_UNPACKED:
            raise UserError(f"{self.path} unpacks to more than {MAX_UNPACKED >> 30} GB; it is not the IMDB archive.")
        return data


class _Header(tarfile.TarInfo):
    """A tar header whose size is checked before tarfile acts on it: it reads name records into memory whole."""

    @classmethod
    def frombuf(cls, buf, encoding, errors):
        info = super().frombuf(buf, encoding, errors)
        names = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME,
                 tarfile.GNUTYPE_LONGLINK)
        if info.size < 0 or (info.type in names and info.size > MAX_HEADER) or info.size > MAX_UNPACKED:
            raise UserError(f"the archive has a member of {info.size:,} bytes ({info.name[:60]!r}); it is not the IMDB one.")
        return info


def _member(member: tarfile.TarInfo, path: Path) -> tuple[str, str, str] | None:
    """(split, label, file name) of a labelled review, None for what is not one; raises UserError for what is hostile."""
    name = member.name.removeprefix("./")
    if name.startswith("/") or ".." in name.split("/") or "\\" in name:
        raise UserError(f"{path} holds a member whose path leaves the archive ({member.name[:80]!r}); do not trust it.")
    if not (member.isfile() or member.isdir()) or member.issparse():
        raise UserError(f"{path} holds a link or a device ({member.name[:80]!r}); the IMDB archive has files and folders only.")
    match = LAYOUT.fullmatch(name)
    if match is None or not member.isfile():
        return None
    if member.size > MAX_REVIEW:
        raise UserError(f"{path}: {name} has {member.size:,} bytes; a review has at most {MAX_REVIEW:,}.")
    return match.groups()


def read_folder(folder: Path, quiet: bool = False) -> dict[str, Columns]:
    """An extracted aclImdb folder: {train,test}/{pos,neg}/*.txt."""
    found: dict[tuple[str, str, str], bytes] = {}
    for split in ("train", "test"):
        for label in ("neg", "pos"):
            inside = folder / split / label
            try:
                names = sorted(f for f in inside.iterdir() if LAYOUT.fullmatch(f"{split}/{label}/{f.name}"))
            except OSError:
                continue  # _columns says what is missing
            for file in cli.progress(names, desc=f"reading {split}/{label}", quiet=quiet):
                try:
                    if not file.is_file():  # a pipe would be waited for for ever
                        raise UserError(f"{file} is no ordinary file; is it a review?")
                    with open(file, "rb") as f:
                        data = f.read(MAX_REVIEW + 1)
                except OSError as e:
                    raise UserError(f"{file} cannot be read: {e.strerror}.") from None
                if len(data) > MAX_REVIEW:
                    raise UserError(f"{file} has more than {MAX_REVIEW:,} bytes; is it a review?")
                found[split, label, file.name] = data
    return _columns(str(folder), found)


def _columns(where: str, found: dict[tuple[str, str, str], bytes]) -> dict[str, Columns]:
    """Sorted by split, label and file name, so that archive and folder, on any machine, give the same rows."""
    splits: dict[str, Columns] = {s: {"text": [], "label": [], "file": []} for s in ("train", "test")}
    for split, label, name in sorted(found):
        file = f"{split}/{label}/{name}"
        try:
            text = found[split, label, name].decode("utf-8")
        except UnicodeDecodeError as e:
            raise UserError(f"{where}: {file} is not UTF-8 at byte {e.start}; fetch the archive again.") from None
        for column, cell in (("text", text), ("label", label), ("file", file)):
            splits[split][column].append(cell)
    for split, columns in splits.items():
        missing = {"neg", "pos"} - set(columns["label"])
        if missing:
            raise UserError(f"{where} holds no {split}/{min(missing)}/*.txt: it is not the aclImdb layout "
                            f"(train and test, each with neg and pos), or not all of it.")
    return splits


def download(folder: Path, *, md5: str = MD5, quiet: bool = False) -> Path:
    """The published archive in the cache `folder`, downloaded once, resumed where it stopped, checked against its MD5.

    `$MINIBERT_IMDB_URL` names a mirror. Raises UserError without a network, on a damaged download, on a full disk.
    """
    url = os.environ.get("MINIBERT_IMDB_URL") or URL
    if not url.startswith(("http://", "https://")):
        raise UserError(f"MINIBERT_IMDB_URL is {url!r}; it must start with http:// or https://.")
    target = folder / "aclImdb_v1.tar.gz"
    if target.is_file():
        return target
    with _one_at_a_time(folder):
        if not target.is_file():  # another process may have fetched it while this one waited
            part = target.with_suffix(".part")
            _fetch(url, part, quiet)
            _check_md5(part, md5, url)
            with files.storage_faults(f"write {target}"):
                os.replace(part, target)
    return target


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Processes that want the same download wait for the first; the kernel frees the lock of one that dies."""
    with files.storage_faults(f"write to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        handle = open(folder / ".download.lock", "a")
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch(url: str, part: Path, quiet: bool) -> None:
    """Download to `part`, going on from the bytes it already has (HTTP Range) where the server can."""
    have = part.stat().st_size if part.exists() else 0
    again = f"run the command again to go on, or fetch {url} by other means and pass its path to --data"
    try:
        request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
        with urllib.request.urlopen(request, timeout=30) as answer:
            if answer.status != 206:  # the server sends the whole file whatever was asked
                have = 0
            length = answer.headers.get("Content-Length", "")
            total = have + int(length) if length.isdecimal() else None
            bar = cli.progress(desc="downloading IMDB", total=total, unit="B", unit_scale=True, initial=have, quiet=quiet)
            with files.storage_faults(f"write {part}"), open(part, "ab" if have else "wb") as out, bar:
                while block := answer.read(1 << 18):
                    have += len(block)
                    if have > MAX_DOWNLOAD:
                        raise UserError(f"{url} sends more than {MAX_DOWNLOAD >> 30} GB; it is not the IMDB archive.")
                    out.write(block)
                    bar.update(len(block))
    except urllib.error.HTTPError as e:
        if e.code == 416 and have:  # the part is already complete, or not a part of this file: its MD5 will tell
            return
        raise UserError(f"{url} answered {e.code} {e.reason}; {again}.") from None
    except UserError:
        raise
    except (OSError, ValueError, http.client.HTTPException) as e:  # ValueError: what is no URL
        why = getattr(e, "reason", None) or e
        raise UserError(f"the download of {url} broke off after {have:,} bytes ({why}); {again}.") from None
    if total is not None and have < total:
        raise UserError(f"the download of {url} broke off after {have:,} of {total:,} bytes; {again}.")


def _check_md5(part: Path, md5: str, url: str) -> None:
    with open(part, "rb") as f:
        got = hashlib.file_digest(f, "md5").hexdigest()
    if got != md5:
        part.unlink()
        raise UserError(f"the download of {url} is damaged (MD5 {got}, published {md5}); it was deleted: run the command "
                        f"again.")
