"""Run in a process of its own: hides packages as if they were not installed, then tries commands or public names.

python without_packages.py HIDDEN[,HIDDEN…] names
python without_packages.py HIDDEN[,HIDDEN…] commands < JSON list of argument lists

Prints one JSON list. Hidden packages are found neither by `import` nor by `find_spec`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import pkgutil
import sys
from importlib.machinery import PathFinder
from typing import Any


def hide(names: set[str]) -> None:
    real = PathFinder.find_spec

    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.partition(".")[0] in names else real(name, path, target)

    PathFinder.find_spec = find_spec  # type: ignore[method-assign, assignment]


def try_names() -> list[tuple[str, str, str]]:
    """Every public name of every package of privot: what asking for it raises; nothing where it is there."""
    import privot

    found = []
    packages = ["privot", *(m.name for m in pkgutil.iter_modules(privot.__path__, "privot.") if m.ispkg)]
    for package in packages:
        try:
            module = importlib.import_module(package)
            for name in getattr(module, "__all__", []):
                getattr(module, name)
        except BaseException as error:
            found.append((package, type(error).__name__, str(error)))
    return found


def try_commands(commands: list[list[str]]) -> list[tuple[int | str, str]]:
    """The exit code of each command and what it says on standard error; a traceback counts as the error's name."""
    from privot.cli import run

    found: list[tuple[int | str, str]] = []
    for command in commands:
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            try:
                code: int | str = run(command)
            except BaseException as error:
                code = type(error).__name__
        found.append((code, said.getvalue()))
    return found


if __name__ == "__main__":
    hide(set(sys.argv[1].split(",")))
    answer: Any = try_names() if sys.argv[2] == "names" else try_commands(json.load(sys.stdin))
    print(json.dumps(answer))
