"""Pairs of data sets whose releases must take the same time: canaries of several kinds, and empty samples.

The records are the audit's own, few and wide, so that one record is a large part of the work and its cost shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting.sampling import Poisson
from privot.audit.attacks.dp_sgd_attack import RowGradients
from privot.audit.attacks.embedding_attack import SignedMap
from privot.audit.findings import Check
from privot.audit.implementation.timing import PAIRS, Clock, most_runs, same_time
from privot.audit.simulation.neighbours import Neighbour, open_stream
from privot.guarantee import Adjacency
from privot.mechanisms import (
    ClippedGradients,
    MeanEmbedding,
    Mechanism,
    RandomProjection,
    SanitizedGradient,
    SketchDesign,
)
from privot.mechanisms.gradients.gradient_function import Query
from privot.mechanisms.gradients.sinkhorn_gradient import GradientQuery
from privot.mechanisms.sketching.private_sketch import PrivateSketch
from privot.noise import NoiseSource

Array = NDArray[np.float64]
Run = Callable[[], Any]

RECORDS, DIM = 8, 64
SOME = Poisson(0.5)

CANARIES: Mapping[str, float] = {"extreme": 1e150, "denormal": 5e-324, "zero": 0.0}
"""Entries of the record that replaces an ordinary one; the vault refuses records that are not finite."""


class Chosen:
    """A noise source whose Poisson samples are all records (`full`) or none; all else comes from `source`."""

    def __init__(self, source: NoiseSource, full: bool) -> None:
        self._source, self._full = source, full

    def poisson_sample(self, records: int, rate: float) -> NDArray[np.int64]:
        """All records, or none."""
        self._source.poisson_sample(records, rate)
        return np.arange(records if self._full else 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def ordinary_and_canary(canary: float) -> tuple[Neighbour, Neighbour]:
    """Ordinary records, and the same with one record made of `canary`."""
    x = np.random.default_rng(0).uniform(0.1, 0.9, (RECORDS, DIM))
    other = x.copy()
    other[0] = canary
    y = np.zeros(RECORDS, dtype=np.int64)
    return Neighbour(x, y, 1), Neighbour(other, y, 1)


def mechanisms() -> dict[str, tuple[Mechanism, Adjacency, Any]]:
    """Each mechanism by name, with its adjacency and, if it answers queries, a query."""
    import torch

    sanitized = SanitizedGradient(points=4, sigma=1.0, clip=0.5, sampling=SOME, capacity=RECORDS, sweeps=3)
    return {
        "projections": (RandomProjection(DIM, 1.0), Adjacency.REPLACE_ONE, None),
        "embeddings": (MeanEmbedding(SignedMap(DIM), 1.0), Adjacency.ADD_REMOVE, None),
        "sketches": (PrivateSketch(SketchDesign.plain(DIM, 8.0), 4.0), Adjacency.ADD_REMOVE, None),
        "DP-SGD": (
            ClippedGradients(RowGradients(DIM), Query(np.zeros(DIM)), 1.0, 1.0, SOME),
            Adjacency.ADD_REMOVE,
            None,
        ),
        "sanitized gradients": (sanitized, Adjacency.ADD_REMOVE, GradientQuery(torch.zeros(4, DIM))),
    }


def audit_times(noise: NoiseSource, *, pairs: int = PAIRS, clock: Clock = time.perf_counter) -> list[Check]:
    """One check per mechanism and canary, and one for empty samples if the mechanism samples."""
    checks = []
    for name, (mechanism, adjacency, query) in mechanisms().items():
        sampled = name in ("DP-SGD", "sanitized gradients")
        # all records are sampled while canaries are compared, so that only the canary differs
        source: Any = Chosen(noise, True) if sampled else noise
        steps = (len(CANARIES) + 2) * most_runs(pairs)

        def runs(
            held: Neighbour, draws: Any, m: Any = mechanism, a: Any = adjacency, q: Any = query, n: int = steps
        ) -> Run:
            stream = open_stream(held, m, n, clip=1.0, adjacency=a, noise=draws)
            return (lambda: next(stream)) if q is None else (lambda: stream.answer(q))

        ordinary = ordinary_and_canary(0.0)[0]
        usual = runs(ordinary, source)
        others = {f"{kind} record": runs(ordinary_and_canary(value)[1], source) for kind, value in CANARIES.items()}
        if adjacency is Adjacency.ADD_REMOVE:
            assert ordinary.y is not None
            others["absent record"] = runs(Neighbour(ordinary.x[1:], ordinary.y[1:], ordinary.classes), source)
        if sampled:
            others["empty sample"] = runs(ordinary, Chosen(noise, False))
        checks += [same_time(f"{name}, {k}", usual, run, pairs=pairs, clock=clock) for k, run in others.items()]
    return checks
