"""One thread that owns the model, and batches made across the connections that wait for it.

    connection threads ─ submit(windows) ─▶ bounded queue ─ oldest first, like lengths ─▶ forward ─▶ logits

Why one thread: two forwards at once fight for the same cores (or the same GPU) and both come later; forty texts in
one forward cost little more than one. Nothing here knows HTTP.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Any, Callable, Sequence

import numpy as np

from .predictor import Window


class Overloaded(Exception):
    """The queue is full, or the answer did not come within its time: come back in `retry_after` seconds."""

    def __init__(self, message: str, retry_after: int):
        super().__init__(message)
        self.retry_after = retry_after


class TooMuch(Exception):
    """One request asks for more tokens than the whole queue may hold."""


class ClientGone(Exception):
    """Whoever asked has hung up; nobody reads the answer."""


class Job:
    """One request on its way through the queue: its windows, or a function to be run on the model thread."""

    def __init__(self, windows: Sequence[Window], function: Callable[[], Any] | None, tokens: int, deadline: float,
                 gone: Callable[[], bool]):
        self.windows, self.function, self.tokens = windows, function, tokens
        self.arrived, self.deadline, self.gone = time.monotonic(), deadline, gone
        self.rows: list[np.ndarray | None] = [None] * len(windows)
        self.left = len(windows)
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Event()
        self._finishing = threading.Lock()

    def finish(self, result: Any = None, error: BaseException | None = None) -> None:
        """The first to come decides: the model thread with a result, or the waiting one when its time is over."""
        with self._finishing:
            if not self.done.is_set():
                self.result, self.error = result, error
                self.done.set()


class Item:
    """One window in the queue (or, with `index` -1, a job's function)."""

    __slots__ = ("job", "index", "length")

    def __init__(self, job: Job, index: int, length: int):
        self.job, self.index, self.length = job, index, length


FREE_PADDING_TOKENS = 256  # below this a forward costs the same however full it is, so padding is free


def choose_batch(waiting: Sequence[Item], batch_tokens: int) -> list[Item]:
    """The oldest item and those of like length, nearest first, up to `batch_tokens` after padding.

    A batch is closed before padding would take more than a quarter of it: a text of 10 tokens beside one of 500 costs
    as much as the 500.
    """
    oldest = waiting[0]
    if oldest.index < 0:
        return [oldest]
    batch, longest, tokens = [oldest], oldest.length, oldest.length
    others = sorted((item for item in waiting[1:] if item.index >= 0), key=lambda item: abs(item.length - oldest.length))
    for item in others:
        padded = max(longest, item.length) * (len(batch) + 1)
        if padded > batch_tokens or padded > max(FREE_PADDING_TOKENS, 4 / 3 * (tokens + item.length)):
            break
        batch.append(item)
        longest, tokens = max(longest, item.length), tokens + item.length
    return batch


class Batcher:
    """The queue and its thread.

    `forward` takes windows and gives logits (n,C). `batch_tokens` bounds one batch, `queue_tokens` everything that
    waits. `wait` is how long, in seconds, the oldest item waits for company, and it does so only when the batch before
    held several requests: a lone client never waits. `on_batch(windows, seconds)` is told of every forward.
    """

    def __init__(self, forward: Callable[[Sequence[Window]], np.ndarray], batch_tokens: int, queue_tokens: int,
                 wait: float, on_batch: Callable[[Sequence[Window], float], None] = lambda windows, seconds: None):
        self._forward, self._on_batch = forward, on_batch
        self.batch_tokens, self.queue_tokens, self.wait = batch_tokens, queue_tokens, wait
        self._changed = threading.Condition()
        self._waiting: list[Item] = []  # by arrival
        self._jobs_waiting: dict[Job, None] = {}
        self._tokens = 0
        self._company = 1  # requests in the batch before
        self._rate = 1000.0  # tokens a second, a running mean: for Retry-After only
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    @property
    def depth(self) -> tuple[int, int]:
        """(requests, tokens) that wait."""
        with self._changed:
            return len(self._jobs_waiting), self._tokens

    def submit(self, windows: Sequence[Window], seconds: float, gone: Callable[[], bool] = lambda: False) -> np.ndarray:
        """Logits (len(windows), C) of the windows, in order. Blocks for at most `seconds`.

        Raises Overloaded at once when the queue is full, or when the time is over; TooMuch for what no queue could
        hold; ClientGone when `gone()` says so by the time its turn comes; else whatever the model raised.
        """
        tokens = sum(len(w.input_ids) for w in windows)
        items = [len(w.input_ids) for w in windows]
        return self._wait_for(Job(windows, None, tokens, time.monotonic() + seconds, gone), items)

    def call(self, function: Callable[[], Any], tokens: int, seconds: float,
             gone: Callable[[], bool] = lambda: False) -> Any:
        """The result of `function()`, run on the model thread in its turn as work of `tokens` tokens. Raises as `submit`."""
        return self._wait_for(Job((), function, tokens, time.monotonic() + seconds, gone), [tokens])

    def _wait_for(self, job: Job, lengths: Sequence[int]) -> Any:
        if job.tokens > self.queue_tokens:
            raise TooMuch(f"the request holds {job.tokens} tokens and this server takes at most {self.queue_tokens} at a "
                          f"time; send it in parts.")
        with self._changed:
            if self._stopping:
                raise Overloaded("the server is stopping.", 1)
            if self._tokens + job.tokens > self.queue_tokens:
                raise Overloaded("the server has too much to do; try again later.", self._retry_after())
            self._waiting += [Item(job, i if job.function is None else -1, n) for i, n in enumerate(lengths)]
            self._jobs_waiting[job] = None
            self._tokens += job.tokens
            self._changed.notify()
        if not job.done.wait(job.deadline - time.monotonic()):
            with self._changed:
                retry_after = self._retry_after()
            job.finish(error=Overloaded("the server could not answer in time; try again later.", retry_after))
        if job.error is not None:
            raise job.error
        return job.result

    def _retry_after(self) -> int:
        return min(60, max(1, math.ceil(self._tokens / self._rate)))

    def stop(self, seconds: float) -> bool:
        """Take nothing more, finish what waits; whether that was done within `seconds`."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    # ---- the model thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            if batch:
                self._work(batch)

    def _next_batch(self) -> list[Item] | None:
        """The next batch, taken out of the queue; None when stopping and nothing waits."""
        with self._changed:
            while not self._waiting:
                if self._stopping:
                    return None
                self._changed.wait()
            company_until = self._waiting[0].job.arrived + self.wait
            while (len(self._jobs_waiting) < self._company and self._tokens < self.batch_tokens
                   and (patience := company_until - time.monotonic()) > 0):
                self._changed.wait(patience)
            now = time.monotonic()
            self._remove({job for job in self._jobs_waiting if job.done.is_set() or job.deadline <= now})
            if not self._waiting:
                return []
            batch = choose_batch(self._waiting, self.batch_tokens)
            gone = {job for job in {item.job for item in batch} if job.gone()}
            self._remove(gone)
            for job in gone:
                job.finish(error=ClientGone())
            batch = [item for item in batch if item.job not in gone]
            chosen = set(batch)
            self._waiting = [item for item in self._waiting if item not in chosen]
            still = {item.job for item in self._waiting}
            jobs = {item.job for item in batch}
            for job in jobs - still:
                self._jobs_waiting.pop(job, None)
            self._tokens -= sum(item.length for item in batch)
            self._company = max(1, len(jobs))
            return batch

    def _remove(self, jobs: set[Job]) -> None:
        """Take the jobs' items out of the queue, unanswered."""
        if jobs:
            self._tokens -= sum(item.length for item in self._waiting if item.job in jobs)
            self._waiting = [item for item in self._waiting if item.job not in jobs]
            for job in jobs:
                self._jobs_waiting.pop(job, None)

    def _work(self, batch: list[Item]) -> None:
        try:
            self._compute(batch)
        except Exception as e:
            by_job: dict[Job, list[Item]] = {}
            for item in batch:
                by_job.setdefault(item.job, []).append(item)
            if len(by_job) == 1:
                batch[0].job.finish(error=e)
            else:  # one request's trouble is not its neighbours': each alone
                for items in by_job.values():
                    self._work(items)

    def _compute(self, batch: list[Item]) -> None:
        start = time.monotonic()
        if batch[0].index < 0:
            batch[0].job.finish(batch[0].job.function())
            return
        windows = [item.job.windows[item.index] for item in batch]
        logits = self._forward(windows)
        seconds = time.monotonic() - start
        self._on_batch(windows, seconds)
        self._rate = 0.9 * self._rate + 0.1 * sum(item.length for item in batch) / max(seconds, 1e-6)
        for item, row in zip(batch, logits):
            job = item.job
            job.rows[item.index] = row
            job.left -= 1
            if job.left == 0:
                job.finish(np.stack(job.rows))
