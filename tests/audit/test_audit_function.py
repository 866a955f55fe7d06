"""`privot.audit.audit`: picks the attack, accepts the stated noise, and refutes two thirds of it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from broken import Quiet, QuietInside, QuietSketch

import privot.audit
from privot.accounting import Gaussian
from privot.accounting.sampling import FixedSize, Poisson
from privot.audit import (
    CountsAttack,
    DPSGDAttack,
    EmbeddingAttack,
    GradientAttack,
    LearnedAttack,
    ProjectionAttack,
    SketchAttack,
    audit,
)
from privot.audit.attacks.dp_sgd_attack import RowGradients
from privot.audit.mechanism_audit import attack_for
from privot.errors import NoTheoremError, UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms import (
    ClippedGradients,
    Facts,
    MeanEmbedding,
    Needs,
    RandomProjection,
    SanitizedGradient,
    SketchDesign,
)
from privot.mechanisms.accuracy_counts import CorrectCounts
from privot.mechanisms.gradients.gradient_function import Query
from privot.mechanisms.gradients.sinkhorn_gradient import GradientQuery
from privot.mechanisms.sketching.private_sketch import PrivateSketch
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.marginals import Marginals

DELTA = 1e-5
ADD, ONE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


class Axes:
    """A public map of two columns to themselves, bounded: a feature map, or a classifier of two classes."""

    rounding, dim, size = 0.0, 2, 2

    def __init__(self, sign: float = 1.0) -> None:
        self.sign = sign

    def features(self, x: Any) -> Any:
        return self.sign * x.clamp(-0.7, 0.7)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "axes", "sign": self.sign}


def gradients(sampling: Any, **fields: Any) -> ClippedGradients:
    return ClippedGradients(RowGradients(3), Query(np.zeros(3)), 1.0, 1.0, sampling, **fields)


def sanitized(sampling: Any) -> SanitizedGradient:
    return SanitizedGradient(points=4, sigma=0.02, clip=0.01, sampling=sampling, capacity=20, sweeps=3)


COUNTS: list[tuple[Any, Facts]] = [
    (CorrectCounts((Axes(), Axes(), Axes()), 1.0), Facts(2, None, 1.0, ADD, 2)),
    (
        Marginals((Axis(0, 3, (0.0, 1.0)), Axis(1, 2, (0.0,))), ((0,), (1,), (0, 1)), 1.5, (1.0, 2.0, 1.0)),
        Facts(2, 9, 1.0, ONE),
    ),
]
CASES: list[tuple[Any, Facts, type]] = [
    (RandomProjection(8, 1.0), Facts(8, 500, 0.5, ONE), ProjectionAttack),
    (RandomProjection(6, 1.0, label_weight=1.0), Facts(4, 50, 0.5, ONE, 2), ProjectionAttack),
    (sanitized(Poisson(1.0)), Facts(5, None, 1.0, ADD), GradientAttack),
    (MeanEmbedding(Axes(), 1.0), Facts(2, None, 1.0, ADD), EmbeddingAttack),
    (MeanEmbedding(Axes(), 1.0, labels=True), Facts(2, None, 1.0, ADD, 3), EmbeddingAttack),
    (MeanEmbedding(Axes(), 2.0, count_weight=0.1), Facts(2, 100, 1.0, ONE), EmbeddingAttack),
    (gradients(Poisson(1.0)), Facts(3, None, 1.0, ADD, 2), DPSGDAttack),
    (gradients(FixedSize(4, 4)), Facts(3, 4, 1.0, ONE, 2), DPSGDAttack),
    (PrivateSketch(SketchDesign.plain(6, 3.0), 2.0), Facts(6, None, 1.0, ADD), SketchAttack),
    (PrivateSketch(SketchDesign.plain(6, 3.0).labelled(2), 4.0), Facts(6, 70, 1.0, ONE, 2), SketchAttack),
    *((mechanism, facts, CountsAttack) for mechanism, facts in COUNTS),
]


@pytest.mark.parametrize(("mechanism", "facts", "kind"), CASES, ids=lambda v: getattr(v, "__name__", None))
def test_the_stated_noise_is_accepted_and_two_thirds_are_refuted(mechanism: Any, facts: Facts, kind: type) -> None:
    assert isinstance(attack_for(mechanism, facts), kind)
    assert attack_for(mechanism, facts).claim.adjacency is facts.adjacency
    found = audit(mechanism, facts, runs=0, trials=20_000)
    assert not found.refuted
    assert 0.0 < found.epsilon() <= found.claim.epsilon()
    assert audit(mechanism, facts, runs=0, trials=20_000, noise=Quiet(factor=2.0 / 3.0)).refuted  # type: ignore[arg-type]


class Doubled:
    """A mechanism that the audit does not know: one count of records, twice."""

    steps, seed, standing, needs = 1, None, Standing.PROVEN, Needs()

    def __init__(self, sigma: float = 1.0) -> None:
        self.sigma = sigma

    def event(self, facts: Facts) -> Gaussian:
        return Gaussian(self.sigma, 2.0, facts.adjacency)

    def run(self, records: Any, noise: Any, event: Any, step: int) -> Any:
        return 2.0 * records.count + noise.normal(1, event.sigma), {}


@pytest.mark.slow
def test_a_mechanism_that_the_audit_does_not_know_is_attacked_by_a_learned_score() -> None:
    facts = Facts(2, None, 1.0, ADD)
    assert isinstance(attack_for(Doubled(), facts), LearnedAttack)
    assert not audit(Doubled(), facts, runs=400).refuted
    assert audit(Doubled(), facts, runs=2500, noise=Quiet(factor=2.0 / 3.0)).refuted  # type: ignore[arg-type]


def test_the_record_that_moves_all_counts_is_found() -> None:
    for mechanism, facts in COUNTS:
        attack: Any = attack_for(mechanism, facts)
        direction, sigma = attack.change
        assert np.linalg.norm(direction) == pytest.approx(attack.claim.shift, rel=1e-9)
        assert sigma == 1.0
        assert attack.real(True, 25).shape == (25, 2)


def test_a_fault_inside_the_mechanism_is_found() -> None:
    facts = Facts(4, 30, 0.5, ONE)
    assert audit(QuietInside(4, 0.5), facts, runs=0, trials=20_000).refuted
    assert not audit(RandomProjection(4, 0.5), facts, runs=0, trials=20_000).refuted
    design = SketchDesign.plain(4, 2.0)
    assert audit(QuietSketch(design, 1.7), Facts(4, 30, 1.0, ONE), runs=0, trials=20_000).refuted


def test_steps_are_composed_in_the_claim() -> None:
    facts = Facts(3, None, 1.0, ADD, 2)
    one, many = (attack_for(gradients(Poisson(0.2), steps=steps), facts).claim for steps in (1, 8))
    assert many.epsilon() > 1.5 * one.epsilon()


def test_an_attack_is_taken_as_it_is() -> None:
    attack = ProjectionAttack(4, 4, 0.5, DELTA)
    found = audit(attack, runs=40, trials=5000)
    assert found.name == attack.name
    assert audit(replace(attack, noise=Quiet()), runs=0, trials=20_000).refuted
    with pytest.raises(UsageError, match="leave them out"):
        audit(attack, Facts(4, 4, 0.5, ONE), runs=40, trials=0)


def test_what_cannot_be_audited_is_refused() -> None:
    projection = RandomProjection(4, 1.0)
    with pytest.raises(UsageError, match="Expected a mechanism or an attack, got int"):
        audit(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="pass facts"):
        audit(projection)
    with pytest.raises(UsageError, match="state it in the facts"):
        audit(projection, Facts(4, None, 0.5, ONE))
    with pytest.raises(NoTheoremError):
        audit(projection, Facts(4, None, 0.5, ADD))
    with pytest.raises(UsageError, match="at least 20"):
        audit(projection, Facts(4, 9, 0.5, ONE), runs=5)


def test_a_mechanism_that_answers_queries_needs_one() -> None:
    from privot.mechanisms.gradients.generator_gradient import SanitizedParameters

    mechanism = SanitizedParameters(points=2, sigma=1.0, clip=0.5, sampling=Poisson(1.0), capacity=4, parameters=3)
    with pytest.raises(UsageError, match="pass the query"):
        attack_for(mechanism, Facts(2, None, 1.0, ADD))


def test_a_query_is_asked_in_every_step() -> None:
    import torch

    class Own(SanitizedGradient):
        """Not told from the library's class by the audit, and attacked like it."""

    mechanism = Own(points=2, sigma=1.0, clip=0.5, sampling=Poisson(1.0), capacity=4, sweeps=2, low=-1.0, high=1.0)
    from privot.audit.attacks.learned_attack import flat
    from privot.audit.simulation.far_records import furthest_neighbours
    from privot.noise import SystemNoise

    facts = Facts(2, None, 1.0, ADD)
    query = GradientQuery(torch.zeros(2, 2, dtype=torch.float64))
    without, with_ = furthest_neighbours(mechanism, facts, SystemNoise(), flat, query)
    claim = attack_for(mechanism, facts).claim
    attack = LearnedAttack("own", mechanism, without, with_, claim, query=query)
    assert attack.real(True, 30).shape == (30, 4)


@pytest.mark.slow
def test_every_attack_class_is_exported_and_loads_no_torch() -> None:
    assert all(hasattr(privot.audit, name) for name in privot.audit.__all__)
    with pytest.raises(AttributeError, match="no attribute"):
        _ = privot.audit.nothing
    script = (
        "import sys, privot.audit as a; [getattr(a, n) for n in a.__all__]; "
        "from privot.audit.mechanism_audit import attack_for; "
        "f = attack_for.__globals__['Facts']; print('torch' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"
