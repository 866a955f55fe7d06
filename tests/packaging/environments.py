"""Builds the wheel, installs it into empty environments and tries the commands that people type first."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUDGET = ["--epsilon", "5", "--delta", "1e-5", "--adjacency", "replace-one"]
SKETCH = [*BUDGET, "--range", "0,1", "--ledger", "a.ledger", "--out", "a.sketch"]
PLAN = (
    "from privot.plan import measured, page; from privot.plan.plan_answers import answer; "
    "asked = dict(kind='count', adjacency='add-remove', epsilon=1, delta=1e-6, records=9, person=1); "
    "assert page.script() and answer(asked)['numbers']['sigma'] > 4; print(len(measured.results()), 'results')"
)
"""The planner's files are in the wheel, and it answers with what the base installs."""
WEIGHTS = "from privot.transport._exact import network_simplex; network_simplex()"
FLOWER = "from privot.federation.flower import serverapp, supernode"
SYNTH = ["synth", "digits", *BUDGET, "--set", "steps=20", "--samples", "50", "--out", "made"]


@dataclass(frozen=True)
class Try:
    """A command, the exit code it must end with, and words that it must say."""

    name: str
    command: list[str]
    code: int
    words: str


BASE = [
    Try("import", ["python", "-W", "error", "-c", "import privot; print(privot.__version__)"], 0, "0."),
    Try("--help", ["privot", "--help"], 0, "Exit codes: 0 done"),
    Try("no command", ["privot"], 0, "Exit codes: 0 done"),
    Try("examples", ["privot", "sketch", "--help"], 0, "privot sketch digits --epsilon 1 --delta 1e-5"),
    Try("account", ["privot", "account", "embedding", *BUDGET], 0, "σ"),
    Try("ledger init", ["privot", "ledger", "init", "a.ledger", "--data", "digits", *BUDGET], 0, ""),
    Try("ledger show", ["privot", "ledger", "show", "a.ledger"], 0, "digits"),
    Try("sketch", ["privot", "sketch", "digits", *SKETCH], 0, ""),
    Try("schema", ["privot", "schema", "propose", "--sample", "a.csv", "--public", "--out", "a.json"], 0, "2 columns"),
    Try("laboratory", ["privot", "study", "run", "wdp-figure-1", "--out", "study"], 2, "pip install ./lab"),
    Try("plan", ["python", "-c", PLAN], 0, "8 results"),
    Try("unknown command", ["privot", "nonsense"], 2, "No such command 'nonsense'"),
    Try("unknown option", ["privot", "account", "embedding", "--nonsense"], 2, "No such option"),
    Try("missing option", ["privot", "sketch", "digits", "--out", "b.sketch"], 2, "Missing option '--epsilon'"),
    Try("missing argument", ["privot", "sketch"], 2, "Missing argument 'DATA'"),
    Try("no number", ["privot", "account", "embedding", "--epsilon", "x"], 2, "Invalid value for '--epsilon'"),
    Try("no such file", ["privot", "sketch", "none.npz", *SKETCH, "--out", "b.sketch"], 3, "none.npz"),
]
TRIES = {
    "": [
        *BASE,
        Try("synth", ["privot", *SYNTH], 2, "Synthesis needs PyTorch: pip install 'privot[synthesis]'."),
        Try("compare", ["privot", "compare", "digits", "digits"], 2, "pip install 'privot[torch]'."),
        Try("join", ["privot", "federate", "join", "a", "--link", "b:1", "--authority", "c"], 2, "privot[federation]"),
    ],
    "synthesis": [
        *BASE,
        Try("synth", ["privot", *SYNTH], 0, ""),
        Try("sample", ["privot", "sample", "made", "-n", "9", "--out", "more.npz"], 0, "9 synthetic records"),
        Try("report", ["privot", "report", "made"], 0, "report.html"),
        Try("parquet", ["python", "-c", "from privot.tables.table_writing import arrow; arrow()"], 0, ""),
        Try("compare", ["privot", "compare", "digits", "digits", "--method", "sliced"], 0, ""),
        Try("weights", ["python", "-c", WEIGHTS], 1, "privot[exact]"),
    ],
    "federation": [
        *BASE,
        Try("setup", ["privot", "federate", "setup", "hub", "--host", "localhost"], 0, "ca.pem"),
        Try("flower", ["python", "-c", FLOWER], 0, ""),
        Try("coordinate", ["privot", "federate", "coordinate", "hub", "none.toml"], 2, "There is no job none.toml"),
        Try("weights", ["python", "-c", WEIGHTS], 0, ""),
        Try("synth", ["privot", *SYNTH], 2, "pip install 'privot[synthesis]'."),
    ],
}
"""What is tried in an environment, by the extra that was installed."""


def project(folder: str = ".") -> dict[str, object]:
    """What the pyproject.toml in `folder` says of its distribution."""
    return dict(tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"])


def declared(extra: str) -> list[str]:
    """What the base and `extra` depend on, with their lower bounds; PyTorch is left out, which is always pinned."""
    said = project()
    extras = said["optional-dependencies"]
    assert isinstance(extras, dict)
    assert isinstance(said["dependencies"], list)
    return [line for line in [*said["dependencies"], *extras.get(extra, [])] if not line.startswith("torch")]


def build_wheel(folder: Path) -> Path:
    """The wheel, from a copy of the sources, with the setuptools that is installed: no network."""
    copy = folder / "copy"
    copy.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    options = [
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
        "--disable-pip-version-check",
        "-q",
        "-w",
        str(folder),
    ]
    command = [sys.executable, "-m", "pip", "wheel", *options, str(copy)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def make_environment(folder: Path, python: str, what: list[str], *options: str) -> Path:
    """An empty environment of `python` with `what` installed from the registry, by uv; its folder of programs."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    assert uv is not None, "uv is not installed: pip install 'privot[dev]'"
    quiet = {"check": True, "capture_output": True, "text": True, "timeout": 900}
    subprocess.run([uv, "venv", "-q", "--no-python-downloads", "--python", python, str(folder)], **quiet)  # type: ignore[call-overload]
    programs = folder / "bin"
    command = [uv, "pip", "install", "-q", "--only-binary", ":all:", "--python", str(programs / "python")]
    subprocess.run([*command, *options, *what], **quiet)  # type: ignore[call-overload]
    return programs


def try_all(programs: Path, folder: Path, extra: str, only: Collection[str] | None = None) -> list[str]:
    """Run `TRIES[extra]` (`only` those named) in `folder`; one sentence for everything that did not go as it must."""
    (folder / "a.csv").write_text("age,town\n1,a\n2,b\n", encoding="utf-8")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PRIVOT", "VIRTUAL_ENV"))}
    found = []
    for case in TRIES[extra]:
        if only is not None and case.name not in only:
            continue
        command = [str(programs / case.command[0]), *case.command[1:]]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=clean, timeout=600)
        said = done.stdout + done.stderr
        if case.command[0] == "privot" and done.returncode and (done.stderr.count("\n") != 1 or "Traceback" in said):
            found.append(f"{case.name}: more than one sentence: {said[-300:]!r}")
        elif done.returncode != case.code or case.words not in said:
            found.append(f"{case.name}: exit {done.returncode} for {case.code}, wanted {case.words!r}: {said[-300:]!r}")
    return found
