"""Follows every link and anchor of the built site, and refuses what a browser would fetch from somewhere else.

python docs/building/check_site.py site
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {
    ("img", "src"),
    ("script", "src"),
    ("link", "href"),
    ("source", "src"),
    ("iframe", "src"),
    ("object", "data"),
}
"""What a browser loads by itself; the rest of the links a reader has to follow."""
NOT_FETCHED = {"canonical", "next", "prev"}
"""Relations of a <link> that load nothing."""


class Page(HTMLParser):
    """The links and anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, bool]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note ids, names, and where attributes lead."""
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        for name in ("href", "src", "data"):
            if name in found and not (tag == "link" and found.get("rel") in NOT_FETCHED):
                self.links.append((found[name], (tag, name) in FETCHED))


def problems(site: Path) -> list[str]:
    """One sentence per link that leads nowhere, missing anchor, and foreign address that would be fetched."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        place = path.relative_to(site)
        for link, fetched in page.links:
            parts = urlsplit(link)
            if parts.scheme in ("data", "mailto", "javascript"):
                continue
            if parts.scheme or parts.netloc:
                found += [f"{place} fetches {link}"] if fetched else []
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            if target.is_dir():
                target /= "index.html"
            # the page of a wrong address has no place of its own
            if path.name == "404.html" and parts.path.startswith("/"):
                continue
            if not target.exists():
                found.append(f"{place} links to {link}, which is not there")
            elif parts.fragment and target.suffix == ".html":
                there = pages.get(site / target.relative_to(site.resolve()))
                if there is not None and unquote(parts.fragment) not in there.anchors:
                    found.append(f"{place} links to {link}, and there is no such anchor")
    for path in site.rglob("*.css"):
        found += [
            f"{path.relative_to(site)} fetches {a}"
            for a in re.findall(r"url\(\s*['\"]?(https?:[^)'\"]+)", path.read_text())
        ]
    return found


def main(arguments: list[str]) -> None:
    """Check the site in the folder that is named; exit code 1 if something is wrong."""
    site = Path(arguments[0] if arguments else "site")
    if not (site / "index.html").exists():
        sys.exit(f"There is no site in {site}: build it first.")
    if found := problems(site):
        sys.exit("\n".join(found))
    print(f"{len(list(site.rglob('*.html')))} pages, every link and anchor is there, nothing is fetched from elsewhere")


if __name__ == "__main__":
    main(sys.argv[1:])
