"""What an interrupted command prints: what was paid, what is saved, and the command that resumes it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from privot.common.interruption import charged
from privot.errors import StoppedError
from privot.jobs.release_once import SALT_SUFFIX

if TYPE_CHECKING:
    from privot.jobs.job import Job

NOTHING_PAID = "Interrupted: nothing was paid, and there is nothing to resume."
WAITING = "Stopping as soon as the paid release is saved; press Ctrl-C again to stop at once, which may lose it."


def sentence() -> str:
    """The sentence for an interrupt about which the command itself says nothing: what this process charged."""
    if not charged:
        return NOTHING_PAID
    return f"Interrupted: charged {_times(len(charged))} to {charged[-1]}; privot ledger show lists what was paid."


@contextmanager
def telling(command: str, job: Job, spent: Callable[[str], int]) -> Iterator[None]:
    """Within, an interrupt says what `job` paid and kept, and how `privot COMMAND` goes on with it.

    `spent`(mark) counts the job's charges, those of its later parts and blocks included.
    """
    try:
        yield
    except KeyboardInterrupt:
        paid = spent(f"(job {job.name}")
        again = f"privot {command} --resume --out {shlex.quote(str(job.folder))}"
        if not paid:
            raise StoppedError(f"Interrupted: nothing was paid. Start it with: {again}") from None
        kept, blocks, step = _on_disk(job)
        if not kept and not blocks and any(job.folder.glob(f"*{SALT_SUFFIX}")):
            raise StoppedError(
                f"Interrupted: charged {_times(paid)}; the release is not made yet, but what makes the very same one "
                f"is kept. Go on without paying again with: {again}"
            ) from None
        if not kept and not blocks:
            raise StoppedError(
                f"Interrupted: charged {_times(paid)}, but stopped before the release was saved: that budget is spent. "
                f"To pay a second time: {again} --pay-again"
            ) from None
        lost = "; the block in progress is lost" if not kept and blocks < paid else ""
        reached = f", trained up to step {step}" if step else ""
        raise StoppedError(
            f"Interrupted: charged {_times(paid)}; the release is saved{reached}{lost}. "
            f"Go on without paying again with: {again}"
        ) from None


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _on_disk(job: Job) -> tuple[bool, int, int]:
    """(whether a release is saved, how many blocks the checkpoint has seen, up to which step it was trained)."""
    from privot.errors import PrivotError
    from privot.jobs.tensor_files import read_tensors

    kept = (job.folder / "release.npz").exists() or any(job.folder.glob("block-*.npz"))
    path = job.folder / "checkpoint.safetensors"
    try:
        facts = read_tensors(path)[1] if path.exists() else {}
    except (PrivotError, OSError):
        facts = {}
    blocks, step = (facts.get(name, 0) for name in ("done" if "done" in facts else "blocks", "step"))
    return kept, blocks, step
