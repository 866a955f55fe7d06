"""The code of `privot.synthesis`, read as a tree: of a vault it uses public facts, releases and streams only.

And whether its budget has room (`check`), which the ledger says, not the records.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import privot.synthesis

ALLOWED = {"facts", "reserve", "release", "stream", "ledger", "ledger_file", "charges", "kind"}
"""All public: `kind` is what is stated of the records, and the dtypes of a DataFrame that no record decides."""
READERS = {"getattr", "setattr", "hasattr", "vars", "dir", "object", "inspect", "gc", "eval", "exec"}
HOME = Path(privot.synthesis.__file__).parent


def gives_vault(node: ast.expr | None, names: set[str]) -> bool:
    """Whether an expression is a vault: a name that holds one, or a call of something that answers with one."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Call):
        called = node.func
        return isinstance(called, ast.Name) and (called.id == "Vault" or called.id in names)
    if isinstance(node, ast.Subscript):
        return gives_vault(node.value, names)
    return isinstance(node, ast.NamedExpr | ast.Await) and gives_vault(node.value, names)


def vault_names(tree: ast.AST) -> set[str]:
    """Every name that is annotated with a vault, or is given one (also inside a container or behind a call)."""
    names = {"vault", "open_vault"}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None and "Vault" in ast.unparse(node.annotation):
            names.add(node.arg)
        if isinstance(node, ast.AnnAssign) and "Vault" in ast.unparse(node.annotation):
            names.add(ast.unparse(node.target))
    while True:
        found = set(names)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.NamedExpr) and gives_vault(node.value, names):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {ast.unparse(target) for target in targets}
        if found == names:
            return names
        names = found


def offences(source: str) -> list[str]:
    """What a module does with a vault beyond what it may."""
    tree = ast.parse(source)
    names = vault_names(tree)
    found = []
    for node in ast.walk(tree):
        # a list of vaults may be appended to: only what comes out of it is a vault
        if isinstance(node, ast.Attribute) and gives_vault(node.value, names) and node.attr not in ALLOWED:
            held = isinstance(node.value, ast.Name) and node.attr in {"append", "pop"}
            if not held:
                found.append(ast.unparse(node))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in READERS:
            found += [ast.unparse(node) for argument in node.args if gives_vault(argument, names)]
        if isinstance(node, ast.Attribute | ast.Name | ast.Constant):
            text = ast.unparse(node)
            if "_Vault__" in text or "_Records" in text:
                found.append(text)
        if isinstance(node, ast.Import | ast.ImportFrom):
            known = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            imported = {alias.name for alias in node.names}
            package = ".".join(known.split(".")[:2]) if known else ""
            if package in ("privot.data", "privot.ledger") or (known == "privot.vault" and imported != {"Vault"}):
                found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("path", sorted(HOME.rglob("*.py")), ids=lambda p: p.name)
def test_a_vault_is_asked_for_facts_releases_and_streams_only(path: Path) -> None:
    assert offences(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "vault.records",
        "vault._Vault__records.rows()",
        "open_vault().budget",
        "getattr(vault, 'x')",
        "held = open_vault()\nheld.records",
        "def f(v: Vault) -> None:\n    v.rows",
        "kept: list[Vault] = []\nkept[0].rows()",
        "vars(vault)",
        "getattr(thing, '_Vault__records')",
        "from privot.vault import _Records",
        "from privot.data.loading import load",
    ],
)
def test_an_offence_would_be_found(line: str) -> None:
    assert offences(line)


def test_what_is_allowed_is_allowed() -> None:
    assert not offences("def f(v: Vault) -> None:\n    v.facts, v.release(m), v.stream(m)\n    g(vault)")
