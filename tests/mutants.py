"""Break one line of the shipped source, run the ordinary tests on the broken copy, and see that they fail.

`outcomes(mutants, tests)` copies the sources to a temporary folder once per mutant, replaces the line there (and
insists that it was there), and runs pytest on the copy. One process imports torch and transformers, which takes
seconds; every mutant is a fork of it, which takes none.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPU_SECONDS = 300  # for one mutant: an endless loop counts as noticed, a busy machine does not

KILLED, SURVIVED, BROKEN = "killed", "survived", "does not even import"


@dataclass(frozen=True)
class Mutant:
    """`old` stands exactly once in `file` (relative to the repository) and becomes `new`."""

    name: str
    file: str
    old: str
    new: str


def plant(mutant: Mutant | None, tree: Path) -> None:
    """Copy the sources to `tree` and break them there. Raises AssertionError if the line to break is not there once."""
    # __pycache__ comes along: with its times kept, only the broken file has to be compiled anew.
    skip = shutil.ignore_patterns(".*", "benchmarks", "*.pyc.*")  # the last: being written by another test process
    for part in ("minibert", "tests", "data"):
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, tree / part, ignore=skip)
    for script in ROOT.glob("*.py"):
        shutil.copy(script, tree)
    (tree / "pytest.ini").write_text("[pytest]\n")
    if mutant is None:
        return
    path = tree / mutant.file
    source = path.read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1, f"{mutant.name}: {mutant.file} holds {source.count(mutant.old)} times: {mutant.old!r}"
    path.write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")


def outcomes(mutants: list[Mutant], tests: list[str], processes: int = 2) -> dict[str, str]:
    """Name → what became of it: KILLED (a test failed), SURVIVED (all passed) or BROKEN (nothing ran).

    tests: pytest's arguments, paths relative to the repository. The entry "unpatched" is the sources as they are.
    """
    with tempfile.TemporaryDirectory() as temp:
        plan = []
        for i, mutant in enumerate([None, *mutants]):
            plan.append((mutant.name if mutant else "unpatched", str(Path(temp) / str(i))))
            plant(mutant, Path(plan[-1][1]))
        job = json.dumps(dict(plan=plan, tests=tests, processes=processes))
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, __file__], input=job, capture_output=True, text=True, env=env, cwd=temp)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


# ------------------------------------------------------------------- the process that forks

def _serve() -> None:
    job = json.loads(sys.stdin.read())
    # Imported once, for all forks: what takes long. Nothing of the repository's own.
    import huggingface_hub, hypothesis, pandas, pytest, safetensors.torch, sklearn, tokenizers, torch  # noqa: E401, F401
    from transformers import (AutoModelForSequenceClassification, AutoTokenizer, BertModel, BertTokenizerFast,  # noqa: F401
                              DistilBertModel, RobertaModel)

    torch.set_num_threads(1)  # no second thread exists yet, so forking is safe
    gc.freeze()  # no fork has to look through all these objects
    waiting, running, results = list(job["plan"]), {}, {}
    while waiting or running:
        while waiting and len(running) < job["processes"]:
            name, tree = waiting.pop(0)
            pid = os.fork()
            if pid == 0:
                _test(tree, job["tests"])
            running[pid] = name
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        results[running.pop(pid)] = {0: SURVIVED, 1: KILLED, -signal.SIGXCPU: KILLED}.get(code, f"{BROKEN} (status {code})")
    print(json.dumps(results))


def _test(tree: str, tests: list[str]) -> None:
    """In the fork: run the tests in `tree`, whose modules stand before the repository's, and end with their status."""
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1), os.dup2(sink, 2)
    os.chdir(tree)
    sys.path[:] = [tree, str(Path(tree) / "tests")] + [p for p in sys.path if Path(p or ".").resolve() not in (ROOT, ROOT / "tests")]
    os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--rootdir", tree, *tests])))


if __name__ == "__main__":
    _serve()
