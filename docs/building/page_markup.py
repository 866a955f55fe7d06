"""Names that the theme's pages lack for people who use a screen reader; text in, text out."""

from __future__ import annotations

import re
from html import escape, unescape

_DIALOG = 'data-md-component="search" role="dialog"'
_SECTION = re.compile(
    r'(<nav class="md-nav" data-md-level="\d+") aria-labelledby="[^"]+"'
    r'([^>]*>\s*<label class="md-nav__title"[^>]*>\s*<span[^>]*></span>\s*([^<]*?)\s*<)'
)


def accessible(page: str) -> str:
    """The page with a name for its search and for every part of its navigation.

    The theme takes the name of a part from a label that holds nothing but a picture where the part has a page of its
    own. What the theme makes only once a page is shown is mended there (docs/assets/keyboard.js).
    """
    page = page.replace(_DIALOG, f'{_DIALOG} aria-label="Search"')
    return _SECTION.sub(lambda m: f'{m[1]} aria-label="{escape(unescape(m[3]))}"{m[2]}', page)
