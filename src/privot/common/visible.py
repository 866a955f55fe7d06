"""Text from files as a person may be shown it: no letter that hides, or that turns others round, stays what it is."""

from __future__ import annotations

import json
import re
import unicodedata

_PLAIN = re.compile(r"[\t\n -~]*")


def visible(text: str, keep: str = "\t\n") -> str:
    """`text` with control characters, marks of direction, hidden and unassigned letters written as JSON writes them.

    A column called "age\u202e(raey)" would otherwise turn round what a page or a terminal shows after it. `keep` are
    controls that stay. Text that is JSON means the same afterwards.

    >>> visible("age\u202e, ü, 1\u00a0000\\n")
    'age\\\\u202e, ü, 1\\xa0000\\n'
    """
    if _PLAIN.fullmatch(text):
        return text
    return "".join(letter if letter in keep or _shows(letter) else json.dumps(letter)[1:-1] for letter in text)


def _shows(letter: str) -> bool:
    return letter.isprintable() or unicodedata.category(letter) == "Zs"
