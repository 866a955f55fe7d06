"""Values outside all bounds are refused before a command begins, in one sentence with exit code 2."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot.adaptation import Sliced
from privot.adaptation.adaptation_methods import choose
from privot.cli import run
from privot.errors import DataError, UsageError
from privot.federation.parties.enrolment import make_coordinator
from privot.kinds import Images
from privot.synthesis import Synthesizer
from privot.synthesis.neural.features.fourier import feature_map

HUGE = "1" + "0" * 400
AUDIT = "audit one-run --sigma 1 --batch 10 --canaries".split()
EMBEDDING = "audit embedding --epsilon 1 --adjacency add-remove".split()
PROJECTION = "audit projection --epsilon 1 --adjacency replace-one".split()
ACCOUNT = "account embedding --delta 1e-5 --adjacency add-remove --epsilon".split()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    y = np.arange(40) % 2
    x = np.clip(0.25 + 0.5 * y[:, None] + 0.05 * np.random.default_rng(0).standard_normal((40, 2)), 0, 1)
    np.savez("a.npz", x=x, y=y)
    return tmp_path


def refused(capsys: Any, arguments: list[str], code: int = 2) -> str:
    found = run(arguments)
    said = capsys.readouterr()
    assert found == code, said.err
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert len(said.err) < 300
    return str(said.err)


@pytest.mark.parametrize(
    "arguments",
    [
        ["sample", "missing", "--out", "more.npz", "--seed", "-1"],
        ["sample", "missing", "--out", "more.npz", "-n", HUGE],
        ["compare", "a.npz", "a.npz", "--method", "sinkhorn", "--reg", "1e-320"],
        ["compare", "a.npz", "a.npz", "--slices", HUGE],
        "account compare --delta 1e-5 --adjacency replace-one --dim 20 --slices 5 --steps 2 --points 1000".split(),
        ["adapt", "a.npz", "a.npz", "--epsilon", "1", "--delta", "1e-5", "--out", "out", "--set", "checkpoint=nan"],
        [
            "adapt",
            "a.npz",
            "--ask",
            "r",
            "--set",
            f"records={HUGE}",
            "--epsilon",
            "1",
            "--delta",
            "1e-5",
            "--range",
            "0,1",
            "--out",
            "o",
        ],
        [*AUDIT, str(2**63)],
        [*EMBEDDING, "--records", "-1"],
        [*PROJECTION, "--records", "-1"],
        [*PROJECTION, "--dim", HUGE],
        [*ACCOUNT, "nan"],
        [*ACCOUNT, "inf"],
        [*ACCOUNT, "1e-320"],
        ["points", "a.npz", "--validation", "a.npz", "--range", "nan,1"],
        ["federate", "coordinate", "hub", "job.toml", "--port", "70000"],
    ],
    ids=lambda words: " ".join(words)[:60],
)
def test_a_number_outside_all_bounds_is_refused(capsys: Any, arguments: list[str]) -> None:
    said = refused(capsys, arguments)
    assert "must" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["federate", "setup", "hub", "--host", ""],
        ["answer", "request.json", "a.npz", "--epsilon", "1", "--delta", "1e-5", "--out", "o", "--ledger", ""],
        ["answer", "request.json", "a.npz", "--epsilon", "1", "--delta", "1e-5", "--out", "o", "--ledger="],
        ["ledger", "show", ""],
        ["compare", "a.npz", ""],
    ],
    ids=lambda words: " ".join(words)[:60],
)
def test_an_empty_value_is_refused(capsys: Any, folder: Path, arguments: list[str]) -> None:
    assert "empty" in refused(capsys, arguments)
    assert not (folder / "hub").exists()


@pytest.mark.parametrize("ledger", [".", "/", ".."])
def test_a_folder_given_as_ledger_is_refused(capsys: Any, ledger: str) -> None:
    words = ["synth", "a.npz", "--epsilon", "1", "--delta", "1e-5", "--adjacency", "add-remove", "--classes", "2"]
    refused(capsys, [*words, "--range", "0,1", "--out", "out", "--ledger", ledger], 2)


@pytest.mark.parametrize("host", ["", " ", "a b", "ü.example", "a" * 300, "-a", "a..b", "http://a"])
def test_a_certificate_needs_a_valid_host_name_or_address(host: str, folder: Path) -> None:
    with pytest.raises(UsageError, match="host name or address"):
        make_coordinator(folder / "hub", [host])
    assert not (folder / "hub").exists()


@pytest.mark.parametrize("seed", [-1, 1.5, 2**128, True])
def test_sampling_with_an_invalid_seed_is_refused(seed: Any) -> None:
    import torch

    from privot.synthesis.fitted import FittedGenerator
    from privot.synthesis.neural.generators.generator import build

    network = {"kind": "mlp", "dim": 2, "classes": 1, "segments": [[0, 2, "interval"]], "latent": 2, "hidden": []}
    with torch.random.fork_rng():
        fitted = FittedGenerator(build(network), None, np.ones(1), False, (0.0, 1.0))
    with pytest.raises(UsageError, match="seed"):
        fitted.sample(3, seed=seed)


@pytest.mark.parametrize("runs", ["1", "2", "9"])
def test_too_few_runs_are_refused_before_anything_is_computed(capsys: Any, runs: str, recwarn: Any) -> None:
    """NumPy warned of means of nothing before the refusal came."""
    said = refused(capsys, [*EMBEDDING, "--runs", runs, "--trials", "0"])
    assert "at least" in said
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


def test_a_deleted_report_of_an_adaptation_is_written_again(capsys: Any, folder: Path) -> None:
    words = "adapt a.npz a.npz --epsilon 5 --delta 1e-5 --seed 1 --device cpu --range 0,1 --set fit=3 --set finish=10"
    assert run([*words.split(), "--out", "out"]) == 0
    (folder / "out/report.html").unlink()
    capsys.readouterr()
    assert run(["report", "out", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"] == "out/report.html"
    assert "adapted to private records" in (folder / "out/report.html").read_text()


def test_a_refusal_does_not_repeat_a_long_value(capsys: Any) -> None:
    words = ["synth", "a.npz", "--epsilon", "1", "--delta", "1e-5", "--adjacency", "add-remove", "--classes", "2"]
    for option in ("--range", "--shape", "--set"):
        refused(capsys, [*words, "--out", "out", "--range", "0,1", option, "a" * 5000])


def test_a_folder_given_as_job_file_is_refused(capsys: Any) -> None:
    assert run(["federate", "setup", "hub", "--host", "127.0.0.1"]) == 0
    capsys.readouterr()
    refused(capsys, ["federate", "coordinate", "hub", "."], 3)


def test_a_release_file_without_its_arrays_is_bad_data(capsys: Any, folder: Path) -> None:
    words = (
        "synth a.npz --epsilon 5 --delta 1e-5 --adjacency add-remove --classes 2 --range 0,1 --set steps=3 --samples 5"
    )
    assert run([*words.split(), "--device", "cpu", "--out", "out"]) == 0
    with zipfile.ZipFile("out/release.npz") as held, zipfile.ZipFile("cut.npz", "w") as cut:
        for name in held.namelist():
            if "sums" not in name:
                cut.writestr(name, held.read(name))
    capsys.readouterr()
    assert "cut.npz" in refused(capsys, ["audit", "cut.npz", "--trials", "1000", "--runs", "50"], 3)
    Path("cut.npz").replace("out/release.npz")
    assert "release.npz" in refused(capsys, ["audit", "out", "--trials", "1000", "--runs", "50"], 3)


@pytest.mark.parametrize("place", ["params", "learned"])
def test_the_report_of_an_edited_folder_is_refused_as_bad_data(capsys: Any, folder: Path, place: str) -> None:
    words = (
        "synth a.npz --epsilon 5 --delta 1e-5 --adjacency add-remove --classes 2 --range 0,1 --set steps=3 --samples 5"
    )
    assert run([*words.split(), "--device", "cpu", "--out", "out"]) == 0
    fields = json.loads((folder / "out/config.json").read_text())
    (folder / "out/config.json").write_text(json.dumps({**fields, place: 3}))
    capsys.readouterr()
    refused(capsys, ["report", "out"], 3)


@pytest.mark.parametrize("shape", [5, [2, "1"], "2,1"], ids=["a number", "a text inside", "a text"])
def test_a_folder_whose_shape_was_edited_is_bad_data(shape: Any) -> None:
    params = {**Synthesizer(1.0, 1e-5, kind=Images((2, 1))).to_params(), "shape": shape}
    with pytest.raises(DataError, match="list of whole numbers"):
        Synthesizer.from_params(params)


@pytest.mark.parametrize("leads", ["link.npz", "nowhere"], ids=["to itself", "nowhere"])
def test_a_link_that_has_the_name_of_an_output_is_not_replaced(capsys: Any, folder: Path, leads: str) -> None:
    (folder / "link.npz").symlink_to(folder / leads)
    arguments = "sketch a.npz --epsilon 5 --delta 1e-5 --adjacency replace-one --prototypes a.npz --out link.npz"
    assert "exists already" in refused(capsys, arguments.split())
    assert (folder / "link.npz").is_symlink()
    assert not list(folder.glob("*.ledger"))


def test_facts_of_a_feature_map_that_only_an_edited_file_has_are_bad_data() -> None:
    fields = {"kind": "fourier", "dim": 2, "frequencies": 4, "bandwidths": [1.0], "seed": 1, "low": 0, "high": 1}
    with pytest.raises(DataError, match="not the public facts"):
        feature_map({**fields, "frame": 1})
    with pytest.raises(DataError, match="not the settings"):
        Sliced.from_dict({**choose("sliced", False, 100).to_dict(), "frame": 1})
