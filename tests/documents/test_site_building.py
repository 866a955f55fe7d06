"""What makes the pages of the site: links that are moved, pages that are made, and a check that sees what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath

import pytest
from block_runner import ROOT
from check_site import problems
from markdown_links import anchors, blocks, relative_links, slug, with_links, without_escaped_pipes
from notebook_pages import notebook_page
from page_markup import accessible
from reference_pages import api_page, help_page, public_names, with_api_links
from repository_pages import DOCS, address, moved_links, needed, page_text

from privot.accounting import Gaussian, account
from privot.accounting.events import repeated
from privot.cli.app import COMMANDS
from privot.guarantee import Adjacency
from privot.synthesis.paid_fit import PaidFit

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
GUIDES = {path.stem for path in (DOCS / "guides").glob("*.md")} - {"cookbook", "partitions"}


def test_links_in_blocks_and_foreign_addresses_stay() -> None:
    page = "[a](b.md#c) [d](https://e.f)\n```python\nx = [1](2)\n```\n![g](<h.svg>)"
    assert relative_links(page) == ["b.md#c", "h.svg"]
    moved = with_links(page, lambda link: f"up/{link}")
    assert moved == "[a](up/b.md#c) [d](https://e.f)\n```python\nx = [1](2)\n```\n![g](<up/h.svg>)"


def test_blocks_have_a_language() -> None:
    assert blocks("```sh\na\n```\n```\nb\n```\n```python\nc\n```\n") == [("sh", "a\n"), ("python", "c\n")]


def test_anchors_are_those_of_github() -> None:
    assert slug("A request of `privot adapt`") == "a-request-of-privot-adapt"
    assert anchors("# One, [two](x)\n## a\n## a\n") == {"one-two", "a", "a-1"}


def test_pipes_in_the_code_of_tables_lose_their_backslash() -> None:
    assert without_escaped_pipes("| `a\\|b` | c\\|d |\n`a\\|b`") == "| `a|b` | c\\|d |\n`a\\|b`"


def test_parts_of_the_navigation_have_the_name_that_is_shown() -> None:
    nav = (
        '<nav class="md-nav" data-md-level="1" aria-labelledby="__nav_5_label" aria-expanded="false">\n'
        '  <label class="md-nav__title" for="__nav_5">\n    <span class="md-nav__icon md-icon"></span>\n\n'
        '    Notes &amp; "books"\n  </label>'
    )
    made = accessible(nav)
    assert 'data-md-level="1" aria-label="Notes &amp; &quot;books&quot;" aria-expanded="false">' in made
    assert "aria-labelledby" not in made


def test_the_search_has_a_name() -> None:
    search = '<div class="md-search" data-md-component="search" role="dialog">'
    assert accessible(search).count('aria-label="Search"') == 1


@pytest.mark.parametrize(
    ("target", "where"),
    [
        ("src/privot/guarantee.py", "repository/src/privot/guarantee.py.md"),
        ("src/privot", "repository/src/privot/README.md"),
        ("docs/design/decisions", "design/decisions/README.md"),
        ("SECURITY.md", "repository/SECURITY.md"),
        ("lab/docs/results", "repository/lab/docs/results/README.md"),
        ("lab/docs/results/images/plan.png", "repository/lab/docs/results/images/plan.png"),
        ("docs/notebooks/images.ipynb", "notebooks/images.ipynb.md"),
        ("docs/quickstart.md", None),
    ],
)
def test_what_mkdocs_does_not_build_has_an_address(target: str, where: str | None) -> None:
    assert address(ROOT / target) == (where and PurePosixPath(where))


def test_links_lead_to_the_pages_that_are_made() -> None:
    page = DOCS / "concepts/vault.md"
    moved = moved_links(
        "[a](../../src/privot/vault/vault.py) [b](#c) [d](../design/decisions/)",
        page,
        PurePosixPath("concepts/vault.md"),
    )
    assert moved == "[a](../repository/src/privot/vault/vault.py.md) [b](#c) [d](../design/decisions/README.md)"
    made = needed([page])
    assert made[PurePosixPath("repository/src/privot/vault/vault.py.md")] == ROOT / "src/privot/vault/vault.py"


def test_a_listing_says_what_each_file_is_for() -> None:
    made = {PurePosixPath("x"): ROOT / "src/privot/vault/vault.py"}
    text = page_text(ROOT / "src/privot/vault", made)
    assert "| [`vault.py`](vault.py) | " in text
    assert re.search(r"\| `budget.py` \| \w", text)


def test_code_is_shown_whole_and_cannot_leave_its_block() -> None:
    text = page_text(ROOT / "docs/building/markdown_links.py", {})
    assert (ROOT / "docs/building/markdown_links.py").read_text().rstrip() in text
    assert text.count("````````") == 2


def test_the_api_page_names_what_the_package_exports() -> None:
    assert public_names("ledger") == ["Ledger"]
    assert "Guarantee" in public_names("guarantee")
    assert "_repr_html_" not in public_names("guarantee")
    assert "        - Vault\n" in api_page("vault")


def test_the_api_page_shows_every_public_member_of_a_base_that_is_not_exported() -> None:
    # scikit-learn adds set_fit_request
    own = [name for name in vars(PaidFit) if not name.startswith(("_", "set_"))]
    assert f"inherited_members: [{', '.join(own)}]\n" in api_page("synthesis")


def test_the_overview_of_the_api_leads_to_every_page_of_the_navigation() -> None:
    modules = re.findall(r"reference/api/(\w+)\.md", (ROOT / "mkdocs.yml").read_text())
    linked = with_api_links((DOCS / "reference/api.md").read_text(), modules)
    assert set(re.findall(r"\(api/(\w+)\.md\)", linked)) == set(modules)


def test_the_help_page_has_every_command() -> None:
    text = help_page()
    for name in COMMANDS:
        assert f"## privot {name}" in text
    assert "--adjacency" in text
    assert "\\[" not in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_with_outputs_and_without_paths_or_times(path: Path) -> None:
    notebook = json.loads(path.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert any(cell["outputs"] for cell in cells)
    text = path.read_text()
    assert not re.search(r"/(?:home|root|tmp|work|Users)/|\d{4}-\d\d-\d\dT\d\d:|\"output_type\": \"error\"", text)
    assert set(notebook["metadata"]) == {"kernelspec"}
    assert "one record" in text or "refuted" in text
    assert f"../guides/{path.stem}.md" in text


def test_every_guide_has_a_notebook_in_the_navigation() -> None:
    assert {path.stem for path in NOTEBOOKS} == GUIDES
    nav = (ROOT / "mkdocs.yml").read_text()
    assert all(f"notebooks/{name}.ipynb.md" in nav for name in GUIDES)


def test_a_notebook_becomes_a_page_with_code_and_outputs(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# T\n", "words"]},
        {
            "cell_type": "code",
            "source": ["1 + 1"],
            "outputs": [
                {"output_type": "stream", "text": ["said\n"]},
                {"output_type": "execute_result", "data": {"text/html": ["<table>\n\n</table>"], "text/plain": ["T"]}},
                {"output_type": "display_data", "data": {"image/png": "AA==\n", "text/plain": ["<Figure>"]}},
            ],
        },
    ]
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    page = notebook_page(path)
    assert page.startswith("# T\nwords\n\n````python\n1 + 1\n````")
    assert "said" in page
    assert '<div class="output"><table> </table></div>' in page
    assert 'alt="Figure" src="data:image/png;base64,AA=="' in page


def test_each_guide_begins_with_a_job() -> None:
    for name in GUIDES:
        assert (DOCS / f"guides/{name}.md").read_text().split("\n\n")[1].startswith("**The job.** "), name


def test_the_picture_of_budgets_shows_what_the_accountant_counts() -> None:
    text = (DOCS / "concepts/pictures/budgets.svg").read_text()
    shown = {int(k): float(e) for k, e in re.findall(r'data-releases="(\d+)"[^>]*>([\d.]+)<', text)}
    assert set(shown) == {1, 2, 4, 8, 12}
    one = Gaussian(5.35, 1.0, Adjacency.ADD_REMOVE)
    for count, epsilon in shown.items():
        assert epsilon == pytest.approx(account(repeated(one, count), 1e-6).epsilon(), abs=0.005)
        assert f">{count * account(one, 1e-6).epsilon():.2f}<" in text


@pytest.mark.parametrize("path", sorted((DOCS / "concepts/pictures").glob("*.svg")), ids=lambda path: path.stem)
def test_pictures_name_themselves_and_have_dark_colours(path: Path) -> None:
    text = path.read_text()
    assert "<title" in text
    assert "<desc" in text
    assert "prefers-color-scheme: dark" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ('<a href="b.html#there">', []),
        ('<a href="b.html#nowhere">', ["no such anchor"]),
        ('<a href="c.html">', ["is not there"]),
        ('<a href="https://e.f">', []),
        ('<script src="https://e.f/x.js"></script>', ["fetches"]),
        ('<link rel="stylesheet" href="//e.f/x.css">', ["fetches"]),
        ('<img src="data:image/png;base64,AA==">', []),
        ('<h1 id="a"><a href="#a">', []),
    ],
)
def test_the_check_of_the_site_sees_what_is_wrong(page: str, wrong: list[str], tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(page)
    (tmp_path / "b.html").write_text('<p id="there">')
    found = problems(tmp_path)
    assert len(found) == len(wrong)
    assert all(word in sentence for word, sentence in zip(wrong, found, strict=True))


def test_the_check_of_the_site_reads_style_sheets(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("")
    (tmp_path / "a.css").write_text("p { background: url('https://e.f/x.png') }")
    assert problems(tmp_path) == ["a.css fetches https://e.f/x.png"]
