"""The laboratory imports privot's public API and the second tier that docs/reference/api.md lists, and nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from environments import ROOT
from reference_pages import public_names

PAGE = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
LABORATORY = ROOT / "lab" / "src"
PUBLIC = {"privot.opening", *re.findall(r"privot\.\w+", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))}
"""Packages whose exported names are documented."""


def tier() -> dict[str, set[str]]:
    """The names of the second tier by module, from the rows of its table."""
    table = PAGE.partition("## The second tier")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(privot[\w.]+)` \| (.+) \|$", table, re.MULTILINE)
    return {module: set(re.findall(r"`(\w+)`", names)) for module, names in rows}


def public(module: str, name: str) -> bool:
    """Whether `from module import name` is of the public API."""
    if module == "privot":
        return name in import_module(module).__all__
    return module in PUBLIC and name in public_names(module.removeprefix("privot."))


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of everything that a file imports from privot, for types only or wherever."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "privot":
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((a.name, "") for a in node.names if a.name.partition(".")[0] == "privot" and a.name != "privot")


def foreign(path: Path, listed: dict[str, set[str]]) -> list[str]:
    """What a file imports from privot that is neither public nor `listed`."""
    return [f"{m}.{n}" for m, n in imported(path) if not public(m, n) and n not in listed.get(m, set())]


def test_the_laboratory_imports_what_is_public_or_listed() -> None:
    listed = tier()
    files = sorted(LABORATORY.rglob("*.py"))
    assert len(files) > 20
    assert {str(p.relative_to(LABORATORY)): found for p in files if (found := foreign(p, listed))} == {}


def test_what_is_listed_is_there_and_is_used() -> None:
    listed = {(module, name) for module, names in tier().items() for name in names}
    used = {found for path in LABORATORY.rglob("*.py") for found in imported(path) if not public(*found)}
    assert listed == used
    for module, name in listed:
        assert not any(part.startswith("_") for part in module.split(".")), module
        # kernels are imported where there is a device for them
        if ".cuda." not in module:
            there = hasattr(import_module(module), name) or find_spec(f"{module}.{name}") is not None
            assert there, (module, name)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("from privot.accounting import gradient", []),
        ("from privot import Vault", []),
        ("import privot", []),
        ("from privot.vault.budget import Budget", ["privot.vault.budget.Budget"]),
        ("from privot.accounting.rdp import fold", ["privot.accounting.rdp.fold"]),
        ("def f():\n    import privot.ledger.ledger", ["privot.ledger.ledger."]),
    ],
)
def test_an_import_of_something_else_is_seen(line: str, wrong: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(line)
    assert foreign(tmp_path / "a.py", tier()) == wrong
