"""Jobs that are killed at a chosen place and go on: what the tests of every refinement share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from privot.jobs.job import Job
from privot.jobs.run import Run
from privot.ledger import Ledger
from privot.synthesis import Synthesizer


class Killed(BaseException):
    """Stands for a kill: nothing after it runs."""


def kill(*_: Any, **__: Any) -> Any:
    raise Killed


@contextmanager
def killed_at(place: str) -> Iterator[None]:
    """What is done within is killed where it comes to `place` (a dotted name); where it never comes, a test fails."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, kill)
        with pytest.raises(Killed):
            yield


def spent(ledger: Ledger) -> Any:
    """Counts a job's charges by their mark."""
    return lambda mark: sum(mark in entry.purpose for entry in ledger.entries())


def resumed(folder: Path, ledger: Ledger, records: Any, paid: Any = None, **given: Any) -> Synthesizer:
    """The job of a folder goes on as the command does; `records` opens the vault: `kill` where it may not be opened."""
    job = given.pop("job", None) or Job.open(folder)
    made = Synthesizer.from_params(Job.open(folder).settings["params"], "cpu")
    again = given.pop("pay_again", False)
    return made.run(Run(job, records, paid or spent(ledger), ledger.identity, again), **given)
