"""A kind of records and a method of synthesis of another distribution: one file, and one line for each."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from privot import Synthesizer, Vault
from privot.cli import run
from privot.common import extras
from privot.errors import UnprovenError, UsageError
from privot.guarantee import Standing
from privot.kinds.kind_registry import KINDS

STRANGER = """
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from privot.guarantee import Standing
from privot.kinds import Read, Vectors
from privot.mechanisms import MeanEmbedding
from privot.synthesis.methods.embedding_method import EmbeddingMethod


@dataclass(frozen=True)
class Sounds(Vectors):
    name: ClassVar[str] = "sounds"

    def read(self, files, unit=None):
        lines = open(files.data).read().split()
        return Read(np.array([[float(v) for v in line.split("|")] for line in lines]), None, self)

    def to_params(self):
        return super().to_params() | {"kind": self.name}


class Shorter(EmbeddingMethod):
    def plan(self, config, facts):
        design = super().plan(config, facts)
        return replace(design, rules=replace(design.rules, steps=2, batch=4))


class Own(MeanEmbedding):
    pass


class OwnUnproven(MeanEmbedding):
    @property
    def standing(self):
        return Standing.UNPROVEN


class Bold(Shorter):
    makes = Own

    def plan(self, config, facts):
        design = super().plan(config, facts)
        held = design.mechanism
        return replace(design, mechanism=self.makes(held.features, held.sigma, labels=held.labels))


class Modest(Bold):
    makes = OwnUnproven
"""


@pytest.fixture(autouse=True)
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "a_stranger.py").write_text(STRANGER)
    held = tmp_path / "a_stranger-1.0.dist-info"
    held.mkdir()
    (held / "METADATA").write_text("Metadata-Version: 2.1\nName: a-stranger\nVersion: 1.0\n")
    lines = ["[privot.kinds]", "sounds = a_stranger:Sounds", "vectors = nobody:Vectors", "[privot.synthesis_methods]"]
    lines += [f"{name} = a_stranger:{name.title()}" for name in ("shorter", "bold", "modest")]
    (held / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("a_stranger", None)
    yield
    sys.modules.pop("a_stranger", None)


def sounds(folder: Path) -> tuple[Path, Path]:
    random, schema = np.random.default_rng(0), folder / "sounds.json"
    rows = random.uniform(size=(40, 3))
    (folder / "a.snd").write_text("\n".join("|".join(f"{v:.3f}" for v in row) for row in rows))
    schema.write_text(json.dumps({"kind": "sounds", "clip": 2.0}))
    return folder / "a.snd", schema


def test_a_kind_from_outside_is_read_synthesised_kept_and_loaded(tmp_path: Path) -> None:
    file, schema = sounds(tmp_path)
    assert "a_stranger" not in sys.modules
    vault = Vault.open(file, schema, adjacency="add-remove", budget=(2.0, 1e-5))
    assert (vault.kind.name, vault.facts.dim) == ("sounds", 3)
    made = Synthesizer(2.0, 1e-5, method="shorter", device="cpu", seed=1).fit(vault)
    assert made.sample(7)[0].shape == (7, 3)
    made.save(tmp_path / "made")
    again = Synthesizer.load(tmp_path / "made")
    assert again.kind_.name == "sounds"
    assert again.sample(7, seed=1)[0].tolist() == made.sample(7, seed=1)[0].tolist()
    # no name of privot's is taken
    assert KINDS.load("vectors").__module__ == "privot.kinds.numbers"


def test_both_serve_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, schema = sounds(tmp_path)
    out = tmp_path / "out"
    terms = ["--epsilon", "2", "--delta", "1e-5", "--adjacency", "add-remove", "--device", "cpu", "--samples", "12"]
    code = run(["synth", str(file), "--schema", str(schema), "--method", "shorter", *terms, "--out", str(out)])
    assert code == 0, capsys.readouterr().err
    assert np.load(out / "synthetic.npz")["x"].shape == (12, 3)
    assert json.loads((out / "config.json").read_text())["params"]["kind"] == "sounds"


def test_a_method_from_outside_that_calls_itself_proven_is_refused(tmp_path: Path) -> None:
    file, schema = sounds(tmp_path)
    vault = Vault.open(file, schema, adjacency="add-remove", budget=(2.0, 1e-5))
    with pytest.raises(UsageError, match="Own of the method bold calls itself proven"):
        Synthesizer(2.0, 1e-5, method="bold", device="cpu").fit(vault)
    with pytest.raises(UnprovenError):
        Synthesizer(2.0, 1e-5, method="modest", device="cpu").fit(vault)
    # nothing was paid: all of the budget is there
    made = Synthesizer(2.0, 1e-5, method="modest", device="cpu", allow_unproven=True).fit(vault)
    assert made.guarantee_.standing is Standing.UNPROVEN


def test_who_plugs_in_is_looked_for_again_when_something_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(**_: object) -> None:
        raise AssertionError("looked for")

    assert "sounds" in KINDS
    with monkeypatch.context() as patch:
        patch.setattr(extras, "entry_points", look)
        assert "sounds" in KINDS
        assert "noises" not in KINDS
    # the clock of a file system stands still for some milliseconds
    time.sleep(0.02)
    shutil.copytree(tmp_path / "a_stranger-1.0.dist-info", held := tmp_path / "another-1.0.dist-info")
    (held / "METADATA").write_text("Metadata-Version: 2.1\nName: another\nVersion: 1.0\n")
    (held / "entry_points.txt").write_text("[privot.kinds]\nnoises = a_stranger:Sounds\n")
    assert KINDS.load("noises").__name__ == "Sounds"
