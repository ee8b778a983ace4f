"""The command line: one dataclass becomes the flags, and a user's mistake becomes one sentence.

The lowest room of the house: every other module may import it, it imports none of them.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import errno
import os
import signal
import sys
import time
import traceback
from typing import Any, Callable, Iterable, NoReturn, Sequence


class UserError(ValueError):
    """A mistake of the user's (a wrong file, flag or value): one sentence that says what, where and what to do.

    Scripts print it on stderr and exit with status 2; the server answers 4xx. Never a traceback.
    """


class Interrupted(Exception):
    """SIGINT or SIGTERM arrived and the state is saved: the message says how to go on (exit status 130)."""


def flag(default: Any, help: str, *, choices: Sequence[Any] | None = None, metavar: str | None = None,
         nargs: str | int | None = None, const: Any = None, type: Callable | None = None) -> Any:
    """A dataclass field that is also a command-line flag: `seed: int = flag(42, "…")` becomes `--seed`.

    `help` states the effect; the default is appended. A bool becomes a switch. `nargs="+"` makes a list.
    """
    meta = dict(help=help, choices=choices, metavar=metavar, nargs=nargs, const=const, type=type)
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), metadata=meta)
    return dataclasses.field(default=default, metadata=meta)


def nearest(word: str, known: Iterable[str]) -> str:
    """" (did you mean 'x'?)" when one of `known` is close to `word`, else ""."""
    close = difflib.get_close_matches(str(word), [str(k) for k in known], n=1, cutoff=0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; `{self.prog} --help` lists every flag.")


def parser(spec: type, prog: str, description: str) -> argparse.ArgumentParser:
    """An argparse parser with one flag per dataclass field made by `flag` (others are left out).

    A field whose metadata has no `help` is not a flag. Positional arguments are added by the caller.
    """
    p = _Parser(prog=prog, description=description, allow_abbrev=False, exit_on_error=True,
                formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=30, width=100))
    for f in dataclasses.fields(spec):
        meta = f.metadata
        if "help" not in meta:
            continue
        default = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        name = "--" + f.name.replace("_", "-")
        shown = " ".join(map(str, default)) if isinstance(default, list) else default
        tail = "" if default is None or default is False or default == "" else f" [default: {shown}]"
        kw: dict[str, Any] = dict(dest=f.name, default=argparse.SUPPRESS, help=(meta["help"] + tail).replace("%", "%%"))
        if default is False and meta["nargs"] is None and meta["type"] is None:
            p.add_argument(name, action="store_true", **kw)
            continue
        kw["type"] = meta["type"] or (type(default[0]) if isinstance(default, list) and default
                                      else type(default) if default is not None and not isinstance(default, (bool, list)) else str)
        if meta["nargs"] is not None:
            kw["nargs"] = meta["nargs"]
        if meta["const"] is not None:
            kw["const"] = meta["const"]
        if meta["choices"] is not None:
            choices = list(meta["choices"])
            kw["metavar"] = meta["metavar"] or "{" + ",".join(map(str, choices)) + "}"
            kw["type"] = _one_of(name, choices, kw["type"])
        elif meta["metavar"]:
            kw["metavar"] = meta["metavar"]
        else:
            kw["metavar"] = {int: "N", float: "X"}.get(kw["type"], "VALUE")
        p.add_argument(name, **kw)
    return p


def _one_of(name: str, choices: list, to: Callable) -> Callable:
    def convert(text: str) -> Any:
        try:
            value = to(text)
        except (TypeError, ValueError):
            value = text
        if value not in choices:
            raise argparse.ArgumentTypeError(
                f"'{text}' is not one of {', '.join(map(str, choices))}{nearest(text, choices)}")
        return value
    return convert


def parse(p: argparse.ArgumentParser, argv: Sequence[str]) -> dict[str, Any]:
    """The values given on the command line and no others, by field name.

    Raises UserError for an unknown flag, naming the nearest valid one.
    """
    given, rest = p.parse_known_args(list(argv))
    if rest:
        flags = [s for action in p._actions for s in action.option_strings]
        word = next((w for w in rest if w.startswith("-")), rest[0])
        bare = word.split("=")[0]
        raise UserError(f"unknown argument '{bare}'{nearest(bare, flags)}; `{p.prog} --help` lists every flag.")
    for action in p._actions:
        refuse_strange_words(p, action, vars(given))
    return vars(given)


def refuse_strange_words(p: argparse.ArgumentParser, action: argparse.Action, given: dict[str, Any]) -> None:
    """Raises UserError for a value that is empty, as `--data "$FILE"` gives it where FILE is not set: it would be taken for
    a flag that was left out. And for one that is no text, which nothing could print or keep.
    """
    name, value = (action.option_strings or [action.metavar])[-1], given.get(action.dest)
    for word in value if isinstance(value, list) else [value]:
        if word == "":
            raise UserError(f"{name} is empty; give a value, or leave it out.")
        if isinstance(word, str) and not word.isascii():
            try:
                word.encode("utf-8")
            except UnicodeEncodeError:
                raise UserError(f"{name} {ascii(word)} holds bytes that are no UTF-8; rename the file, or write the text anew.") from None


# What the system refuses whoever asks: about the machine and its files, never a fault of the program's.
_CLOSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.EIO, errno.ESTALE, errno.ENFILE, errno.EMFILE}


def leave_at_a_signal(status: int = 130) -> None:
    """Until `run` begins, Ctrl-C and SIGTERM end the process at once and without a word.

    For the top of a script, before its heavy imports: they take seconds, and a KeyboardInterrupt in the middle of
    one would be a traceback about libraries.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` and `&` leave it
            signal.signal(number, lambda *_: os._exit(status))


def run(main: Callable[[Sequence[str]], int | None], argv: Sequence[str] | None = None) -> NoReturn:
    """Run a script's `main(argv)` and turn what happened into the exit status of DESIGN.

    0 done · 2 the user's mistake (one sentence on stderr) · 1 our fault (traceback) · 130 interrupted.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed (`2>&-`): else the next file or socket gets its number, and all that is said
            setattr(sys, name, open(os.devnull, mode))
    rank = os.environ.get("RANK")  # set by torchrun, which ends its processes with SIGTERM: those go without a word
    for number, usual in ((signal.SIGTERM, signal.SIG_DFL if rank is not None else signal.default_int_handler),
                          (signal.SIGINT, signal.default_int_handler)):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, usual)
    try:
        status = main(sys.argv[1:] if argv is None else argv) or 0
        sys.stdout.flush()
    except UserError as e:
        if rank not in (None, "0"):
            time.sleep(1)  # most mistakes are everyone's: rank 0 names it, and torchrun ends the others meanwhile
        print(f"error: {e}", file=sys.stderr)
        status = 2
    except Interrupted as e:
        if rank in (None, "0"):
            print(f"interrupted: {e}", file=sys.stderr)
        if rank is not None:  # leaving this block frees what still holds the ended process group, which may wait for ever
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(130)
        status = 130
    except KeyboardInterrupt:
        print("interrupted: every file that was written is whole.", file=sys.stderr)
        status = 130
    except BrokenPipeError:  # `… | head`: the reader has gone, which is its right
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except Exception as e:
        status = 2
        # Files are written where their names are told, so a full disk here is that of what is printed (`… > scored.csv`).
        full = isinstance(e, OSError) and e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if full:
            print(f"error: what is printed cannot be written ({e.strerror}); free some space.", file=sys.stderr)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the flush at the end fails as well
        elif isinstance(e, OSError) and e.errno in _CLOSED and e.filename is not None:
            remarks = "".join(f"; {note.rstrip('.')}" for note in getattr(e, "__notes__", ()))
            print(f"error: {e.filename} cannot be opened ({e.strerror}){remarks}; check the path and its permissions.", file=sys.stderr)
        else:
            traceback.print_exc()
            status = 1
    sys.exit(status)


def progress(things: Iterable | None = None, *, desc: str = "", total: int | None = None, unit: str = "it",
             quiet: bool = False, **kw: Any) -> Any:
    """A tqdm bar for anything that may take more than two seconds; silent when stderr is no terminal."""
    from tqdm import tqdm  # here, because this file is read before `leave_at_a_signal` can be called, and tqdm takes a while

    return tqdm(things, desc=desc, total=total, unit=unit, leave=False, delay=1.0,
                disable=quiet or not sys.stderr.isatty(), dynamic_ncols=True, **kw)
