"""What an interrupted command prints: what was paid, what is saved, and the command that resumes it.

What was paid is asked of the ledgers: a process that is interrupted does not know whether its last row was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from privot.common.interruption import written
from privot.common.visible import command_line
from privot.errors import DataError, StoppedError

if TYPE_CHECKING:
    from privot.jobs.job import Job

_NOTHING = "this run paid nothing"
NOTHING_PAID = f"Interrupted: {_NOTHING}."
_MAX_COMMAND = 240
"""The longest command that is shown, in characters: a sentence quotes no longer word whole."""
WAITING = "Stopping as soon as the paid release is saved; press Ctrl-C again to stop at once, which may lose it."


def sentence(arguments: Sequence[str] = ()) -> str:
    """The sentence for an interrupt about which the command itself says nothing.

    It tells what this process wrote to ledgers, as they know it; else what the job paid that the `arguments` resume.
    """
    paid, also = _asked()
    if paid:
        return f"Interrupted: {paid}{also}. privot ledger show lists what was paid."
    if also:
        return f"{NOTHING_PAID.removesuffix('.')}{also}."
    return _resumed(arguments) or NOTHING_PAID


def charged(arguments: Sequence[str]) -> str:
    """What this process charged, and the command that goes on, as the end of another sentence; empty for nothing."""
    from privot.cli.parsing.recalled_options import COMMANDS

    paid, _ = _asked()
    if not paid:
        return ""
    command = next((word for word in arguments if word in COMMANDS), None)
    out = _out(arguments)
    if command is None or out is None or not (out / "job.json").exists():
        return f"; {paid}, and privot ledger show lists what was paid"
    return f"; {paid}, and what is kept of it goes on with: {_again(command, out)}"


@contextmanager
def delivered(place: Path) -> Iterator[None]:
    """Within, what was paid for is at `place`: an interrupt or a full disk says that and what was paid.

    A reader of the output that goes away is no failure: nothing is lost.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        raise StoppedError(f"Interrupted: {_asked()[0] or _NOTHING}, and what was paid for is in {place}.") from None
    except OSError as error:
        where = error.filename or "Standard output"
        raise DataError(
            f"{where} cannot be used ({error.strerror or error}): {_asked()[0] or _NOTHING}, and what was paid for is "
            f"in {place}."
        ) from None


def _asked() -> tuple[str, str]:
    """What this process charged by the word of its ledgers, and what else it did to them; empty where it did not."""
    found = [_written(ledger) for ledger in dict.fromkeys(row.ledger for row in written)]
    paid = [words for words, _ in found if words]
    return f"charged {_listed(paid)}" if paid else "", "".join(f"; {words}" for _, words in found if words)


def _written(ledger: str) -> tuple[str, str]:
    """What this process charged to a ledger, and what it did to its budget, in words; empty where it did not."""
    from privot.errors import PrivotError
    from privot.ledger import Ledger
    from privot.ledger.ledger_rows import BUDGET, CHARGE, RAISE, RESERVE

    rows = [row for row in written if row.ledger == ledger]
    try:
        with Ledger.open(ledger) as book:
            kinds = [row.kind for row in rows if book.holds(row.number, row.seal)]
    except (PrivotError, OSError):
        return f"at most {_times(len(rows))} to {ledger}, which cannot be read now", ""
    charged = f"{_times(kinds.count(CHARGE))} to {ledger}" if CHARGE in kinds else ""
    if RESERVE in kinds and not charged:
        return charged, f"the cost of its job is reserved in {ledger}, and nothing of it is released"
    if RAISE in kinds:
        return charged, f"the budget in {ledger} is raised"
    return charged, f"the budget in {ledger} is set" if BUDGET in kinds else ""


def _resumed(arguments: Sequence[str]) -> str | None:
    """What the job paid and kept that the command line resumes; None where it resumes none."""
    from privot.cli.parsing.recalled_options import COMMANDS, KEY

    command = next((word for word in arguments if word in COMMANDS), None)
    out = _out(arguments)
    if command is None or out is None or "--resume" not in arguments or not (out / "job.json").exists():
        return None
    again = _again(command, out)
    unknown = f"{NOTHING_PAID.removesuffix('.')}, and what the job paid before is kept. Go on with: {again}"
    try:
        from privot.jobs.charges import charges
        from privot.jobs.job import Job
        from privot.ledger import Ledger

        job = Job.open(out)
        ledger = next(entry[1] for entry in job.settings[KEY] if entry[0] == "--ledger")
        with Ledger.open(ledger) as book:
            return _told(command, job, charges(book)) if book.identity == job.settings["ledger"] else unknown
    except Exception:
        # a library that was interrupted while it was imported may fail in any way; a file may be damaged
        return unknown


def _out(arguments: Sequence[str]) -> Path | None:
    """The folder that `--out` names."""
    found = ""
    for at, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == "--out":
            found = value if equals else "".join(arguments[at + 1 : at + 2])
    return Path(found) if found else None


def _again(command: str, folder: Path) -> str:
    """The command that goes on with the job in a folder; in words where a line cut short would name another folder."""
    line = command_line(["privot", command, "--resume", "--out", str(folder)])
    return line if len(line) <= _MAX_COMMAND else "the same command and --resume"


@contextmanager
def telling(command: str, job: Job, spent: Callable[[str], int]) -> Iterator[None]:
    """Within, an interrupt says what `job` paid and kept, and how `privot COMMAND` goes on with it.

    `spent`(mark) counts the job's charges, those of its later parts and blocks included.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError(_told(command, job, spent)) from None


def _told(command: str, job: Job, spent: Callable[[str], int]) -> str:
    from privot.jobs.paid_file import SALT

    paid, again = spent(job.any_mark), _again(command, job.folder)
    if not paid and any(row.kind == "reserve" for row in written):
        return f"Interrupted: the cost of the job is reserved, and nothing of it is released. Go on with: {again}"
    if not paid:
        return f"Interrupted: nothing was paid. Start it with: {again}"
    kept, blocks, step = _on_disk(job)
    if not kept and not blocks and any(job.folder.glob(f"*{SALT}")):
        return (
            f"Interrupted: charged {_times(paid)}; the release is not made yet, but what makes the very same one "
            f"is kept. Go on without paying again with: {again}"
        )
    if not kept and not blocks:
        return (
            f"Interrupted: charged {_times(paid)}, but stopped before the release was saved: that budget is spent. "
            f"To pay a second time: {again} --pay-again"
        )
    lost = "; the block in progress is lost" if not kept and blocks < paid else ""
    reached = f", trained up to step {step}" if step else ""
    return (
        f"Interrupted: charged {_times(paid)}; the release is saved{reached}{lost}. "
        f"Go on without paying again with: {again}"
    )


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


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
