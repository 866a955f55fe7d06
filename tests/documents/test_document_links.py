"""Documents: every relative link resolves, every path of the code exists, no page is named for an issue."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_links import anchors, prose, relative_links

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "lab").rglob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

_CODE_PATH = re.compile(r"(?<![\w/.-])src/privot(?:/[\w.-]+)*/?")


def broken_links(page: Path, text: str) -> list[str]:
    """The relative links in `text` that lead nowhere, as if it stood in `page`."""
    broken = []
    for target in relative_links(text):
        path, _, anchor = unquote(target).partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or not file.is_relative_to(ROOT):
            broken.append(target)
        elif anchor and file.suffix == ".md":
            inside = text if file == page else file.read_text()
            if anchor not in anchors(inside):
                broken.append(target)
    return broken


def missing_paths(text: str) -> list[str]:
    """The paths below src/privot that `text` names and that do not exist."""
    named = {found.rstrip(".") for found in _CODE_PATH.findall(text)}
    return sorted(path for path in named if not (ROOT / path).exists())


@pytest.mark.parametrize("name", NAMES)
def test_every_relative_link_resolves(name: str) -> None:
    page = ROOT / name
    assert broken_links(page, page.read_text()) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_path_of_the_code_exists(name: str) -> None:
    assert missing_paths((ROOT / name).read_text()) == []


def test_every_page_that_the_code_names_exists() -> None:
    named: dict[str, str] = {}
    for file in [*(ROOT / "src").rglob("*.py"), *(ROOT / "lab").rglob("*.py")]:
        for path in re.findall(r"(?<![\w/.-])(?:lab/)?docs(?:/[\w-]+)+(?:\.\w+)?", file.read_text()):
            named[path] = str(file.relative_to(ROOT))
    assert named
    assert {path: file for path, file in named.items() if not (ROOT / path).exists()} == {}


def test_no_page_is_named_for_an_issue_or_mentions_one() -> None:
    assert [name for name in NAMES if "issue" in name.lower()] == []
    mention = re.compile(r"\bissues?[ -]?#?\d+|(?<![\w&])#\d+\b", re.IGNORECASE)
    assert [name for name in NAMES if mention.search(prose((ROOT / name).read_text()))] == []


def test_every_page_of_the_documents_is_reached_from_the_readme() -> None:
    reached, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in reached:
            continue
        reached.add(page)
        for target in relative_links(page.read_text()):
            file = (page.parent / target.partition("#")[0]).resolve()
            if file.is_dir():
                ahead += file.glob("*.md")
            elif file.suffix == ".md" and file.exists():
                ahead.append(file)
    assert [name for name in NAMES if ROOT / name not in reached] == []


def test_numbers_of_decisions_are_unique() -> None:
    numbers = [page.name.partition("-")[0] for page in (ROOT / "docs/design/decisions").glob("*.md")]
    assert sorted(numbers) == [f"{k:04d}" for k in range(1, len(numbers) + 1)]


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("[a](README.md) and [b](docs/README.md#reference)", []),
        ("[a](nowhere.md)", ["nowhere.md"]),
        ("[a](docs/README.md#nowhere)", ["docs/README.md#nowhere"]),
        ("# Some `words`, here\n[a](#some-words-here)", []),
        ("![picture](docs/nowhere.svg)", ["docs/nowhere.svg"]),
        ("[a](https://example.org/nowhere)", []),
        ("[a](../outside.md)", ["../outside.md"]),
        ("```python\nx = [1](2)\n```", []),
    ],
)
def test_broken_links_are_found(text: str, broken: list[str]) -> None:
    assert broken_links(ROOT / "README.md", text) == broken


def test_missing_paths_are_found() -> None:
    assert missing_paths("see `src/privot/vault/vault.py`, src/privot/noise/ and src/privot/nowhere.py.") == [
        "src/privot/nowhere.py"
    ]
