"""The reference that is made from the code: the API from docstrings, and the help of every command."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2] / "src/privot"
WIDTH = 100
"""Columns of a command's help."""
INHERITED = {"synthesis": "[config, design, fit, run]", "vault": "true"}
"""Packages whose exported classes have a base that is not exported: which of its members are shown as their own."""


def public_names(module: str) -> list[str]:
    """What `privot.module` exports: its `__all__`, or its own public classes and functions."""
    folder = SOURCE / module
    tree = ast.parse((folder / "__init__.py" if folder.is_dir() else SOURCE / f"{module}.py").read_text())
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and any(getattr(t, "id", "") == "__all__" for t in statement.targets):
            return list(ast.literal_eval(statement.value))
    made = [s.name for s in tree.body if isinstance(s, ast.ClassDef | ast.FunctionDef)]
    return [name for name in made if not name.startswith("_")]


def api_page(module: str) -> str:
    """The page of one package: everything that it exports, from the docstrings."""
    members = "".join(f"        - {name}\n" for name in public_names(module))
    options = f"    options:\n      show_root_heading: false\n      members:\n{members}"
    if module in INHERITED:
        options += f"      inherited_members: {INHERITED[module]}\n"
    return f"# privot.{module}\n\n::: privot.{module}\n{options}"


def with_api_links(overview: str, modules: list[str]) -> str:
    """The overview of the API, each heading followed by where the docstrings of its packages are."""
    out = []
    for line in overview.splitlines():
        out.append(line)
        if line.startswith("## "):
            named = [m for m in modules if f"privot.{m}" in line.split()]
            if line == "## privot":
                named = [m for m in ("guarantee", "release") if m in modules]
            if named:
                out += ["", "In full: " + ", ".join(f"[`privot.{m}`](api/{m}.md)" for m in named) + "."]
    return "\n".join(out) + "\n"


def help_page() -> str:
    """What `privot COMMAND --help` prints, for every command."""
    from typer.main import get_command

    from privot.cli.app import build_app
    from privot.cli.parsing.settings import with_settings

    text = "# Help of every command\n\nWhat `privot COMMAND --help` prints, made from the code.\n"
    for path, command in _commands(with_settings(get_command(build_app()))):
        name = " ".join(["privot", *path])
        with command.make_context(name, ["--help"], resilient_parsing=True, terminal_width=WIDTH) as context:
            # the backslash is for a terminal's markup, which the command takes away too
            shown = command.get_help(context).rstrip().replace("\\[", "[")
            text += f"\n## {name}\n\n```text\n{shown}\n```\n"
    return text


def _commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from _commands(below, *path, name)
    elif not command.hidden:
        yield path, command
