"""The wheel holds what it must, and starts: from its own files, and in an empty environment if there is a network."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from environments import ROOT, build_wheel, make_environment, project, try_all

QUICK = ("--help", "account", "sketch", "ledger init", "unknown option", "missing option", "synth")
"""Of all that is tried in an environment: `make wheel-test` tries the rest."""

pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_every_source_its_types_and_nothing_else(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    source = ROOT / "src"
    kinds = (".c", ".py", ".js", ".json", ".typed")
    wanted = {str(p.relative_to(source)) for p in (source / "privot").rglob("*") if p.suffix in kinds}
    assert {name for name in held if ".dist-info/" not in name} == wanted


def test_the_wheel_declares_what_the_project_does(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        info = f"privot-{project()['version']}.dist-info"
        said = message_from_bytes(archive.read(f"{info}/METADATA"))
        scripts = archive.read(f"{info}/entry_points.txt").decode()
    assert said["Requires-Python"] == project()["requires-python"] == ">=3.11"
    always = [line for line in said.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert sorted(always) == sorted(project()["dependencies"])  # type: ignore[call-overload]
    assert set(said.get_all("Provides-Extra", [])) == set(project()["optional-dependencies"])  # type: ignore[call-overload]
    assert "privot = privot.cli:main" in scripts


def test_the_command_runs_from_the_files_of_the_wheel(wheel: Path, tmp_path: Path):
    """No network: the packages of this environment, the files of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = "import privot, sys; from privot.cli import main; print(privot.__file__); sys.argv[1:] = ['--help']; main()"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-W", "error::SyntaxWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=True)
    assert Path(done.stdout.splitlines()[0]).is_relative_to(tmp_path)
    assert "Exit codes: 0 done" in done.stdout


def test_help_loads_no_array_library_and_no_plotting():
    """What makes `privot --help` quick: a tenth of a second of Python's own, and nothing that computes."""
    code = """
import sys, contextlib, io
from privot.cli import run
with contextlib.redirect_stdout(io.StringIO()):
    run(["--help"])
print(sorted({"numpy", "scipy", "sklearn", "matplotlib", "torch", "cryptography", "PIL"} & set(sys.modules)))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_privot_warns_of_nothing():
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-W", "error", "-c", "import privot"], env=environment, check=True)


def test_the_wheel_works_in_an_empty_environment_with_the_newest_versions(wheel: Path, tmp_path: Path):
    """As `pip install privot` gives it to somebody today, without the constraints of this project."""
    try:
        programs = make_environment(tmp_path / "env", sys.executable, [str(wheel)])
    except subprocess.CalledProcessError as error:
        # only what cannot be fetched is no fault of the wheel
        if not any(word in error.stderr for word in ("error sending request", "Failed to fetch", "dns error")):
            raise AssertionError(error.stderr) from None
        pytest.skip("there is no network here: `make wheel-test` runs this where there is one")
    (tmp_path / "work").mkdir()
    assert try_all(programs, tmp_path / "work", "", QUICK) == []
    environment = {"PATH": str(programs)}
    started = [_processor_seconds([str(programs / "privot"), "--help"], environment) for _ in range(3)]
    assert min(started) < 1.0, "privot --help computes for seconds"


def _processor_seconds(command: list[str], environment: dict[str, str]) -> float:
    before = os.times().children_user
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return os.times().children_user - before
