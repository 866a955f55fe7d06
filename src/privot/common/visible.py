"""Text as a person may be shown it: no letter that hides, or that turns others round, stays what it is.

Text from files is shown by `visible`; the words of a command, which somebody may paste, by `command_line`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import unicodedata
from collections.abc import Iterable

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


def command_line(words: Iterable[str]) -> str:
    """The words of a command as they are typed in a shell; pasted, they are these words, and nothing in them hides.

    A word that holds anything else than visible letters and single spaces is quoted as bash, zsh, ksh and POSIX.1-2024
    quote it, `$'…'`, with the bytes of those letters in octal: a name of a file need not be text.

    >>> print(command_line(["privot", "sample", "a b", "it's", "a\\u202e\\x1b[31m"]))
    privot sample 'a b' 'it'"'"'s' $'a\\342\\200\\256\\033[31m'
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    # a sentence is made of words, so two spaces become one where it is printed
    if word.isprintable() and "  " not in word:
        return shlex.quote(word)
    apart = "'\\! " if "  " in word else "'\\!"
    return f"$'{''.join(_octal(c) if c in apart or not c.isprintable() else c for c in word)}'"


def _octal(letter: str) -> str:
    """The bytes of a letter, as the file system has them."""
    try:
        found = os.fsencode(letter)
    except UnicodeEncodeError:
        # half of a pair, which no file is named by
        found = letter.encode("utf-8", "surrogatepass")
    return "".join(f"\\{byte:03o}" for byte in found)


def _shows(letter: str) -> bool:
    return letter.isprintable() or unicodedata.category(letter) == "Zs"
