"""Without an optional package, everything that needs it says so in one sentence that names the extra to install."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privot
from privot.common.extras import OPTIONAL, needing
from privot.data.loading import load
from privot.errors import MissingDependencyError, UsageError

SCRIPT = Path(__file__).with_name("without_packages.py")
ALL = ",".join([*OPTIONAL, "triton", "geomloss"])
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(privot.__file__).parents[1])}
BUDGET = ["--epsilon", "5", "--delta", "1e-5", "--adjacency", "replace-one"]


def sketch(name: str, *design: str) -> list[str]:
    return ["sketch", f"{name}.npz", *BUDGET, *design, "--out", f"{name}.sketch"]


def without(hidden: str, what: str, folder: Path, commands: list[list[str]] | None = None) -> Any:
    done = subprocess.run(  # of this privot, whichever folder it runs in
        [sys.executable, str(SCRIPT), hidden, what],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        cwd=folder,
        env=ENVIRONMENT,
        timeout=400,
        check=True,
    )
    return json.loads(done.stdout)


def python(program: str, folder: Path) -> str:
    """What a program prints in a process of its own."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=ENVIRONMENT, check=True)
    return done.stdout


NEEDING = {
    "synth": (["synth", "digits", *BUDGET, "--out", "made"], "synthesis"),
    "demo": (["demo", "--out", "demo"], "synthesis"),
    "adapt": (["adapt", "digits", "digits", *BUDGET, "--out", "adapted"], "synthesis"),
    "answer": (["answer", "request.json", "digits", "--out", "answer.release"], "synthesis"),
    "sample": (["sample", "nothing", "-n", "5", "--out", "more.npz"], "synthesis"),
    "evaluate": (["evaluate", "digits", "--test", "digits"], "synthesis"),
    "report": (["report", "nothing"], "synthesis"),
    "compare": (["compare", "digits", "digits"], "torch"),
    "compare openly": (["compare", "digits", "digits", "--method", "triangle", "--allow-unproven"], "torch"),
    "compare sketches in detail": (["compare", "a.sketch", "b.sketch"], "torch"),
    "audit": (["audit", "embedding", "--epsilon", "1", "--adjacency", "replace-one", "--runs", "500"], "torch"),
    "audit all": (["audit", "all", "--runs", "500"], "torch"),
    "audit implementation": (["audit", "implementation"], "torch"),
    "value": (["value", "a.sketch", "b.sketch", "--validation", "v.sketch"], "torch"),
    "matrix": (["federate", "matrix", "a.sketch", "b.sketch", "v.sketch", "--out", "map.png"], "torch"),
    "coordinate": (["federate", "coordinate", "hub", "job.toml"], "federation"),
    "join": (["federate", "join", "north", "--link", "a:1", "--authority", "ca.pem"], "federation"),
    "parquet": (["schema", "propose", "--sample", "a.parquet", "--public", "--out", "b.json"], "synthesis"),
}
WORKING = {
    "help": ["--help"],
    "sketch a": sketch("a", "--prototypes", "v.npz", "--classes", "10"),
    "sketch b": sketch("b", "--prototypes", "v.npz", "--classes", "10"),
    "sketch v": sketch("v", "--prototypes", "v.npz", "--classes", "10"),
    "sketch c": sketch("c", "--range", "0,1"),
    "sketch d": sketch("d", "--range", "0,1"),
    "compare sketches": ["compare", "c.sketch", "d.sketch"],
    "points": ["points", "a.npz", "--validation", "v.npz"],
    "account": ["account", "embedding", *BUDGET],
    "ledger init": ["ledger", "init", "e.ledger", "--data", "digits", *BUDGET],
    "ledger show": ["ledger", "show", "e.ledger"],
    "schema propose": ["schema", "propose", "--dictionary", "dictionary.json", "--out", "schema.json"],
    "schema of a sample": ["schema", "propose", "--sample", "a.csv", "--public", "--out", "sampled.json"],
}
WRONG = {
    "unknown option": (["account", "embedding", "--nonsense"], "No such option"),
    "unknown command": (["nonsense"], "No such command 'nonsense'"),
    "unknown sub-command": (["ledger", "nonsense"], "No such command 'nonsense'"),
    "missing option": (["sketch", "digits"], "Missing option"),
    "missing argument": (["sketch"], "Missing argument 'DATA'"),
    "no number": (["account", "embedding", "--epsilon", "many"], "'--epsilon'"),
    "one too many": (["report", "a", "b"], "unexpected extra argument"),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int | str, str]]:
    """What every command above says where no optional package is there; one process for all of them."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "dictionary.json").write_text('{"age": {"low": 0, "high": 120}}')
    digits = load("digits")
    for k, name in enumerate("abcdv"):
        np.savez(folder / name, x=digits.x[300 * k : 300 * (k + 1)], y=digits.y[300 * k : 300 * (k + 1)])
    (folder / "a.csv").write_text("age,town\n1,a\n2,b\n")
    (folder / "a.parquet").write_bytes(b"")
    commands = {**WORKING, **{k: v[0] for k, v in NEEDING.items()}, **{k: v[0] for k, v in WRONG.items()}}
    return dict(zip(commands, without(ALL, "commands", folder, list(commands.values())), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDING)
def test_a_command_without_its_package_names_the_extra_and_exits_with_2(name: str, said: dict[str, Any]):
    code, words = said[name]
    assert code == 2, words
    assert words.startswith("privot: ")
    assert words.count("\n") == 1
    assert f"pip install 'privot[{NEEDING[name][1]}]'" in words


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKING)
def test_a_command_of_the_base_works_without_any_optional_package(name: str, said: dict[str, Any]):
    code, words = said[name]
    assert code == 0, words


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_wrong_usage_is_one_sentence_and_exits_with_2(name: str, said: dict[str, Any]):
    code, words = said[name]
    assert code == 2, words
    assert words.startswith("privot: ")
    assert words.count("\n") == 1
    assert WRONG[name][1] in words


@pytest.mark.slow
def test_public_names_without_their_package_raise_the_sentence(tmp_path: Path):
    found = without(ALL, "names", tmp_path)
    assert {package for package, _, _ in found} == {
        "privot", "privot.adaptation", "privot.evaluation", "privot.synthesis", "privot.transport",
    }  # fmt: skip
    for _, kind, sentence in found:
        assert kind == "MissingDependencyError"
        assert "pip install 'privot[" in sentence


@pytest.mark.slow
@pytest.mark.parametrize("hidden", ["jinja2", "safetensors"])
def test_nothing_is_paid_for_a_synthesis_that_could_not_be_written(hidden: str, tmp_path: Path):
    [(code, words)] = without(hidden, "commands", tmp_path, [NEEDING["synth"][0]])
    assert code == 2
    assert "privot[synthesis]" in words
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_mechanism_that_needs_tensors_is_refused_before_it_is_paid(tmp_path: Path):
    """Without PyTorch the vault refuses while nothing is charged: as much of the budget is left as before."""
    program = f"""
import sys; sys.path.insert(0, {str(SCRIPT.parent)!r})
from without_packages import hide
hide({{"torch"}})
import numpy as np
from privot import Vault
from privot.accounting import FixedSize
from privot.mechanisms import SanitizedGradient
vault = Vault(np.eye(8), clip=1.0, adjacency="replace-one", budget=(100.0, 1e-5))
try:
    vault.stream(SanitizedGradient(4, 1.0, 0.5, FixedSize(2, 8)), purpose="test")
except ImportError as error:
    print(error)
else:
    print("paid")
"""
    assert "pip install 'privot[torch]'" in python(program, tmp_path)


def test_a_missing_dependency_is_a_usage_error_and_an_import_error():
    sentence = r"Tests need Flower: pip install 'privot\[dev\]'\."
    with pytest.raises(MissingDependencyError, match=sentence) as caught, needing("Tests need", "dev"):
        raise ModuleNotFoundError("No module named 'flwr.app'", name="flwr.app")
    assert isinstance(caught.value, UsageError)
    assert isinstance(caught.value, ImportError)
    assert caught.value.name == "flwr"
    assert caught.value.exit_code == 2


def test_the_outer_need_names_the_extra_and_an_unnamed_one_leaves_it():
    inner, outer = needing("Transport needs", "torch"), needing("Synthesis needs", "synthesis")
    with pytest.raises(MissingDependencyError, match=r"privot\[synthesis\]"), needing("This needs"), outer, inner:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")


def test_a_module_that_is_no_choice_stays_a_fault():
    with pytest.raises(ModuleNotFoundError) as caught, needing("Tests need", "dev"):
        raise ModuleNotFoundError("No module named 'sympy'", name="sympy")
    assert not isinstance(caught.value, MissingDependencyError)


def test_what_is_required_is_looked_for_and_not_imported(tmp_path: Path):
    program = """
import sys
from privot.common.extras import require
require("Tests need", "torch", "torch")
print("torch" in sys.modules)
"""
    assert python(program, tmp_path).strip() == "False"
