"""Sources: a name, a file, a folder or an archive → tables of text cells with their line numbers.

Everything is read as text: no cell is guessed into a number, a bool or a missing value, because "NA", "null" and
"01" are words and labels to somebody. Nothing is extracted to disk, and every read is bounded.
"""

from __future__ import annotations

import codecs
import csv
import dataclasses
import json
import os
from pathlib import Path
from typing import Any, Iterator

from . import cli, imdb
from .cli import UserError

EMBEDDED = ("reviews", "tickets", "aspects")  # data/NAME.csv of the repository
NAMES = (*EMBEDDED, "imdb")
SUFFIXES = (".csv", ".tsv", ".jsonl")

_NO_TEXT = {b"\x1f\x8b": "compressed (gzip)", b"PK\x03\x04": "a zip archive or a spreadsheet (.xlsx, .ods)",
            b"\xd0\xcf\x11\xe0": "a spreadsheet (.xls)", b"PAR1": "a Parquet file"}  # first bytes → what has them

MAX_CELL = 10_000_000  # characters in one cell or line; a longer one is a damaged file (an unclosed quote), not a text


@dataclasses.dataclass
class Table:
    """Rows of one file (or of one half of IMDB): `columns[name][i]` is a cell of the row that starts at `lines[i]`."""

    where: str
    columns: dict[str, list[str]]
    lines: list[int]
    notes: list[str] = dataclasses.field(default_factory=list)

    def __len__(self) -> int:
        return len(self.lines)


def cache_folder() -> Path:
    """`$MINIBERT_CACHE`, by default ~/.cache/minibert."""
    return Path(os.environ.get("MINIBERT_CACHE") or Path.home() / ".cache" / "minibert").expanduser()


def found_again(typed: str | None, then: str | None) -> str | None:
    """A path as it was typed or, where that leads nowhere from here, as run.json says it led to `then`."""
    lost = typed and typed not in NAMES and not os.path.exists(typed)
    return then if lost and then and os.path.exists(then) else typed


def read_source(spec: str | os.PathLike, text_cols: list[str], label_cols: list[str], *, multi_label: bool = False,
                quiet: bool = False) -> tuple[str, dict[str, Table]]:
    """The tables behind `spec`: reviews, tickets, aspects, imdb, or the path of a file, folder or aclImdb archive.

    Returns (a short name, tables by "train", "val", "test"; a file without splits is one table under "all").
    Raises UserError for what is missing, damaged or not understood.
    """
    spec = str(spec)
    if spec in EMBEDDED:
        path = Path(__file__).resolve().parent.parent / "data" / f"{spec}.csv"
        table = read_table(path, text_cols, label_cols, multi_label=multi_label)
        return spec, split_column(dataclasses.replace(table, where=f"data/{spec}.csv"))
    path = imdb.download(cache_folder(), quiet=quiet) if spec == "imdb" else Path(spec)
    try:
        is_file, is_folder = path.is_file(), path.is_dir()
        extracted = next((f for f in (path, path / "aclImdb") if (f / "train" / "pos").is_dir()), None)
    except (OSError, ValueError) as e:  # a name too long for the file system, one with a NUL in it, a closed folder
        raise UserError(f"--data {spec[:80]!r} cannot be opened ({getattr(e, 'strerror', e)}).") from None

    if is_file and path.name.lower().endswith((".tar.gz", ".tgz")):
        return "imdb", _imdb_tables(path, imdb.read_archive(path, quiet), text_cols, label_cols)
    if extracted:
        return "imdb", _imdb_tables(extracted, imdb.read_folder(extracted, quiet), text_cols, label_cols)
    if is_folder:
        return path.resolve().name, read_folder(path, text_cols, label_cols, multi_label=multi_label)
    if is_file and path.suffix.lower() in SUFFIXES:
        return path.stem, split_column(read_table(path, text_cols, label_cols, multi_label=multi_label))
    if path.exists():
        raise UserError(f"{path} is not a kind of data file this program reads: use .csv, .tsv, .jsonl, a folder "
                        f"with train.*, or an aclImdb .tar.gz.")
    raise UserError(f"--data {spec!r} is neither a known name ({', '.join(NAMES)}) nor an existing file or folder"
                    f"{cli.nearest(spec, NAMES)}.")


def _imdb_tables(where: Path, splits: dict[str, imdb.Columns], text_cols: list[str], label_cols: list[str]
                 ) -> dict[str, Table]:
    if (text_cols, label_cols) != (["text"], ["label"]):
        raise UserError("IMDB is not a table: leave --text-col and --label-col out.")
    running = lambda columns: list(range(1, len(columns["text"]) + 1))
    return {split: Table(str(where), columns, running(columns)) for split, columns in splits.items()}


def read_folder(folder: Path, text_cols: list[str], label_cols: list[str], *, multi_label: bool) -> dict[str, Table]:
    """A folder with `train.*` and optionally `val.*` and `test.*` (csv, tsv or jsonl)."""
    try:
        names = sorted(p.name for p in folder.iterdir())
    except OSError as e:
        raise UserError(f"{folder} cannot be read: {e.strerror}.") from None
    tables = {}
    for split in ("train", "val", "test"):
        found = [name for name in names if name in [split + suffix for suffix in SUFFIXES]]
        if len(found) > 1:
            raise UserError(f"{folder} holds both {found[0]} and {found[1]}; keep one {split} file.")
        if found:
            tables[split] = read_table(folder / found[0], text_cols, label_cols, multi_label=multi_label)
    if "train" not in tables:
        raise UserError(f"{folder} holds no train.csv, train.tsv or train.jsonl, and no train/pos of an aclImdb folder; "
                        f"put one there or name the file itself.")
    other = next((n for n in names if n.lower().startswith(("dev.", "valid.", "validation.", "eval."))
                  and n.lower().endswith(SUFFIXES)), None)
    if other and "val" not in tables:
        tables["train"].notes.append(f"{other} is not read: a validation file is called val.*")
    return tables


def split_column(table: Table) -> dict[str, Table]:
    """Obey a column `split` that holds only train, val and test; anything else is one table under "all"."""
    column = table.columns.get("split")
    if not column:
        return {"all": table}
    values = {v.strip() for v in column}
    if not values <= {"train", "val", "test"} or "train" not in values:
        table.notes.append(f"the column 'split' is not used: it holds {some(sorted(values))}, not only train, val, test")
        return {"all": table}
    table.notes.append("the column 'split' says which rows are train, val and test")
    parts: dict[str, Table] = {}
    for name in ("train", "val", "test"):
        keep = [i for i, v in enumerate(column) if v.strip() == name]
        if keep:
            cells = {c: [v[i] for i in keep] for c, v in table.columns.items() if c != "split"}
            parts[name] = Table(table.where, cells, [table.lines[i] for i in keep])
    parts["train"].notes = table.notes
    return parts


# ---------------------------------------------------------------------------------------------- csv, tsv, jsonl

def read_table(path: str | os.PathLike, text_cols: list[str], label_cols: list[str], *,
               multi_label: bool = False) -> Table:
    """A whole .csv, .tsv or .jsonl file in memory. Raises UserError with the line for whatever is wrong with it."""
    columns, rows, notes = open_table(path, text_cols, label_cols, multi_label=multi_label)
    cells: list[list[str]] = [[] for _ in columns]
    lines: list[int] = []
    for line, row in rows:
        lines.append(line)
        for column, cell in zip(cells, row):
            column.append(cell)
    return Table(str(path), dict(zip(columns, cells)), lines, notes)


def open_table(path: str | os.PathLike, text_cols: list[str], label_cols: list[str], *, multi_label: bool = False
               ) -> tuple[list[str], Iterator[tuple[int, list[str]]], list[str]]:
    """Stream a file: (its column names, an iterator of (line number, cells), notes on how it was read).

    The columns asked for keep the names they were asked by, even where the header spells them " Text".
    Blank lines are no rows. Raises UserError, also while iterating.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file() and not path.is_dir():  # a pipe never ends, and it can be read once only
            raise UserError(f"{path} is a pipe or a device, and this program reads a table more than once; save it as a file.")
        encoding, notes = _encoding(path)
        if path.suffix.lower() == ".jsonl":
            return _open_jsonl(path, encoding, text_cols, label_cols, multi_label, notes)
        return _open_csv(path, encoding, text_cols + label_cols, notes)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except OSError as e:
        raise UserError(f"{path} cannot be read: {e.strerror}.") from None


def _encoding(path: Path) -> tuple[str, list[str]]:
    with open(path, "rb") as f:
        head = f.read(4096)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", ["read as UTF-16, as its first two bytes say"]
    packed = next((kind for start, kind in _NO_TEXT.items() if head.startswith(start)), None)
    if packed:
        raise UserError(f"{path} is {packed}, not text; save its table as .csv, .tsv or .jsonl.")
    if head and not head.strip(b"\0"):
        raise UserError(f"{path} begins with nothing but zero bytes, as a crash of the machine or a broken copy leaves a file; restore it.")
    if head[:200].count(0) > len(head[:200]) // 4:
        raise UserError(f"{path} looks like UTF-16 without its mark (many of its bytes are zero); save it as UTF-8.")
    return "utf-8-sig", []  # UTF-8, with or without a byte-order mark


def _lines(path: Path, encoding: str) -> Iterator[str]:
    """Lines with their ends kept, none longer than MAX_CELL; bad bytes become a UserError with their offset."""
    with open(path, encoding=encoding, newline="") as f:
        while True:
            try:
                line = f.readline(MAX_CELL)
            except UnicodeError:
                raise UserError(_bad_bytes(path, encoding)) from None
            if not line:
                return
            if len(line) == MAX_CELL and not line.endswith(("\n", "\r")):
                raise UserError(f"{path} holds a line of more than {MAX_CELL:,} characters; is it the file you meant?")
            yield line


def _bad_bytes(path: Path, encoding: str) -> str:
    decoder, fed, lines = codecs.getincrementaldecoder(encoding)(), 0, 1
    with open(path, "rb") as f:
        while True:
            chunk = f.read(1 << 16)
            fed += len(chunk)
            try:
                lines += decoder.decode(chunk, final=not chunk).count("\n")
            except UnicodeDecodeError as e:  # e.object: what was left from before, then this chunk
                offset = fed - len(e.object) + e.start
                wide = encoding == "utf-16"
                lines += e.object[:e.start].count(b"\n\0" if wide else b"\n")
                return (f"{path}, line {lines}: byte {e.object[e.start]:#04x} at offset {offset} is not "
                        f"{'UTF-16' if wide else 'UTF-8'}; save the file as UTF-8 (it may be Windows-1252 or Latin-1).")
            if not chunk:
                return f"{path} is not UTF-8; save it as UTF-8."


def _open_csv(path: Path, encoding: str, need: list[str], notes: list[str]):
    tab_file = path.suffix.lower() == ".tsv"
    candidates = ["\t", ",", ";"] if tab_file else [",", ";", "\t"]
    headers, fault = {}, None
    for d in candidates:
        try:
            headers[d] = _csv_header(path, encoding, d, tab_file)
        except UserError as e:  # "text";"label" is badly quoted only for who takes the comma for the separator
            fault = fault or e
    if not headers:
        raise fault
    if not any(headers.values()):
        raise UserError(f"{path} is empty: it needs a header line with the columns {', '.join(need)}.")
    fits = [d for d in headers if all(_find(n, headers[d]) is not None for n in need)]
    delimiter = fits[0] if fits else max(headers, key=lambda d: len(headers[d]))
    if delimiter != candidates[0]:
        notes.append(f"columns are separated by {'a tab' if delimiter == chr(9) else repr(delimiter)}")
    columns = _name_columns(path, headers[delimiter], need, notes)
    quoting = csv.QUOTE_MINIMAL
    if tab_file and _quotes_are_letters(path, encoding, delimiter):
        quoting = csv.QUOTE_NONE
        notes.append("quote characters are read as part of the text: every line is one row only if they are")
    rows = _csv_rows(path, encoding, delimiter, quoting)
    next(rows)  # the header

    def checked() -> Iterator[tuple[int, list[str]]]:
        for line, row in rows:
            if len(row) != len(columns):
                raise UserError(f"{path}, line {line}: {len(row)} cells where the header has {len(columns)}; put a cell "
                                f"that holds {'a tab' if delimiter == chr(9) else repr(delimiter)} in double quotes.")
            yield line, row
    return columns, checked(), notes


def _csv_header(path: Path, encoding: str, delimiter: str, tab_file: bool) -> list[str]:
    quoting = csv.QUOTE_NONE if tab_file else csv.QUOTE_MINIMAL
    header = next(_csv_rows(path, encoding, delimiter, quoting), (0, []))[1]
    return [name.strip().strip('"') if tab_file else name.strip() for name in header]


def _csv_rows(path: Path, encoding: str, delimiter: str, quoting: int) -> Iterator[tuple[int, list[str]]]:
    """(line where the row starts, cells); strict, so that an unbalanced quote is an error and not a swallowed row."""
    csv.field_size_limit(MAX_CELL)
    reader = csv.reader(_lines(path, encoding), delimiter=delimiter, quoting=quoting, strict=True)
    line = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as e:
            why = {"unexpected end of data": "a double quote is opened and never closed",
                   f"field larger than field limit ({MAX_CELL})":
                       f"a cell has more than {MAX_CELL:,} characters: a double quote was probably not closed"}
            raise UserError(f"{path}, line {line}: {why.get(str(e), f'bad quoting ({e})')}; inside a quoted cell write "
                            f'a double quote twice ("").') from None
        if row:
            yield line, row
        line = reader.line_num + 1


def _quotes_are_letters(path: Path, encoding: str, delimiter: str) -> bool:
    """True for a .tsv whose lines are rows only when `"` is an ordinary character, as most published .tsv are."""
    tabs = {line.count(delimiter) for line in _lines(path, encoding) if line.strip("\r\n")}
    if len(tabs) != 1:
        return False
    plain = sum(1 for _ in _csv_rows(path, encoding, delimiter, csv.QUOTE_NONE))
    try:
        return sum(1 for _ in _csv_rows(path, encoding, delimiter, csv.QUOTE_MINIMAL)) != plain
    except UserError:
        return True


def _find(name: str, columns: list[str]) -> int | None:
    """Where the column is: by its exact name, else by its name without regard to case; None if nowhere or twice."""
    for same in (lambda c: c == name, lambda c: c.casefold() == name.casefold()):
        at = [i for i, c in enumerate(columns) if same(c)]
        if at:
            return at[0] if len(at) == 1 else None
    return None


def _name_columns(path: Path, header: list[str], need: list[str], notes: list[str]) -> list[str]:
    """The header with the needed columns under the names they were asked by; raises UserError if one is missing."""
    columns = list(header)
    twice = sorted({c for c in header if c and header.count(c) > 1})
    if twice:
        raise UserError(f"{path} has two columns called {twice[0]!r}; rename one.")
    for name in need:
        at = _find(name, header)
        if at is None:
            hint = cli.nearest(name, filter(str.isprintable, header))
            raise UserError(f"{path} has no column {name!r}{hint}: its first line names {some(header)}; check that the "
                            f"first line is a header, and rename the column, or choose another where there are --text-col and --label-col.")
        if header[at] != name:
            notes.append(f"the column {header[at]!r} is read as {name!r}")
        columns[at] = name
    return columns


class _Number(str):
    """A JSON number kept as it was written, so that the labels 1 and 1.0 stay two different strings."""


def _not_a_number(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


_JSON = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_not_a_number)


def _open_jsonl(path: Path, encoding: str, text_cols: list[str], label_cols: list[str], multi_label: bool,
                notes: list[str]):
    objects = _json_objects(path, encoding)
    first = next(objects, None)
    if first is None:
        raise UserError(f"{path} is empty: it needs one JSON object a line with the keys "
                        f"{', '.join(text_cols + label_cols)}.")
    keys = [_whole(k.strip(), f"{path}, line {first[0]}: a key") for k in first[1]]
    columns = _name_columns(path, keys, text_cols + label_cols, notes)
    source = dict(zip(columns, first[1]))  # our name → the key in the file

    def cells(line: int, record: dict[str, Any]) -> tuple[int, list[str]]:
        row = []
        for name in columns:
            if source[name] not in record and name in text_cols + label_cols:
                raise UserError(f"{path}, line {line}: the key {source[name]!r} is missing; the line has "
                                f"{some(list(record))}.")
            value = record.get(source[name], "")
            where = f"{path}, line {line}: {name!r}"
            row.append(_json_text(value, where) if name in text_cols else
                       _json_label(value, where, multi_label) if name in label_cols else _json_other(value, where))
        return line, row

    def rows() -> Iterator[tuple[int, list[str]]]:
        yield cells(*first)
        for line, record in objects:
            yield cells(line, record)
    return columns, rows(), notes


def _json_objects(path: Path, encoding: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, text in enumerate(_lines(path, encoding), 1):
        if not text.strip():
            continue
        try:
            record = _JSON.decode(text)
        except (ValueError, RecursionError) as e:
            why = "it is nested too deeply" if isinstance(e, RecursionError) else str(e)
            raise UserError(f"{path}, line {line} is not a JSON object ({why}); write one object a line.") from None
        if not isinstance(record, dict):
            raise UserError(f"{path}, line {line} is a {_kind(record)}, not a JSON object; write one object a line.")
        yield line, record


def _kind(value: Any) -> str:
    return {_Number: "number", str: "string", bool: "true/false", list: "list", dict: "object",
            type(None): "null"}[type(value)]


def _json_text(value: Any, where: str) -> str:
    if type(value) is not str:
        raise UserError(f"{where} is a {_kind(value)} ({str(value)[:40]}), not a string; put the text in quotes.")
    return _whole(value, where)


def _json_label(value: Any, where: str, multi_label: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _whole(value, where)
    if isinstance(value, list) and multi_label:
        if not all(isinstance(v, str) and "|" not in v for v in value):
            raise UserError(f"{where} must list strings without '|'.")
        return _whole("|".join(value), where)
    raise UserError(f"{where} is a {_kind(value)}; a label is a string, a number or true/false"
                    f"{', or a list of strings' if multi_label else ' (a list of labels needs --multi-label)'}.")


def _json_other(value: Any, where: str) -> str:
    return "" if value is None else _whole(value, where) if isinstance(value, str) else json.dumps(value)


def _whole(text: str, where: str) -> str:
    """JSON can spell half a surrogate pair (\\ud800), which no encoding can write and no tokenizer can read."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as e:
        raise UserError(f"{where} holds half a surrogate pair (\\u{ord(text[e.start]):04x}), which is no character; "
                        f"remove it.") from None
    return text


def some(names: list[str], most: int = 12) -> str:
    """The first few names, quoted, and how many more there are."""
    shown = ", ".join(repr(n[:60]) for n in names[:most])
    return (shown or "nothing") + (f" and {len(names) - most} more" if len(names) > most else "")
