"""A synthesis method is one file and one line in the registry."""

from __future__ import annotations

import numpy as np
import pytest

from privot.errors import UsageError
from privot.kinds import as_kind
from privot.synthesis import Synthesizer
from privot.synthesis.fitted import FittedGenerator
from privot.synthesis.methods import METHODS, OF_SCHEMAS, method_named
from privot.synthesis.methods.embedding_method import EmbeddingMethod
from privot.synthesis.methods.method import Outcome, SynthesisRun
from privot.tables import Column, Schema
from privot.vault import Vault


class UntrainedMethod(EmbeddingMethod):
    """A method of somebody else: it pays for the same release and keeps the initial weights."""

    watched = "nothing"

    def run(self, run: SynthesisRun) -> Outcome:
        release, _ = run.payments.release(lambda: run.design.mechanism, run.design.check_release)
        outcome = Outcome(run.design, release.guarantee, release)
        run.paid(outcome)
        from privot.synthesis.neural.generator_training.training_state import TrainingState

        generator = TrainingState.start(run.design.rules, run.design.seed, run.device).generator
        span = (run.config.low, run.config.high)
        outcome.fitted = FittedGenerator(generator, None, np.ones(generator.classes), False, span)
        return outcome


@pytest.mark.parametrize("name", METHODS.own)
def test_every_registered_method_offers_the_protocol(name: str) -> None:
    method = method_named(name)
    assert method.watched
    assert all(callable(getattr(method, verb)) for verb in ("plan", "read_design", "run"))


def test_a_table_has_its_own_method_and_no_other() -> None:
    kind = as_kind(Schema((Column("age", "integer", 0, 120),)))
    assert type(method_named("embedding", kind)).__name__ == OF_SCHEMAS["table"].split(":")[1]
    with pytest.raises(UsageError, match="not by sliced"):
        method_named("sliced", kind)


def test_a_new_method_is_one_line_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privot.synthesis.methods.embedding_method.UntrainedMethod", UntrainedMethod, raising=False)
    monkeypatch.setitem(METHODS.own, "untrained", "privot.synthesis.methods.embedding_method:UntrainedMethod")  # type: ignore[arg-type]
    vault = Vault(np.random.default_rng(0).uniform(size=(50, 2)), clip=2.0, adjacency="add-remove", budget=(1.0, 1e-5))
    made = Synthesizer(1.0, 1e-5, method="untrained", device="cpu", seed=1).fit(vault)
    assert made.sample(7)[0].shape == (7, 2)
    assert made.guarantee_.epsilon() <= 1.0
    with pytest.raises(UsageError, match="Unknown method 'other'"):
        Synthesizer(1.0, 1e-5, method="other").design(vault.facts)
