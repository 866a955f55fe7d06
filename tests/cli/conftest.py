"""Benchmarks that commands run are short here, and a slow machine adds no lines of progress to standard error."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest


@pytest.fixture(scope="module", autouse=True)
def _short_races(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.path.name == "test_cli_compare.py":
            from privot.bench import clock, growth, transport_bench

            patch.setattr(clock, "LONGEST_ROUND", 0.002)
            patch.setattr(transport_bench, "race", lambda calls, device, budget=0.0: clock.race(calls, device, 0.01))
            patch.setattr(transport_bench, "singles", partial(clock.singles, budget=0.01))
            patch.setattr(growth, "seconds", partial(clock.seconds, budget=0.01))
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_lines_of_progress(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.path.name != "test_cli_progress.py":
            from privot.cli.printing import progress

            patch.setattr(progress, "FIRST", 1e6)
        yield
