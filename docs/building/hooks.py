"""What MkDocs calls while it builds the site: adds the pages that are made, and moves links to where they lead."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from markdown_links import slug, without_escaped_pipes
from mkdocs.structure.files import File, Files, InclusionLevel
from page_markup import accessible
from reference_pages import api_page, help_page, with_api_links
from repository_pages import DOCS, moved_links, needed, outside, page_text

API = "reference/api/"
HELP = "reference/help.md"


def on_config(config: Any) -> Any:
    """Anchors as GitHub makes them, so that one link works in both places."""
    config.mdx_configs["toc"]["slugify"] = slug
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the API, the help of commands, and what the documents link to: notebooks, code, folders."""
    listed = set(_paths(config.nav))
    for path in sorted(listed):
        if path.startswith(API):
            files.append(File.generated(config, path, content=api_page(PurePosixPath(path).stem)))
    files.append(File.generated(config, HELP, content=help_page()))
    pages = [DOCS / file.src_uri for file in files.documentation_pages() if file.generated_by is None]
    made = {where: target for path in listed if (target := outside(where := PurePosixPath(path))) is not None}
    made |= needed([*pages, *made.values()])
    for where, target in made.items():
        if where.suffix != ".md":
            files.append(File.generated(config, str(where), abs_src_path=str(target)))
            continue
        inclusion = InclusionLevel.INCLUDED if str(where) in listed else InclusionLevel.NOT_IN_NAV
        # a listing stands beside what it lists, and its links are relative to the folder
        page = target / "README.md" if target.is_dir() else target
        content = moved_links(without_escaped_pipes(page_text(target, made)), page, where)
        files.append(File.generated(config, str(where), content=content, inclusion=inclusion))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links of a document that lead out of docs/, or to a folder, lead to the page that was made of it."""
    source = page.file.src_uri
    if source == "reference/api.md":
        modules = [PurePosixPath(p).stem for p in _paths(config.nav) if p.startswith(API)]
        markdown = with_api_links(markdown, modules)
    if page.file.generated_by is not None:
        return markdown
    return moved_links(without_escaped_pipes(markdown), DOCS / source, PurePosixPath(source))


def on_post_page(output: str, **_: Any) -> str:
    """Names that the theme leaves out."""
    return accessible(output)


def _paths(nav: Any) -> list[str]:
    """Every path of the navigation."""
    if isinstance(nav, str):
        return [nav]
    if isinstance(nav, dict):
        nav = list(nav.values())
    return [path for part in nav or [] for path in _paths(part)]
