"""What holds for the tests of the laboratory: repeatable examples, short races, short tables of ε, no progress."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import settings

# as in the tests of privot, which may not be run with these
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="module", autouse=True)
def _short() -> Iterator[None]:
    """A written guarantee tabulates ε at few δ, and a slow machine adds no lines to standard error."""
    from privot.cli.printing import progress

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privot.guarantee.TABLE_DELTAS", (1e-10, 1e-6, 1e-3, 0.5))
        patch.setattr(progress, "FIRST", 1e6)
        yield


@pytest.fixture(scope="module", autouse=True)
def _short_races(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.path.name == "test_bench_races.py":
            from privot_lab.bench import clock, growth, transport_bench

            patch.setattr(clock, "LONGEST_ROUND", 0.002)
            for name in ("race", "singles"):
                timed = getattr(clock, name)
                short = lambda calls, device, budget=0.0, timed=timed: timed(calls, device, 0.01)  # noqa: E731
                patch.setattr(transport_bench, name, short)
            patch.setattr(growth, "seconds", partial(clock.seconds, budget=0.01))
        yield
