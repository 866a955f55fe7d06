"""Which records come back from the messages of FedWad and TriangleWad, between two holders of open data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.audit.attacks.reconstruction import distance, learn_inverse, match_candidates
from privot.audit.findings import Check
from privot.audit.protocol_attacks.exchanges import Exchange, check_sides, play_fedwad, play_triangle
from privot.audit.protocol_attacks.normality import Normality, normality
from privot.audit.statistics.one_to_one import assignment
from privot.audit.statistics.recovery import CLEAR, Recovery, judge
from privot.audit.targets.exchange import audit_interpolants

Array = NDArray[np.float64]
LEARNED = 1000
"""Public records on which the attacker simulates the protocol."""
GIVEN_AWAY = 0.5
"""Share of records from which messages count as giving them away."""


@dataclass(frozen=True)
class ProtocolRecovery:
    """What came back of the first side's records."""

    recoveries: tuple[Recovery, ...]
    linked: float
    """Share of secret-γ messages whose record is found among `candidates`."""
    candidates: int
    normality: tuple[Normality, ...]
    inverted_messages: tuple[Check, ...]
    """Per protocol: how many messages the coordinator can invert."""
    true_distance: float
    fedwad_distance: float
    rounds: int
    shown: tuple[tuple[str, Array], ...] = field(repr=False, default=())
    """Rows of records to draw."""

    def of(self, name: str) -> Recovery:
        """The attack called `name`."""
        return next(r for r in self.recoveries if r.name == name)

    def findings(self) -> list[Check]:
        """One check per protocol and defence: whether fewer than half of the records come back clearly."""
        found = []
        for recovery in self.recoveries:
            if recovery.name.startswith("prior"):
                continue
            low, high = recovery.exact_interval
            detail = (
                f"exactly {recovery.exact:.1%} ({low:.1%} to {high:.1%}), from {CLEAR:g} dB {recovery.clear:.1%}, "
                f"median {recovery.psnr:.1f} dB"
            )
            found.append(Check(recovery.name, recovery.clear < GIVEN_AWAY, detail))
        chance = f"{self.linked:.1%} of messages name their record among {self.candidates}"
        found.append(Check(LINKED, self.linked < GIVEN_AWAY, f"{chance}; chance {1.0 / self.candidates:.2%}"))
        return [*found, *self.inverted_messages]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types, without records."""
        return {
            "recoveries": [r.to_dict() for r in self.recoveries],
            "linked": self.linked,
            "candidates": self.candidates,
            "normality": [n.to_dict() for n in self.normality],
            "true_distance": self.true_distance,
            "fedwad_distance": self.fedwad_distance,
            "rounds": self.rounds,
        }


PRIOR_MEAN = "prior: the mean public record"
PRIOR_MATCH = "prior: public records, best match"
CONSTANT = "TriangleWad, constant γ"
SHARED = "TriangleWad, shared random γ"
NAIVE = "TriangleWad, shared random γ, without the plan (Remark 3)"
DENOISED = "TriangleWad, secret random γ, denoised"
LINKED = "TriangleWad, secret random γ, linked"
ASKED = "FedWad, first message, by who asked"
CLOSED = "FedWad, closed form, by the other side"
OPTIMISED = "FedWad, equation 5, by the other side"


def recover_records(
    x: Array,
    y: Array,
    public: Array,
    candidates: Array,
    *,
    rounds: int = 20,
    t: float = 0.5,
    span: float = 2.0,
    seed: int = 0,
) -> ProtocolRecovery:
    """Run both protocols between the open arrays x and y, and attack what x sends.

    Parameters
    ----------
    x, y
        Records of the two sides, of one shape (n, d), scaled so that the protocols' standard normal γ has their size.
    public
        Records that the attacker has anyway; they are the prior, and what it learns to denoise from.
    candidates
        Other records among which a secret γ has to hide those of x.
    rounds, t
        Of FedWad; of TriangleWad.
    span
        The range of values, for PSNR.
    seed
        Of γ and of what is drawn from `public`.

    Returns
    -------
    ProtocolRecovery
        Shares of records recovered by every attack, matching, and how Gaussian the messages look.

    Notes
    -----
    No guarantee is made or refuted here: these protocols state none. What is measured is that they hide nothing.

    Examples
    --------
    >>> dice = np.random.default_rng(0)
    >>> x, y, others = (dice.uniform(-1.0, 1.0, (20, 6)) for _ in range(3))
    >>> found = recover_records(x, y, others, others, rounds=3)
    >>> found.of(CONSTANT).exact, found.of(SHARED).exact
    (1.0, 1.0)
    """
    check_sides(x, y)
    generator = np.random.default_rng(seed)
    found: list[Recovery] = []
    shown: list[tuple[str, Array]] = [("records", x)]

    def tell(name: str, guess: Array, ordered: bool = True) -> None:
        kept = guess if ordered else guess[assignment(x, guess)]
        found.append(judge(name, kept, x, span))
        shown.append((name, kept))

    tell(PRIOR_MEAN, np.broadcast_to(public.mean(0), x.shape))
    tell(PRIOR_MATCH, public[generator.integers(0, len(public), len(x))], ordered=False)
    tell(CONSTANT, play_triangle(x, y, "constant", t=t, seed=seed + 1).inverted())
    shared = play_triangle(x, y, t=t, seed=seed + 1)
    (question, sent), (_, server) = shared.of_first[0], shared.of_second[0]
    shown.append(("what is sent (shared γ)", sent.points))
    tell(SHARED, shared.inverted())
    # Theorem 2's attacker knows γ, but takes its points in their own order
    naive = (sent.points - t * question.towards) / (1.0 - t)
    tell(NAIVE, naive)
    secret = play_triangle(x, y, t=t, secret=True, seed=seed + 1).of_first[0][1].points
    learn = public[generator.permutation(len(public))[:LEARNED]]
    tell(DENOISED, learn_inverse(learn, t, generator.standard_normal)(secret))
    among = np.vstack([x, candidates])
    linked = float((match_candidates(secret, among) == np.arange(len(x))).mean())
    federated = play_fedwad(x, y, rounds, seed=seed + 3)
    tell(ASKED, federated.inverted())
    gamma = federated.last_gamma
    shown.append((f"FedWad's γ after {rounds} rounds", gamma[assignment(x, gamma)]))
    tell(CLOSED, federated.by_the_other_side(y), ordered=False)
    tell(OPTIMISED, federated.by_the_other_side(y, optimised=True), ordered=False)
    looks = [
        normality("records", x, seed),
        normality("FedWad's γ", gamma, seed),
        normality("η of A (TriangleWad)", sent.points, seed),
        normality("η of B (TriangleWad)", server.points, seed),
        normality("η − tγ, without the plan", sent.points - t * question.towards, seed),
    ]
    return ProtocolRecovery(
        recoveries=tuple(found),
        linked=linked,
        candidates=len(among),
        normality=tuple(looks),
        inverted_messages=(_inverted("TriangleWad", shared), _inverted("FedWad", federated)),
        true_distance=distance(x, y),
        fedwad_distance=federated.result.value,
        rounds=rounds,
        shown=tuple(shown),
    )


def _inverted(name: str, exchange: Exchange) -> Check:
    return audit_interpolants(name, exchange.of_first)
