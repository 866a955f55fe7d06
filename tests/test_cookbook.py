"""The cookbook runs as it is printed, from top to bottom, and every entry is short."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from privot.cli import run

PAGE = Path(__file__).parents[1] / "docs/guides/cookbook.md"
MAX_LINES = 15
_BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = _BLOCK.findall(PAGE.read_text())


def test_the_page_has_the_entries_that_people_look_for() -> None:
    headings = set(re.findall(r"^## (.+)$", PAGE.read_text(), re.MULTILINE))
    assert {
        "A private mean",
        "A histogram, a count, quantiles",
        "DP-SGD for my own PyTorch module",
        "Audit my own mechanism",
        "Value my records",
        "GeomLoss's blur as reg",
    } <= headings


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_entry_is_short(number: int) -> None:
    assert len(BLOCKS[number][1].strip().splitlines()) <= MAX_LINES


@pytest.mark.slow
def test_every_block_runs_in_the_order_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    said = []
    for language, text in BLOCKS:
        if language == "python":
            # each in names of its own, as a reader would paste it
            exec(compile(text, "cookbook", "exec"), {"__name__": "cookbook"})
        else:
            for line in text.strip().splitlines():
                assert run(shlex.split(line, comments=True)[1:]) == 0, line
        said.append(capsys.readouterr().out)
    shown = "".join(said)
    assert "refuted: True" in shown
    assert "ε = 0.49" in shown or "ε = 0.5" in shown
    right = re.search(r"(\d+) of the 20 highest", shown)
    assert right is not None
    assert int(right[1]) >= 18
