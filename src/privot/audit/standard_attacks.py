"""The attacks that every version must pass: each mechanism at usual settings, alone and composed.

They make their own records, like every attack.
"""

from __future__ import annotations

from privot.accounting.sampling import FixedSize, Poisson
from privot.audit.attack import Attack
from privot.audit.attacks.dp_sgd_attack import DPSGDAttack
from privot.audit.attacks.embedding_attack import EmbeddingAttack
from privot.audit.attacks.gradient_attack import GradientAttack
from privot.audit.attacks.projection_attack import ProjectionAttack
from privot.audit.attacks.sketch_attack import SketchAttack
from privot.guarantee import Adjacency

DELTA = 1e-5


def single_releases(delta: float = DELTA, device: str = "cpu") -> list[Attack]:
    """One release of all records."""
    return [
        ProjectionAttack(16, 16, 1.0, delta, device=device),
        ProjectionAttack(16, 8, 0.7, delta, device=device),
        ProjectionAttack(16, 8, 1.5, delta, frame="independent", device=device),
        ProjectionAttack(784, 200, 0.5, delta, device=device),
        GradientAttack(0.02, delta, Poisson(1.0), device=device),
        GradientAttack(0.04, delta, FixedSize(12, 12), device=device),
        EmbeddingAttack(2.0, delta, Adjacency.REPLACE_ONE, device=device),
        EmbeddingAttack(1.0, delta, Adjacency.ADD_REMOVE, device=device),
        EmbeddingAttack(3.7, delta, Adjacency.ADD_REMOVE, device=device),
        EmbeddingAttack(
            1.0, delta, Adjacency.ADD_REMOVE, labels=True, count_weight=0.9, device=device, title="class counts"
        ),
        DPSGDAttack(1.0, delta, Poisson(1.0), device=device),
        SketchAttack(2.0, delta, Adjacency.ADD_REMOVE, device=device),
        SketchAttack(4.0, delta, Adjacency.REPLACE_ONE, device=device),
        SketchAttack(2.0, delta, Adjacency.ADD_REMOVE, classes=3, device=device),
        SketchAttack(4.0, delta, Adjacency.REPLACE_ONE, classes=3, device=device),
        SketchAttack(4.0, delta, Adjacency.REPLACE_ONE, classes=3, relabelled=True, device=device),
        SketchAttack(2.0, delta, Adjacency.ADD_REMOVE, public=False, device=device),
        SketchAttack(3.0, delta, Adjacency.REPLACE_ONE, public=False, device=device),
    ]


def composed_releases(delta: float = DELTA, device: str = "cpu") -> list[Attack]:
    """Many steps, each on a fresh sample."""
    return [
        ProjectionAttack(8, 8, 0.7, delta, records=10, batch=1, steps=10, device=device),
        GradientAttack(0.02, delta, Poisson(0.3), steps=5, device=device),
        GradientAttack(0.02, delta, FixedSize(3, 12), steps=5, device=device),
        DPSGDAttack(0.7, delta, Poisson(0.1), steps=10, device=device),
        DPSGDAttack(1.0, delta, Poisson(0.05), steps=100, records=20, device=device),
        DPSGDAttack(2.0, delta, FixedSize(1, 5), steps=10, device=device),
    ]


def usual_runs(attack: Attack) -> int:
    """Runs of the mechanism per data set that take some seconds: fewer if a step is slow or a run has many steps."""
    steps = int(getattr(attack, "steps", 1))
    slow = isinstance(attack, GradientAttack)
    if isinstance(attack, ProjectionAttack):
        slow = attack.dim * attack.slices > 4096
    return max(40, (400 if slow else 4000) // steps)


def usual_trials(attack: Attack) -> int:
    """The largest number of simulated trials per data set that take some seconds."""
    return max(20, 40_000_000 // int(getattr(attack, "steps", 1)))
