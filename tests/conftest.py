"""What holds for all tests: repeatable examples, and short tables of ε where a table is not what is tested."""

from __future__ import annotations

import gc
import os
import shlex
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

import warm
from dask_cluster import cluster  # noqa: F401
from postgresql_server import postgresql  # noqa: F401

# `--gate` leaves repeats to `make test-all`
pytest_plugins = ("gate",)

# Hypothesis draws the same examples at every run, so that a pass or a failure can be repeated
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# what is collected stays until the end: looking through it for garbage takes a quarter of the time of collecting
gc.disable()


def pytest_collection_finish() -> None:
    """Garbage is collected again, among what tests make."""
    gc.freeze()
    gc.enable()


_compiling = False
"""Whether processes of pytest are started before any test was compiled."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Processes of pytest are forks of one that has loaded what they import, which takes each 15 s of a core.

    Not where lines are counted: those that run when a module is loaded would not be.
    """
    global _compiling
    _compiling = not any(Path(__file__).parent.glob("*/__pycache__/test_*-pytest-*.pyc"))
    if config.getoption("cov_source", None) or not hasattr(os, "fork"):
        return
    address = warm.serve(config._tmp_path_factory.mktemp("warm"))  # type: ignore[attr-defined]
    python = f"popen//python={shlex.quote(sys.executable)} {shlex.quote(warm.__file__)} {shlex.quote(str(address))}"
    specs[:] = [type(spec)(python) if str(spec) == "popen" else spec for spec in specs]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Where no test was compiled yet, one process collects, and compiles, before the others, who would do it again."""
    if _compiling:
        node.workerinput["compiled"] = str(node.config._tmp_path_factory.getbasetemp() / "compiled")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """The first process says when it has collected; the others wait for that, five minutes at most."""
    given = getattr(session.config, "workerinput", {})
    compiled = Path(given["compiled"]) if "compiled" in given else None
    first, end = given.get("workerid") == "gw0", time.monotonic() + 300.0
    while compiled is not None and not first and not compiled.exists() and time.monotonic() < end:
        time.sleep(0.2)
    try:
        return (yield)
    finally:
        if compiled is not None and first:
            compiled.touch()


WHOLE_JOBS = {"adaptation", "audit", "cli", "federation", "game", "synthesis", "training", "valuation"}
"""Folders whose jobs write guarantees; what a guarantee says is tested in accounting/ and test_guarantee.py."""

OWN_TABLES = {"test_audit_bounds.py"}
"""Modules that need the whole table."""


FIRST = {
    "test_flower.py", "test_waits.py", "test_dask_engine.py", "test_synthesis_kills.py", "test_synthesis_team.py",
    "test_unit_jobs.py", "test_adaptation_python_jobs.py", "test_kills.py", "test_cli_interrupted.py",
}  # fmt: skip
"""Modules that start processes and wait for them: begun first, so that other tests fill the time, and none is last."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules that wait come first; the order within a module stays."""
    items.sort(key=lambda item: item.path.name not in FIRST)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """No examples are looked for in tests: each process would read every file twice, and load what helpers load."""
    found = yield
    return [collector for collector in found if not isinstance(collector, DoctestModule)]


@pytest.fixture(scope="module", autouse=True)
def _short_tables(request: pytest.FixtureRequest) -> Iterator[None]:
    """A written guarantee tabulates ε at 17 δ, half a second each where steps are sampled: whole jobs write four."""
    with pytest.MonkeyPatch.context() as patch:
        if WHOLE_JOBS & set(request.path.parts) and request.path.name not in OWN_TABLES:
            patch.setattr("privot.guarantee.TABLE_DELTAS", (1e-10, 1e-6, 1e-3, 0.5))
        yield


@pytest.fixture
def short_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classifiers are trained for two epochs: for tests of what is done with them, and not of what they learn."""
    from privot.evaluation.classifiers import CLASSIFIERS

    for name, recipe in CLASSIFIERS.items():
        monkeypatch.setitem(CLASSIFIERS, name, replace(recipe, epochs=2))
