"""Leads a browser to the planner's page without naming the page's address in a command line.

Command lines are open to every user of a machine (`ps`), and an address that is handed to a browser stands in one. So
the browser is handed a file that only its owner may read, in a folder that only its owner may enter. The file leads to
a ticket, and the ticket, once and for a short time, to the page. Whoever sees the name of the file learns nothing, and
a file that is left behind holds a ticket that is used or dead.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

from privot.common.files import write_key

NAME = "open-privot-plan.html"
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={address}">
<title>privot plan</title></head><body><p><a href="{address}">Go on to the page of privot plan</a></p></body></html>
"""


def leading_page(address: str) -> str:
    """A page that leads a browser to `address` at once, without a script.

    >>> leading_page("../a&b/").count("../a&amp;b/")
    2
    """
    return _PAGE.format(address=escape(address))


@contextmanager
def entrance(issue: Callable[[Callable[[], None]], str]) -> Iterator[Path]:
    """A file that leads to the page once; it is gone when the ticket was used, and at the latest at the end.

    Parameters
    ----------
    issue
        Makes a ticket: is told what to do once the ticket is used, and answers its address.
    """
    folder = Path(_private_folder())

    def remove() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    try:
        path = folder / NAME
        # it is a key to the page, for its owner alone
        write_key(path, leading_page(issue(remove)).encode())
        yield path
    finally:
        remove()


def _private_folder() -> str:
    """A new folder for its owner alone: at home, because packaged browsers see neither /tmp nor hidden folders."""
    try:
        return tempfile.mkdtemp(prefix="privot-plan-", dir=Path.home())
    except (OSError, RuntimeError):
        return tempfile.mkdtemp(prefix="privot-plan-")
