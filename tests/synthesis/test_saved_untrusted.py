"""A released folder is untrusted input: whatever its config.json says, it is read or refused as bad data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot.errors import DataError
from privot.synthesis import Synthesizer
from privot.synthesis.method_configs import Embedding
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.generators.generator import build
from privot.tables import Schema, TableCodec
from privot.vault import Vault


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("released")
    x = np.clip(np.random.default_rng(0).normal(0.5, 0.1, size=(60, 2)), 0, 1)
    y = np.arange(60) % 2
    vault = Vault(x, y, classes=2, clip=1.0, adjacency="add-remove", budget=(5.0, 1e-5))
    synthesizer = Synthesizer(5.0, 1e-5, device="cpu", seed=1)
    design = synthesizer.design(vault.facts)
    synthesizer.set_params(method=Embedding(replace(design.rules, steps=3)))
    synthesizer.fit(vault).save(place)
    return place


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("params",), 3),
        (("params", "codec"), {"schema": {}}),
        (("params", "codec"), 7),
        (("learned",), []),
        (("learned", "losses"), ["x"]),
        (("learned", "losses"), 5),
        (("learned", "counts"), "many"),
        (("learned", "counts"), [[1], [1, 2]]),
        (("learned", "generator"), None),
        (("learned", "generator", "latent"), 10**400),
        (("learned", "generator", "latent"), -3),
        (("learned", "generator", "segments"), [[0, 10**9, "interval"]]),
        (("learned", "generator", "segments"), {}),
        (("learned", "generator", "hidden"), [-1]),
        (("learned", "features"), {"kind": "fourier"}),
        (("params", "low"), []),
        (("params", "high"), [1.0, 1.0, 1.0]),
    ],
    ids=str,
)
def test_an_edited_configuration_is_refused_as_bad_data(
    folder: Path, tmp_path: Path, where: tuple[str, ...], value: Any
) -> None:
    for name in ("generator.safetensors", "guarantee.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    fields = json.loads((folder / "config.json").read_text())
    place = fields
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(DataError):
        Synthesizer.load(tmp_path)


def test_a_generator_of_a_negative_size_is_bad_data() -> None:
    fields = {"kind": "mlp", "dim": 2, "classes": 2, "segments": [[0, 2, "interval"]], "latent": 3}
    assert build({**fields, "hidden": [4]}).dim == 2
    with pytest.raises(DataError, match="does not describe a generator"):
        build({**fields, "hidden": [-1]})
    with pytest.raises(DataError, match="at least one latent number"):
        build({**fields, "hidden": [4], "latent": -1})


@pytest.mark.parametrize(("name", "value"), [("steps", -1), ("batch", 0), ("batch", 1e400), ("learning_rate", -0.1)])
def test_rules_of_a_training_that_cannot_be_are_bad_data(name: str, value: Any) -> None:
    fields = {"generator": {}, "steps": 4, "batch": 8, "learning_rate": 0.1}
    assert Rules.from_dict(fields).batch == 8
    with pytest.raises(DataError, match="not the rules of a training"):
        Rules.from_dict({**fields, name: value})


def test_a_guarantee_that_is_no_text_is_refused_as_bad_data(folder: Path, tmp_path: Path) -> None:
    for name in ("generator.safetensors", "config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "guarantee.json").write_bytes(b"\x8a" + (folder / "guarantee.json").read_bytes())
    with pytest.raises(DataError, match=r"guarantee\.json"):
        Synthesizer.load(tmp_path)


def test_a_schema_that_cannot_be_is_bad_data_where_a_file_says_it(folder: Path, tmp_path: Path) -> None:
    """The same schema given by a caller is a usage error; in a released folder it is the file that is wrong."""
    columns = [{"name": "age", "type": "integer", "low": 0, "high": 99}]
    codec = TableCodec(Schema.from_dict({"columns": columns})).to_dict()
    codec["schema"]["marks"] = []
    for name in ("generator.safetensors", "guarantee.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    fields = json.loads((folder / "config.json").read_text())
    fields["params"]["codec"] = codec
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(DataError, match=r"config\.json"):
        Synthesizer.load(tmp_path)
