"""Runs all audits of the code rather than the mathematics: bits of the noise, keys, shapes, times, errors, files.

They use records of their own.
"""

from __future__ import annotations

import numpy as np

from privot.accounting.sampling import Poisson
from privot.audit.attack import run_attack
from privot.audit.attacks.dp_sgd_attack import RowGradients
from privot.audit.attacks.embedding_attack import SignedMap
from privot.audit.findings import Check, Findings
from privot.audit.implementation.disk_leftovers import ledger_reveals_no_record
from privot.audit.implementation.error_messages import errors_reveal_no_record
from privot.audit.implementation.floating_point import FloatAttack
from privot.audit.implementation.key_reuse import draws_are_uncorrelated, no_key_twice
from privot.audit.implementation.release_shapes import same_outline
from privot.audit.implementation.timing import PAIRS
from privot.audit.implementation.timing_cases import audit_times
from privot.audit.simulation.neighbours import Neighbour
from privot.errors import NoTheoremError
from privot.guarantee import Adjacency
from privot.mechanisms import ClippedGradients, MeanEmbedding, RandomProjection, SanitizedGradient
from privot.mechanisms.gradients.gradient_function import Query
from privot.mechanisms.gradients.sinkhorn_gradient import GradientQuery
from privot.mechanisms.mechanism import Facts
from privot.noise import NoiseSource, SystemNoise
from privot.noise.adding_tensor import add_noise_tensor

_RARE = 0.05
"""A sampling rate at which most samples are empty."""


def audit_implementation(*, trials: int = 400_000, noise: NoiseSource | None = None, pairs: int = PAIRS) -> Findings:
    """Run every audit of the implementation, about a minute; it touches only records of its own.

    `trials` are those of the floating-point attacks, `pairs` those of the timing checks (0: no timing).
    """
    source = SystemNoise() if noise is None else noise
    found: Findings = [
        run_attack(FloatAttack(noise=source), runs=trials, trials=0),
        run_attack(
            FloatAttack(_tensor_sum, noise=source, name="floating point: noise on tensors"), runs=trials, trials=0
        ),
        no_key_twice(source),
        draws_are_uncorrelated(source),
    ]
    found += shape_checks(source)
    found += audit_times(source, pairs=pairs) if pairs else []
    found += errors_reveal_no_record()
    found += ledger_reveals_no_record()
    return found


def _tensor_sum(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], noise: NoiseSource, sigma: float
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    import torch

    return np.asarray(add_noise_tensor(torch.from_numpy(values), noise, sigma, 2.0 * sigma).numpy())


def shape_checks(noise: NoiseSource) -> list[Check]:
    """Whether releases of add-remove neighbours, with mostly empty samples, have the same shapes and public facts."""
    import torch

    small, large = np.zeros((2, 2)), np.vstack([np.zeros((2, 2)), [[1e9, -1e9]]])
    labels = [np.zeros(len(x), dtype=np.int64) for x in (small, large)]
    plain = [Neighbour(x) for x in (small, large)]
    labelled = [Neighbour(x, y, 2) for x, y in zip((small, large), labels, strict=True)]
    gradients = ClippedGradients(RowGradients(2), Query(np.zeros(2)), 1.0, 1.0, Poisson(_RARE))
    sanitized = SanitizedGradient(
        points=2, sigma=1.0, clip=0.5, sampling=Poisson(_RARE), capacity=2, sweeps=2, low=-1.0, high=1.0
    )
    embedding = MeanEmbedding(SignedMap(2), 1.0, labels=True)
    common = {"clip": 1.0, "adjacency": Adjacency.ADD_REMOVE, "noise": noise}
    return [
        same_outline("DP-SGD", gradients, labelled[0], labelled[1], **common),  # type: ignore[arg-type]
        same_outline(
            "sanitized gradients",
            sanitized,
            plain[0],
            plain[1],
            query=GradientQuery(torch.zeros(2, 2)),
            **common,  # type: ignore[arg-type]
        ),
        same_outline("embeddings", embedding, labelled[0], labelled[1], **common),  # type: ignore[arg-type]
        projections_refuse_to_be_counted(),
    ]


def projections_refuse_to_be_counted() -> Check:
    """Projections show one row per record, so they must refuse add-remove before anything runs."""
    try:
        RandomProjection(2, 1.0).event(Facts(2, None, 1.0, Adjacency.ADD_REMOVE))
    except NoTheoremError:
        return Check("projections refuse add-remove", True, "their rows can be counted")
    return Check(
        "projections refuse add-remove",
        False,
        "their rows can be counted, although add-remove hides the number of records",
    )
