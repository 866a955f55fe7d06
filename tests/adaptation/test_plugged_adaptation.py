"""A method of adaptation of another distribution: one file and one line, from Python and the command line."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from privot import Vault
from privot.adaptation import DomainAdapter
from privot.adaptation.adaptation_methods import METHODS
from privot.cli import run
from privot.errors import DataError, UnprovenError, UsageError
from privot.guarantee import Standing
from privot.ledger import Ledger

STRANGER = """
from dataclasses import dataclass
from typing import ClassVar

from privot.adaptation.adaptation_config import CHOSEN, TrainedConfig
from privot.adaptation.adaptation_methods.adaptation_method import SumsMethod
from privot.adaptation.adaptation_methods.transformed_source import EmbeddingMethod
from privot.adaptation.learner import Learner
from privot.guarantee import Standing
from privot.mechanisms import MeanEmbedding
from privot.synthesis.neural.features.fourier import Fourier


@dataclass(frozen=True, kw_only=True)
class Look(TrainedConfig):
    name: ClassVar[str] = "look"
    blocks: int = CHOSEN
    width: float = CHOSEN


class Looking(Learner):
    make = MeanEmbedding
    seen = 0

    def mechanism(self):
        features = Fourier(self.networks.columns, 8, [self.settings.width], self.design.seed, 0.0, 1.0)
        return self.make(features, self.design.sigma)

    def learn(self, release, tell=None):
        self.seen += 1


class LookMethod(SumsMethod):
    config = Look
    learning = Looking

    def defaults(self, sizes):
        return Look(learning_rate=1e-2, batch=16, warmup=2, finish=3, augment=False, blocks=2, width=0.5)

    def learner(self, design, x, y, device, folder):
        return self.learning(design, x, y, device)


class Own(MeanEmbedding):
    pass


class Bold(LookMethod):
    class config(Look):
        name = "bold"

    class learning(Looking):
        make = Own


class OwnUnproven(MeanEmbedding):
    @property
    def standing(self):
        return Standing.UNPROVEN


class Modest(LookMethod):
    class config(Look):
        name = "modest"

    class learning(Looking):
        make = OwnUnproven


class Later(LookMethod):
    class config(Look):
        name = "later"

    class learning(Looking):
        # proven only when it is about to be charged
        asked = 0

        def mechanism(self):
            self.asked += 1
            self.make = MeanEmbedding if self.asked < 2 else Own
            return super().mechanism()


class Misnamed(LookMethod):
    pass
"""


@pytest.fixture(autouse=True)
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "a_stranger.py").write_text(STRANGER)
    held = tmp_path / "a_stranger-1.0.dist-info"
    held.mkdir()
    (held / "METADATA").write_text("Metadata-Version: 2.1\nName: a-stranger\nVersion: 1.0\n")
    lines = ["[privot.adaptation_methods]", "look = a_stranger:LookMethod", "sliced = nobody:Sliced"]
    lines += [f"{name} = a_stranger:{name.title()}" for name in ("bold", "modest", "later", "misnamed")]
    (held / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("a_stranger", None)
    yield
    sys.modules.pop("a_stranger", None)


def toy(records: int, shift: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(records) % 2
    x = 0.25 + 0.4 * y[:, None] + shift + 0.05 * np.random.default_rng(seed).standard_normal((records, 2))
    return np.clip(x, 0.0, 1.0), y


def opened(book: Ledger) -> Vault:
    return Vault(toy(60, 0.1)[0], clip=1.0, adjacency="replace-one", ledger=book, budget=(5.0, 1e-5))


def adapter(method: str, **more: object) -> DomainAdapter:
    return DomainAdapter(5.0, 1e-5, method=method, device="cpu", seed=1, **more)  # type: ignore[arg-type]


def test_a_method_from_outside_is_designed_paid_kept_and_loaded(tmp_path: Path) -> None:
    assert "a_stranger" not in sys.modules
    book = Ledger.create(tmp_path / "book.ledger")
    made = adapter("look").fit(opened(book), toy(40), folder=tmp_path / "out")
    assert (made.charged_, len(book.entries())) == (2, 2)
    assert made.guarantee_ is not None
    assert made.guarantee_.standing is Standing.PROVEN
    assert 4.9 < made.guarantee_.epsilon() <= 5.0
    made.save(tmp_path / "out")
    again = DomainAdapter.load(tmp_path / "out")
    np.testing.assert_array_equal(again.predict_proba(toy(9)[0]), made.predict_proba(toy(9)[0]))
    # what only that package knows is read by it, and its absence is one sentence
    assert again.design_.settings.to_dict()["width"] == 0.5
    shutil.rmtree(tmp_path / "a_stranger-1.0.dist-info")
    with pytest.raises(DataError, match=r"method 'look', which is not installed"):
        DomainAdapter.load(tmp_path / "out")
    # no name of privot's is taken
    assert METHODS.load("sliced").__module__ == "privot.adaptation.adaptation_methods.sliced_alignment"


def test_it_serves_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, rows in (("source", toy(40)), ("target", toy(60, 0.1))):
        np.savez(tmp_path / f"{name}.npz", x=rows[0], y=rows[1])
    words = ["adapt", str(tmp_path / "source.npz"), str(tmp_path / "target.npz"), "--method", "look", "--range", "0,1"]
    terms = ["--epsilon", "5", "--delta", "1e-5", "--device", "cpu", "--set", "width=0.25", "--json"]
    assert run([*words, *terms, "--out", str(tmp_path / "out")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["settings"]["method"], told["settings"]["width"], told["charged"]) == ("look", 0.25, 2)
    assert run([*words, *terms, "--out", str(tmp_path / "out"), "--resume"]) == 0
    assert json.loads(capsys.readouterr().out)["charged"] == 2


@pytest.mark.parametrize("method", ["bold", "later"])
def test_a_method_from_outside_that_calls_itself_proven_is_refused(method: str, tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book.ledger")
    for folder in (None, tmp_path / "out"):
        with pytest.raises(UsageError, match=f"Own of the method {method} calls itself proven"):
            adapter(method).fit(opened(book), toy(40), folder=folder)
    assert not book.entries()
    # what is told from the design alone is refused before a job is begun
    assert (tmp_path / "out").exists() is (method == "later")


def test_one_that_is_unproven_runs_where_that_is_allowed(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book.ledger")
    with pytest.raises(UnprovenError):
        adapter("modest").fit(opened(book), toy(40))
    assert not book.entries()
    made = adapter("modest", allow_unproven=True).fit(opened(book), toy(40))
    assert made.guarantee_ is not None
    assert made.guarantee_.standing is Standing.UNPROVEN


def test_a_method_whose_settings_have_another_name_is_refused() -> None:
    with pytest.raises(UsageError, match="misnamed call it 'look'"):
        adapter("misnamed")._terms  # noqa: B018
