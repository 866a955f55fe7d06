"""Installs this project into the environment that runs this file: `python installing.py -c constraints.txt -e .`

By uv, in a fifth of pip's time, where the registry has it and it can be told everything that pip is told by its
settings (above all where a CPU build of PyTorch lies); by pip otherwise. Both get the same arguments.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable
from itertools import pairwise

_TOLD = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}
"""Settings of pip, and the variables that tell uv the same."""

_WITHOUT_EFFECT = {
    "default-timeout", "disable-pip-version-check", "no-color", "no-compile", "no-input", "no-warn-script-location",
    "progress-bar", "quiet", "require-virtualenv", "retries", "root-user-action", "timeout", "verbose",
}  # fmt: skip
"""Settings of pip that do not change what is installed."""

_PIP = [sys.executable, "-m", "pip"]
_INSTALL = [*_PIP, "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
"""Not compiled beforehand: of what is installed, a part is imported, and compiled then."""


def variables_for_uv(settings: Iterable[str]) -> dict[str, str] | None:
    """What uv is told, from the lines of `pip config list`; None where a setting has no equal.

    As pip does, all places are searched for the newest version, variables of the environment go before the settings of
    a command, and those before the settings of all commands.

    >>> variables_for_uv(["global.find-links='/one'", "wheel.no-deps='1'", ":env:.find-links='/two'"])["UV_FIND_LINKS"]
    '/two'
    >>> variables_for_uv(["global.proxy='proxy:8080'"]) is None
    True
    """
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in settings:
        name, _, value = line.strip().partition("=")
        section, _, option = name.rpartition(".")
        if section in found and option not in _WITHOUT_EFFECT:
            found[section][option] = ast.literal_eval(value)
    held = {**found["global"], **found["install"], **found[":env:"]}
    if not set(held) <= set(_TOLD):
        return None
    told = {_TOLD[option]: " ".join(value.split()) for option, value in held.items()}
    if "UV_FIND_LINKS" in told:
        told["UV_FIND_LINKS"] = told["UV_FIND_LINKS"].replace(" ", ",")
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", **told}


def by_uv(arguments: list[str], constraints: list[str]) -> bool:
    """Install with uv; whether that was done."""
    listed = subprocess.run([*_PIP, "config", "list"], capture_output=True, text=True)
    told = None if listed.returncode else variables_for_uv(listed.stdout.splitlines())
    if told is None:
        return False
    if subprocess.run([*_INSTALL, *constraints, "uv"], stderr=subprocess.DEVNULL).returncode:
        return False
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable, *arguments]
    return not subprocess.run(command, env={**os.environ, **told}).returncode


def main(arguments: list[str]) -> int:
    """Install what `arguments` say, as words of `pip install`; the exit code."""
    constraints = [word for pair in pairwise(arguments) if pair[0] == "-c" for word in pair]
    if by_uv(arguments, constraints):
        return 0
    return subprocess.run([*_INSTALL, *arguments]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
