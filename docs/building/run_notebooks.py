"""Runs every notebook of docs/notebooks/ from top to bottom in a fresh folder; with --write the outputs are kept.

Outputs that are kept hold nothing that differs between two machines for no reason: no time, no path, no counter of
the kernel but the number of the cell. Noisy numbers differ between two runs: the noise is the operating system's.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
PATIENCE = 300
"""Seconds that one cell may take."""
_UNWANTED = re.compile(r"/(?:home|root|tmp|work|Users|usr|opt)/|\x1b\[|\d{4}-\d\d-\d\dT\d\d:")
"""Paths of a machine, colours of a terminal, and moments."""


def run_notebook(path: Path) -> Any:
    """The notebook at `path` with fresh outputs; raises if a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=PATIENCE,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            # sockets in a folder of this user, not ports that others could listen on
            config=Config({"KernelManager": {"transport": "ipc", "ip": str(Path(folder) / "kernel")}}),
        )
        client.execute()
    return cleaned(notebook)


def cleaned(notebook: Any) -> Any:
    """The notebook without times and versions, and with cells named by their place."""
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    number = 0
    for place, cell in enumerate(notebook.cells):
        cell.metadata, cell.id = {}, f"cell-{place}"
        if cell.cell_type == "code":
            number += 1
            cell.execution_count = number
            for output in cell.outputs:
                output.pop("metadata", None)
                if output.output_type in ("execute_result", "display_data"):
                    output.metadata = {}
                    if "text/html" in output.data:
                        # the words for a terminal may name a path, and no reader sees them
                        output.data.pop("text/plain", None)
                if output.output_type == "execute_result":
                    output.execution_count = number
    return notebook


def unwanted(notebook: Any) -> list[str]:
    """What the outputs hold and should not: paths of a machine, terminal colours, moments, errors."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            words = [output.get("text", ""), *(str(v) for k, v in output.get("data", {}).items() if "image" not in k)]
            found += [w[:80] for w in words if _UNWANTED.search(w)]
            found += ["an error"] if output.output_type == "error" else []
    return found


def main(arguments: list[str]) -> None:
    """Run all notebooks, or those that are named."""
    named = [word for word in arguments if not word.startswith("-")]
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if named and path.stem not in named:
            continue
        print(f"running {path.name}", flush=True)
        notebook = run_notebook(path)
        if wrong := unwanted(notebook):
            sys.exit(f"{path.name} shows what differs from machine to machine: {wrong}")
        if "--write" in arguments:
            nbformat.write(notebook, path)


if __name__ == "__main__":
    main(sys.argv[1:])
