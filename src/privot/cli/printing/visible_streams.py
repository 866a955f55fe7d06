"""Standard output and standard error as commands write to them: whatever a file says, a terminal shows it as it is."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from privot.common.visible import visible


class VisibleStream:
    """A text stream to which only visible letters are written; everything else is the stream's own."""

    def __init__(self, stream: Any, keep: str = "\t\n") -> None:
        self._stream, self._keep = stream, keep

    def write(self, text: str) -> int:
        """Write `text`; its own length counts."""
        if not isinstance(text, str):
            raise TypeError(f"Expected a text to write, got {type(text).__name__}.")
        self._stream.write(visible(text, self._keep))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all `lines`."""
        for line in lines:
            self.write(line)

    @property
    def rich_proxied_file(self) -> VisibleStream:
        """Where Rich writes, which moves the cursor and colours words."""
        return VisibleStream(self._stream, "\t\n\r\x1b")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def visible_streams() -> Iterator[None]:
    """Within, `sys.stdout` and `sys.stderr` write visible letters only."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        stream if stream is None or isinstance(stream, VisibleStream) else VisibleStream(stream) for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
