"""`make wheel-test`: the wheel in empty environments, over Pythons, extras, newest and oldest versions.

python tests/packaging/matrix.py [--pythons PATH,PATH] [--find-links FOLDER] [--only WORDS]

Rows without PyTorch run on every Python that is at hand; rows with it run on the oldest, with the version that
constraints.txt pins: `--find-links` names a folder with its CPU build where the registry has only large ones. The
oldest versions are the lower bounds in pyproject.toml (higher where an extra's own dependencies ask for more), so they
are tried on the oldest Python. Ends with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from environments import ROOT, TRIES, build_wheel, declared, make_environment, try_all

NEWEST_MINOR = 14
"""Of the Pythons that are looked for."""


def at_hand() -> list[str]:
    """An interpreter of every supported Python that is installed, the oldest first: on the path, or pyenv's."""
    found = []
    for minor in range(11, NEWEST_MINOR + 1):
        kept = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        path = kept[-1] if kept else shutil.which(f"python3.{minor}")
        found += [] if path is None else [str(path)]
    return found


def version(python: str) -> str:
    """What an interpreter calls itself."""
    command = [python, "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def rows(pythons: list[str]) -> list[tuple[str, str, str]]:
    """(Python, extra, versions) of every environment."""
    first = pythons[0]
    return [
        *((python, "", "newest") for python in pythons),
        (first, "", "oldest"),
        *((first, extra, versions) for extra in TRIES if extra for versions in ("newest", "oldest")),
    ]


def pinned_torch() -> str:
    """The line of constraints.txt that says which PyTorch the tests run with."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("torch=="))


def main() -> int:
    """Print one line per environment, as a table of Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--pythons", default=None, help="Interpreters, separated by commas, the oldest first.")
    parser.add_argument("--find-links", default=None, help="A folder with more wheels.")
    parser.add_argument("--only", default="", help="Only rows that contain all these words.")
    asked = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="privot-wheel-") as scratch:
        wheel = build_wheel(Path(scratch) / "wheel")
        print("| Python | extra | versions | result |\n|---|---|---|---|", flush=True)
        for number, (python, extra, versions) in enumerate(
            rows(asked.pythons.split(",") if asked.pythons else at_hand())
        ):
            row = f"{version(python)} | {extra or 'base'} | {versions}"
            if not all(word in row for word in asked.only.split()):
                continue
            began, folder = time.monotonic(), Path(scratch) / str(number)
            folder.mkdir()
            what = [f"{wheel}[{extra}]" if extra else str(wheel)]
            what += [pinned_torch()] if extra else []
            options = [] if asked.find_links is None else ["--find-links", asked.find_links]
            if versions == "oldest":
                # stated once more, so that they are direct and the lowest of each is taken
                what += declared(extra)
                options += ["--resolution", "lowest-direct"]
            try:
                programs = make_environment(folder / "env", python, what, *options)
                (folder / "work").mkdir()
                problems = try_all(programs, folder / "work", extra)
            except subprocess.CalledProcessError as error:
                problems = [f"not installed: {error.stderr.strip()[-600:]}"]
            failed += bool(problems)
            verdict = "; ".join(problems) if problems else f"{len(TRIES[extra])} of {len(TRIES[extra])} commands"
            print(f"| {row} | {verdict} ({time.monotonic() - began:.0f} s) |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
