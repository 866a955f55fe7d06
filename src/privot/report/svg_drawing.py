"""A drawing as SVG text inside a page: every text and attribute is escaped, and every drawing names itself.

Colours are classes, so that the page's style sheet chooses them for light, dark and paper. What a reader of the screen
hears is the title and the description.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, tostring

from privot.common.visible import visible

WIDTH = 360.0
"""Units of a drawing's width: about the pixels of a phone, so that letters stay readable there."""
LETTER = 6.4
"""About how wide one letter is at the size that labels have."""


class Drawing:
    """Shapes on a canvas of `width` × `height` units."""

    def __init__(self, title: str, description: str, height: float, width: float = WIDTH) -> None:
        self.title, self.description, self.width, self.height = title, description, width, height
        self._root = Element("svg", {"viewBox": f"0 0 {width:g} {height:g}", "role": "img", "class": "drawing"})
        self._root.set("style", f"max-width:{width * 1.4:g}px")
        SubElement(self._root, "title").text = clean(title, 200)
        SubElement(self._root, "desc").text = clean(description, 2000)

    def shape(self, name: str, look: str, note: str = "", **numbers: float | str) -> None:
        """One element with the classes `look`; `note` is shown where a pointer rests on it."""
        fields = {key.replace("_", "-"): _said(value) for key, value in numbers.items()}
        made = SubElement(self._root, name, {"class": look, **fields})
        if note:
            SubElement(made, "title").text = clean(note, 200)

    def box(self, look: str, x: float, y: float, width: float, height: float, note: str = "", **more: float) -> None:
        """A rectangle; one of negative size is drawn empty."""
        self.shape("rect", look, note, x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), **more)

    def line(self, look: str, x1: float, y1: float, x2: float, y2: float) -> None:
        """A straight line."""
        self.shape("line", look, x1=x1, y1=y1, x2=x2, y2=y2)

    def path(self, look: str, points: Iterable[tuple[float, float]]) -> None:
        """Straight lines from point to point."""
        self.shape("polyline", look, points=" ".join(f"{_said(x)},{_said(y)}" for x, y in points))

    def text(self, words: str, x: float, y: float, look: str = "label", turned: float | None = None) -> None:
        """Words at (x, y); the class says which end of them that is (`middle`, `end`)."""
        made = SubElement(self._root, "text", {"x": _said(x), "y": _said(y), "class": look})
        if turned is not None:
            made.set("transform", f"rotate({turned:g} {_said(x)} {_said(y)})")
        made.text = clean(words, 120)

    def markup(self) -> str:
        """The drawing as text for a page; already escaped."""
        return tostring(self._root, encoding="unicode", short_empty_elements=False)


def clean(words: object, most: int = 80) -> str:
    """Words from a file on one line of at most `most` letters, without what could hide or turn round other words."""
    text = " ".join(str(words)[: 4 * most].split())
    text = visible(text)
    return text if len(text) <= most else text[: most - 1] + "…"


def fitting(words: object, units: float) -> str:
    """Words cut to what fits into `units` of width."""
    return clean(words, max(3, int(units / LETTER)))


def _said(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.5g}"
