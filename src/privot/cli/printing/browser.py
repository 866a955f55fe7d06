"""Opens an address where somebody sits before a screen."""

from __future__ import annotations

import os
import sys


def has_screen() -> bool:
    """Whether a person at a terminal of a machine with a display started this."""
    display = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(display) and sys.stdout.isatty()


def show(address: str) -> bool:
    """Open the address in the usual browser; whether there was one."""
    import webbrowser

    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False
