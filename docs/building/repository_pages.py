"""Pages for what documents link to and MkDocs does not build: code, folders, and what lies beside docs/.

A link that leaves docs/ would lead nowhere in the site. Each such file or folder becomes a page under `repository/`:
a Markdown document, a picture and rows of data as they are, code as a listing, a folder as a table of what is in it.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from markdown_links import relative_links, with_links
from notebook_pages import notebook_page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PLACE = PurePosixPath("repository")
_LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".sh": "sh", ".yml": "yaml"}
_COPIED = (".png", ".svg", ".jsonl")
_UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"


def target_of(page: Path, link: str) -> Path | None:
    """The file or folder of this repository that a relative link in `page` leads to; None if there is none."""
    path = unquote(link).partition("#")[0]
    found = (page.parent / path).resolve() if path else page
    return found if found.is_relative_to(ROOT) and found.exists() else None


def address(target: Path) -> PurePosixPath | None:
    """Where the site has a page of its own for `target`, from the site's root; None if MkDocs builds it anyway."""
    if target.is_dir():
        inside = target.is_relative_to(DOCS)
        base = PurePosixPath(os.path.relpath(target, DOCS if inside else ROOT).replace(os.sep, "/"))
        return (base if inside else PLACE / base) / "README.md"
    if target.is_relative_to(DOCS):
        return PurePosixPath(f"{target.relative_to(DOCS).as_posix()}.md") if target.suffix == ".ipynb" else None
    inner = PurePosixPath(target.relative_to(ROOT).as_posix())
    return PLACE / (inner if inner.suffix in (".md", *_COPIED) else f"{inner}.md")


def outside(where: PurePosixPath) -> Path | None:
    """The document beside docs/ that stands at `where` in the site; None for what is not below `repository/`."""
    return ROOT / where.relative_to(PLACE) if where.is_relative_to(PLACE) else None


def needed(pages: list[Path]) -> dict[PurePosixPath, Path]:
    """Every page that has to be made, and what of: all that `pages` link to, and what those documents link to."""
    made: dict[PurePosixPath, Path] = {}
    ahead = list(pages)
    while ahead:
        page = ahead.pop()
        for link in relative_links(page.read_text()):
            target = target_of(page, link)
            if target is not None and (target / "README.md").exists():
                target /= "README.md"
            where = address(target) if target else None
            if target is None or where is None or where in made:
                continue
            made[where] = target
            if target.suffix == ".md":
                ahead.append(target)
    return made


def page_text(target: Path, made: dict[PurePosixPath, Path]) -> str:
    """The Markdown of a page about `target`, whose own links still have to be moved."""
    name = target.relative_to(ROOT).as_posix()
    if target.is_dir():
        return f"{_UNSEARCHED}# {name}/\n\n{_listing(target, set(made.values()))}"
    if target.suffix == ".ipynb":
        return notebook_page(target)
    text = target.read_text()
    if target.suffix == ".md":
        return text
    # more backticks than the text has, so that no line of it ends the block
    return f"{_UNSEARCHED}# {name}\n\n````````{_LANGUAGES.get(target.suffix, 'text')}\n{text.rstrip()}\n````````\n"


def moved_links(text: str, page: Path, stands: PurePosixPath) -> str:
    """`text` of the document `page`, which stands at `stands` in the site, with links that work there."""

    def moved(link: str) -> str:
        target = target_of(page, link)
        if target is None:
            return link
        where = address(target)
        if where is None:
            where = PurePosixPath(target.relative_to(DOCS).as_posix())
        _, mark, anchor = link.partition("#")
        if target == page:
            return mark + anchor
        return os.path.relpath(where, stands.parent).replace(os.sep, "/") + mark + anchor

    return with_links(text, moved)


def _listing(folder: Path, shown: set[Path]) -> str:
    """A table of what is in `folder`; what has a page of its own is linked, by its place beside the folder."""
    rows = []
    for child in sorted(folder.iterdir(), key=lambda c: (c.is_file(), c.name)):
        if child.name.startswith((".", "__pycache__")) or child.suffix in (".pyc", ".typed"):
            continue
        name = f"`{child.name}/`" if child.is_dir() else f"`{child.name}`"
        linked = child in shown or (child.suffix == ".md" and child.is_relative_to(DOCS))
        rows.append(f"| {f'[{name}]({child.name})' if linked else name} | {_summary(child)} |")
    return "\n".join(["| what | what it is for |", "|---|---|", *rows, ""])


def _summary(target: Path) -> str:
    """The first sentence about a file or folder: of its docstring, or its heading."""
    file = target / "__init__.py" if target.is_dir() else target
    if file.suffix == ".py" and file.exists():
        first = (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n\n")[0]
    elif file.suffix == ".md":
        first = file.read_text().partition("\n")[0].lstrip("# ")
    else:
        first = ""
    return " ".join(first.split()).replace("|", "\\|")
