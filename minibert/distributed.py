"""One process or many: what `torchrun` set up, and the three things the loop asks of the others."""

from __future__ import annotations

import contextlib
import datetime
import os
from dataclasses import dataclass
from typing import Any, Iterator

import torch
import torch.distributed as dist

from .cli import UserError


@dataclass(frozen=True)
class Processes:
    """This process's place among `world` (1 without torchrun). Only rank 0 prints and writes."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0

    @property
    def first(self) -> bool:
        return self.rank == 0

    def sum(self, values: list[float], device: torch.device) -> list[float]:
        """Element-wise sum over all processes (float64 where the device has it); one wait for the device."""
        if self.world == 1:
            return values
        kind = torch.float32 if device.type == "mps" else torch.float64
        t = torch.tensor(values, dtype=kind, device=device)
        dist.all_reduce(t)
        return t.tolist()

    def gather(self, value: Any) -> list[Any]:
        """Every process's `value` (plain Python or numpy), by rank, on every process."""
        if self.world == 1:
            return [value]
        out: list[Any] = [None] * self.world
        dist.all_gather_object(out, value)
        return out

    def check(self, problem: BaseException | None) -> None:
        """Raise on every process if any has a problem: decisions taken on one rank alone end in a hang."""
        problems = self.gather(problem)
        for p in problems:
            if p is not None:
                raise p

    def wait(self) -> None:
        if self.world > 1:
            dist.barrier()


@contextlib.contextmanager
def processes(device: torch.device, timeout_minutes: float = 30.0) -> Iterator[Processes]:
    """The group that `torchrun` started (gloo on CPU, nccl on CUDA), or a single process."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Processes()
        return
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if device.type == "cuda":
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo",
                            timeout=datetime.timedelta(minutes=timeout_minutes))
    try:
        yield Processes(dist.get_rank(), dist.get_world_size(), local)
    except RuntimeError as e:
        if not isinstance(e, dist.DistError) and "by peer" not in str(e):
            raise
        raise UserError(f"another of the {world} processes has ended, so this one cannot go on; its own message tells why.") from e
    finally:
        dist.destroy_process_group()
