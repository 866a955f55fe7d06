"""What `--gate` leaves out: repeats only, and never the last representative of a test."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from gate import in_turn, spread


@pytest.mark.parametrize(("count", "keep"), [(1, 1), (1, 3), (2, 2), (5, 3), (194, 16), (3, 7)])
def test_places_are_spread_from_the_first_to_the_last(count: int, keep: int):
    places = spread(count, keep)
    assert places[0] == 0
    assert keep == 1 or places[-1] == count - 1
    assert len(places) == min(count, keep)
    gaps = {b - a for a, b in pairwise(places)}
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_every_value_has_its_test_and_other_parameters_take_turns():
    grid = [(kind, size) for size in range(3) for kind in "abcd"]
    kept = [grid[place] for place in in_turn([kind for kind, _ in grid])]
    assert sorted(kind for kind, _ in kept) == list("abcd")
    assert {size for _, size in kept} == {0, 1, 2}
    twice = [grid[place] for place in in_turn([kind for kind, _ in grid], 2)]
    assert sorted(kind for kind, _ in twice) == list("aabbccdd")


MARKED = """
import pytest
from hypothesis import given, settings, strategies as st

drawn = []

@pytest.mark.gate(2)
@pytest.mark.parametrize("n", range(9))
def test_grid(n): pass

@pytest.mark.gate(each="kind")
@pytest.mark.parametrize("n", range(3))
@pytest.mark.parametrize("kind", ["x", "y"])
def test_kinds(kind, n): pass

@pytest.mark.full("more power; the gate runs test_grid")
def test_power(): pass

@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.full("a repeat"))])
def test_some(n): pass

def test_plain(): pass

@settings(max_examples=300)
@given(st.integers())
def test_property(n): drawn.append(n)

def test_examples(whole_run):
    assert len(drawn) == EXPECTED
    assert whole_run is (EXPECTED == 300)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("options", "expected", "passed"), [(["--gate"], 25, 8), ([], 300, 21)])
def test_the_gate_runs_representatives_and_the_whole_run_everything(
    tmp_path: Path, options: list[str], expected: int, passed: int
):
    (tmp_path / "test_marked.py").write_text(MARKED.replace("EXPECTED", str(expected)))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gate\n full\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "gate", *options]
    paths = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    found = subprocess.run(command, cwd=tmp_path, env=paths, capture_output=True, text=True, timeout=300)
    assert f"{passed} passed" in found.stdout, found.stdout
