"""The cookbook runs as it is printed, from top to bottom, and every entry is short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from block_runner import ROOT, run_block
from markdown_links import blocks

PAGE = ROOT / "docs/guides/cookbook.md"
MAX_LINES = 15
BLOCKS = blocks(PAGE.read_text())


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
    assert len(BLOCKS[number].text.strip().splitlines()) <= MAX_LINES


@pytest.mark.slow
def test_every_block_runs_in_the_order_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for block in BLOCKS:
        run_block(block, tmp_path, monkeypatch)
        said.append(capsys.readouterr().out)
    shown = "".join(said)
    assert "refuted: True" in shown
    assert "ε = 0.49" in shown or "ε = 0.5" in shown
    right = re.search(r"(\d+) of the 20 highest", shown)
    assert right is not None
    assert int(right[1]) >= 18
