"""A notebook as a page of the site: text, code and the outputs that were kept with it. Nothing is run here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def notebook_page(path: Path) -> str:
    """The notebook at `path` as Markdown: code in blocks, outputs below them."""
    cells = json.loads(path.read_text())["cells"]
    parts: list[str] = []
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code":
            parts.append(f"````python\n{source}\n````")
            parts += [part for output in cell["outputs"] for part in _output(output)]
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> Iterator[str]:
    if output["output_type"] == "stream":
        yield _text("".join(output["text"]))
    elif output["output_type"] in ("execute_result", "display_data"):
        data = output["data"]
        if "text/html" in data:
            # on one line: a blank line would end the block of HTML
            yield f'<div class="output">{" ".join("".join(data["text/html"]).split())}</div>'
        elif "image/png" in data:
            picture = "".join(data["image/png"]).replace("\n", "")
            said = "".join(data.get("text/plain", "a picture")).replace('"', "'").replace("<", "").replace(">", "")
            yield f'<div class="output"><img alt="{said}" src="data:image/png;base64,{picture}"></div>'
        elif "text/plain" in data:
            yield _text("".join(data["text/plain"]))


def _text(words: str) -> str:
    return f'````text title="output"\n{words.rstrip()}\n````'
