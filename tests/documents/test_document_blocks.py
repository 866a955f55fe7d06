"""Every code block of README, quickstart, guides, concepts and reference runs as it is printed.

Data are small and made up (`example_files`), training is short (`short_privot`), and long counts are cut by `SHORTER`,
each of which has to occur. The cookbook has a test of its own, which also looks at what is printed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from block_runner import ROOT, commands, run_block
from example_files import EXAMPLES, fill
from markdown_links import Block, blocks

PAGES = {
    # a letter per block: blocks of one letter share a folder, others begin with the files alone
    "README.md": "aaaaaa",
    "docs/README.md": "a",
    "docs/quickstart.md": "aaaaaaa",
    "docs/concepts/how-budgets-add-up.md": "a",
    "docs/reference/opening.md": "a",
    "docs/guides/images.md": "aaaaabcddee",
    "docs/guides/tables.md": "aaaaaaaaaa",
    "docs/guides/adaptation.md": "abccead",
    "docs/guides/auditing.md": "aa",
    "docs/guides/budgets.md": "aabac",
    "docs/guides/organisations.md": "a",
    "docs/guides/partitions.md": "aaaaa",
    "docs/guides/valuation.md": "a",
}

SHORTER = {
    "-n 60000": "-n 200",
    "--set records=7291": "--set records=120",
    "--count 100000": "--count 500",
    "--trials 2000000": "--trials 2000 --runs 40",
    "privot audit embedding --epsilon 1": "privot audit embedding --trials 2000 --runs 40 --epsilon 1",
    "privot audit mnist-synth": "privot audit mnist-synth --trials 2000 --runs 40",
    "privot audit digits-synth": "privot audit digits-synth --trials 2000 --runs 40",
    "source.npz target.npz": "source.npz target.npz --set fit=3 --set finish=5 --set warmup=3 "
    "--set check=3 --set generator=3 --set samples=50",
    "--ask request.json": "--set fit=3 --set finish=5 --set warmup=3 --set check=3 --set generator=3 --set samples=50 "
    "--ask request.json",
    "torchrun --nproc-per-node 4 -m privot synth": "privot synth",
    "synth mnist.npz": "synth mnist.npz --samples 200",
    "synth mine.npz": "synth mine.npz --samples 200",
    "synth scans.npz": "synth scans.npz --samples 200",
    "synth scans --unit": "synth scans --samples 200 --unit",
    "synth digits": "synth digits --samples 200",
}
"""What is cut, so that everything together takes minutes. One process in place of four is what a machine without
GPUs can do; tests/synthesis/test_synthesis_team.py runs several."""

BEFORE = {
    "docs/guides/auditing.md": "privot synth mnist.npz --samples 200 --classes 10 --shape 28,28 --range 0,255 "
    "--epsilon 1 --delta 1e-5 --adjacency add-remove --out mnist-synth"
}
"""What a page takes for granted besides files: the command that makes it."""

LONG = {"docs/guides/organisations.md": pytest.mark.federation}
"""Pages that start servers."""


BEGUN = "privot schema dictionary"


def fill_in(path: Path) -> None:
    """What a person does with a dictionary that was begun: the names stay, and what is public is written to each."""
    filled = (EXAMPLES / "dictionary.json").read_text()
    assert list(json.loads(path.read_text())) == list(json.loads(filled))
    path.write_text(filled)


def shortened(text: str) -> str:
    """The text of a block with what is long cut."""
    for printed, short in SHORTER.items():
        text = text.replace(printed, short)
    return text


def read(page: str) -> list[Block]:
    """The blocks of a page; those of bash are one script, because one may start what the next one stops."""
    found = blocks((ROOT / page).read_text())
    if found and all(block.language == "bash" for block in found):
        return [Block("bash", "".join(block.text for block in found))]
    return found


@pytest.mark.documents
@pytest.mark.parametrize("page", [pytest.param(page, marks=LONG.get(page, ())) for page in PAGES])
def test_every_block_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, places = read(page), PAGES[page]
    assert len(found) == len(places), f"{page} has {len(found)} blocks: say which folder each needs"
    for place, block in zip(places, found, strict=True):
        folder = tmp_path / place
        if not folder.exists():
            folder.mkdir()
            fill(folder, schema="schema propose" not in (ROOT / page).read_text())
            if page in BEFORE:
                run_block(Block("sh", BEFORE[page]), folder, monkeypatch)
        begins_dictionary = BEGUN in block.text
        if begins_dictionary:
            (folder / "dictionary.json").unlink()
        run_block(Block(block.language, shortened(block.text)), folder, monkeypatch)
        if begins_dictionary:
            fill_in(folder / "dictionary.json")


def test_every_page_with_blocks_for_users_is_run() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/guides").glob("*.md")]
    pages += [*(ROOT / "docs/concepts").glob("*.md"), *(ROOT / "docs/reference").glob("*.md")]
    named = {str(page.relative_to(ROOT)) for page in pages if blocks(page.read_text())}
    assert named == {*PAGES, "docs/guides/cookbook.md"}


def test_every_cut_occurs() -> None:
    text = "".join((ROOT / page).read_text() for page in PAGES)
    assert [printed for printed in SHORTER if printed not in text] == []


def test_commands_are_joined_and_comments_left_out() -> None:
    assert commands("privot a \\\n  --b\n# why\n\nprivot c  # so\n") == ["privot a    --b", "privot c  # so"]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "assert 1 == 2"),
        ("sh", "privot account embedding --epsilon 1"),
        ("sh", "pip install 'privot[nonsense]'"),
        ("sh", "make nonsense"),
        ("bash", "for a in b; do false; done"),
        ("ruby", "puts 1"),
    ],
)
def test_a_block_that_fails_is_seen(language: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError):
        run_block(Block(language, text + "\n"), tmp_path, monkeypatch)
