"""Several processes that train one generator (`torchrun`): the first has the vault, the others see its release only.

Every process makes its share of a step's samples. What is compared with the release is the mean over all of them, and
DistributedDataParallel averages the gradients, so that the step is the one that a single process with all samples
would take. The other processes write nothing, print nothing and open no vault.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import torch
from torch import distributed, nn

from privot.errors import UsageError


class Team:
    """The processes of one job; `rank` 0 leads. A process by itself is a team of one."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size
        self._training = False

    @classmethod
    def join(cls, device: str) -> Team:
        """The team that torchrun's environment describes, on `device` cpu or cuda; alone where there is none."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return cls()
        if not distributed.is_available():
            raise UsageError(
                "This build of PyTorch cannot train with several processes: start privot without torchrun."
            )
        if device == "cuda":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        if not distributed.is_initialized():
            distributed.init_process_group("nccl" if device == "cuda" else "gloo")
        return cls(distributed.get_rank(), size)

    def __enter__(self) -> Team:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """The leader sends the others the end of the job, unless it fails in the middle of a step.

        In that case they are not listening: the leader just leaves, and torchrun ends them.
        """
        if self.size > 1 and not self._training:
            if self.rank == 0:
                self.share(None)
            # What trained holds the group as well, in circles that only the collector ends. If it were freed after
            # the group is left, it would end the group's thread while it holds Python's lock, and wait for ever if
            # that thread happens to wait for the lock.
            gc.collect()
            distributed.destroy_process_group()

    @contextmanager
    def training(self, shared: tuple[Any, ...]) -> Iterator[None]:
        """Context of a training that all processes join; the leader shares what they need for it."""
        if self.size > 1:
            self._training = True
            self.share(shared)
        yield
        self._training = False

    def share(self, thing: Any) -> Any:
        """The leader's `thing`, in every process."""
        if self.size == 1:
            return thing
        held = [thing if self.rank == 0 else None]
        distributed.broadcast_object_list(held, src=0)
        return held[0]

    def mean(self, own: torch.Tensor) -> torch.Tensor:
        """The mean of all processes' tensors; the gradient is that of this process's own tensor."""
        if self.size == 1:
            return own
        every = own.detach().clone()
        distributed.all_reduce(every)
        return own + (every / self.size - own.detach())

    def together(self, module: nn.Module) -> nn.Module:
        """`module`, its gradients averaged over all processes."""
        return module if self.size == 1 else nn.parallel.DistributedDataParallel(module)

    def part(self, samples: int) -> int:
        """This process's share of `samples`, rounded up."""
        return -(-samples // self.size)


ALONE = Team()
