"""`make wheel-test`: the wheel in empty environments, over Pythons, extras, newest and oldest versions.

python tests/packaging/matrix.py [--pythons 3.11,3.12] [--find-links FOLDER] [--only WORD]

Rows without PyTorch run on every Python that is at hand; rows with it run on the oldest, with the version that
constraints.txt pins: `--find-links` names a folder with its CPU build where the registry has only large ones. The
oldest versions are the lower bounds in pyproject.toml, so they are tried on the oldest Python. Ends with 1 if anything
failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from environments import ROOT, TRIES, build_wheel, lowest, make_environment, try_all

PYTHONS = "3.11,3.12,3.13"


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
    parser.add_argument("--pythons", default=PYTHONS, help="Versions, or paths of interpreters; the oldest first.")
    parser.add_argument("--find-links", default=None, help="A folder with more wheels.")
    parser.add_argument("--only", default="", help="Only rows that contain this.")
    asked = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="privot-wheel-") as scratch:
        wheel = build_wheel(Path(scratch) / "wheel")
        print("| Python | extra | versions | result |\n|---|---|---|---|", flush=True)
        for number, (python, extra, versions) in enumerate(rows(asked.pythons.split(","))):
            if asked.only not in f"{python} {extra or 'base'} {versions}":
                continue
            began, folder = time.monotonic(), Path(scratch) / str(number)
            folder.mkdir()
            what = [f"{wheel}[{extra}]" if extra else str(wheel)]
            what += [pinned_torch()] if extra else []
            what += lowest(extra) if versions == "oldest" else []
            try:
                programs = make_environment(folder / "env", python, what, asked.find_links)
                (folder / "work").mkdir()
                problems = try_all(programs, folder / "work", extra)
            except subprocess.CalledProcessError as error:
                problems = [f"not installed: {error.stderr.strip()[-600:]}"]
            failed += bool(problems)
            verdict = "; ".join(problems) if problems else f"{len(TRIES[extra])} of {len(TRIES[extra])} commands"
            print(
                f"| {python} | {extra or 'base'} | {versions} | {verdict} ({time.monotonic() - began:.0f} s) |",
                flush=True,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
