"""A slow machine adds no lines of progress to standard error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _no_lines_of_progress(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.path.name != "test_cli_progress.py":
            from privot.cli.printing import progress

            patch.setattr(progress, "FIRST", 1e6)
        yield
