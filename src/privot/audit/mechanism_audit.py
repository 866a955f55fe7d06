"""The public way to audit: picks the attack for a mechanism and runs it. It reads no user's record, vault or ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from privot.accounting import account
from privot.accounting.sampling import FixedSize, Sampling
from privot.audit.attack import Attack, run_attack
from privot.audit.attacks.counts_attack import CountsAttack
from privot.audit.attacks.dp_sgd_attack import DPSGDAttack
from privot.audit.attacks.embedding_attack import EmbeddingAttack
from privot.audit.attacks.gradient_attack import GradientAttack
from privot.audit.attacks.learned_attack import LearnedAttack, flat
from privot.audit.attacks.projection_attack import ProjectionAttack
from privot.audit.attacks.sketch_attack import SketchAttack
from privot.audit.findings import Claim, Finding
from privot.audit.simulation.far_records import furthest_neighbours
from privot.audit.standard_attacks import DELTA, usual_runs, usual_trials
from privot.audit.statistics.epsilon_bounds import DEFAULT_CONFIDENCE
from privot.common.arguments import check_delta
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import ClippedGradients, Facts, MeanEmbedding, Mechanism, RandomProjection, SanitizedGradient
from privot.mechanisms.accuracy_counts import CorrectCounts
from privot.mechanisms.gradients.generator_gradient import SanitizedParameters
from privot.mechanisms.mechanism import refuse_unit
from privot.mechanisms.sketching.private_sketch import PrivateSketch
from privot.mechanisms.table_counts.marginals import Marginals
from privot.noise import NoiseSource, SystemNoise

TRIALS = 1_000_000
_FEW = 4
"""Records in a projection of all of them: each has a row of its own, so that more would show nothing else."""


def audit(
    target: Mechanism | Attack,
    facts: Facts | None = None,
    *,
    delta: float | None = None,
    runs: int | None = None,
    trials: int | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
    noise: NoiseSource | None = None,
    query: Any = None,
    device: str = "cpu",
) -> Finding:
    """Attack a mechanism and report a lower bound on its ε beside the upper bound that it claims.

    The audit makes two neighbouring data sets of its own, D and D', runs the mechanism on both, and lets an attacker
    guess which one it ran on. The rates of right and wrong guesses bound ε from below. The claim is what `target`
    itself states: `target.event(facts)`, composed over its steps.

    The attack follows from the mechanism:

    | mechanism | attack |
    |---|---|
    | `RandomProjection` | `ProjectionAttack`: one record moved from −C to +C |
    | `SanitizedGradient` | `GradientAttack`: the same class, σ, C and sampler, on the worst records in one dimension |
    | `MeanEmbedding` | `EmbeddingAttack`: this feature map, one far record added or moved to the other side |
    | `ClippedGradients` | `DPSGDAttack`: the same class, σ, C and sampler, with gradients far beyond C |
    | `PrivateSketch` | `SketchAttack`: this design, one record far outside |
    | `CorrectCounts`, `Marginals` | `CountsAttack`: the record, of a few candidates, that moves all counts furthest |
    | any other | `LearnedAttack`: the pair, of a few candidates, that moves it furthest; a score that is learned |

    Parameters
    ----------
    target
        A mechanism, or an `Attack` (then `facts`, `delta`, `noise`, `query` and `device` must be left out: the attack
        holds them).
    facts
        What is public about the records: columns, clipping bound, adjacency, classes; the number of records under
        replace-one.
    delta
        The δ at which ε is claimed and measured, 1e-5 unless given; 0 for a mechanism that is private there, as one
        with Laplace noise.
    runs
        Runs of the whole mechanism per data set: 0 for none, otherwise at least 20. Unless given, as many as take some
        seconds (4000 at most).
    trials
        Simulated trials per data set (noise, sampler, and the values that the mechanism computes without
        noise), which are far faster: 0 for none, otherwise at least 20. Unless given, a million, or fewer where a run
        has many steps. A `LearnedAttack` has none.
    confidence
        The probability with which the reported bounds hold, strictly between 0 and 1.
    noise
        The source of noise that the mechanism draws from; the operating system's unless given.
    query
        What to ask in every step, for a mechanism that answers queries and has no attack of its own.
    device
        Where simulated trials draw their noise: "cpu" or "cuda".

    Returns
    -------
    Finding
        `claim` (the upper bound), `epsilon` (the measured lower bound, which assumes nothing), `if_gaussian` (the
        lower bound if the noise is Gaussian, where the claim is a Gaussian one), `refuted`, `how`, and `to_dict()`.

    Raises
    ------
    UsageError
        If `target` is neither a mechanism nor an attack, the facts are missing or do not fit the mechanism, a number
        of runs is too small, or a query is missing.
    NoTheoremError
        If the mechanism makes no claim under this adjacency.

    Formal guarantees
    -----------------
      * the measured bound exceeds the true ε of the mechanism, as it ran, with probability at most 1 − `confidence`
        (exact binomial intervals; the threshold and the score are chosen on trials that are not counted);
      * `refuted` is true only if a second, independent set of trials refutes the claim at 99.9 % or more;
      * a claim that is not refuted is not proven: an attack finds only the faults that it can see;
      * no user's records are read: all records are made by the audit.

    Examples
    --------
    >>> from privot.audit import audit
    >>> from privot.guarantee import Adjacency
    >>> from privot.mechanisms import Facts, RandomProjection
    >>> facts = Facts(dim=8, records=4, clip=0.5, adjacency=Adjacency.REPLACE_ONE)
    >>> finding = audit(RandomProjection(slices=8, sigma=1.0), facts, runs=100, trials=20_000)
    >>> finding.refuted, finding.epsilon() <= finding.claim.epsilon()
    (False, True)
    """
    found: Any = target
    attack: Attack
    if _has(found, "real", "simulated", "claim"):
        if any(given is not None for given in (facts, delta, noise, query)) or device != "cpu":
            raise UsageError("An attack holds its own facts, delta, noise, query and device: leave them out.")
        attack = found
    elif _has(found, "event", "run", "needs"):
        if facts is None:
            raise UsageError("An audit of a mechanism needs the public facts about its records: pass facts.")
        delta = DELTA if delta is None else delta
        attack = attack_for(found, facts, delta=delta, noise=noise, query=query, device=device)
    else:
        raise UsageError(f"Expected a mechanism or an attack, got {type(target).__name__}.")
    runs = usual_runs(attack) if runs is None else runs
    trials = min(TRIALS, usual_trials(attack)) if trials is None else trials
    return run_attack(attack, runs=runs, trials=trials, confidence=confidence)


def attack_for(
    mechanism: Mechanism,
    facts: Facts,
    *,
    delta: float = DELTA,
    noise: NoiseSource | None = None,
    query: Any = None,
    device: str = "cpu",
) -> Attack:
    """The attack that `audit` runs on a mechanism; its parameters are those of `audit`.

    Raises what the mechanism raises where it refuses the facts, before any attack is made.
    """
    check_delta(delta, pure=True)
    if facts.adjacency is Adjacency.REPLACE_ONE and facts.records is None:
        raise UsageError("The number of records is public under replace-one: state it in the facts.")
    mechanism.needs.check(facts)
    refuse_unit(facts, "An audit of a mechanism")
    event = mechanism.event(facts)
    source: NoiseSource = SystemNoise() if noise is None else noise
    if isinstance(mechanism, RandomProjection):
        # labels and pooling are public functions of one record: what is projected counts, and its number of columns
        plain = replace(mechanism, steps=1, seed=None, label_weight=None, outer=False, shape=None, pool=1)
        assert facts.records is not None
        return ProjectionAttack(
            mechanism.projected(facts),
            mechanism.slices,
            mechanism.sigma,
            delta,
            facts.clip,
            mechanism.frame,
            min(facts.records, _FEW) if mechanism.batch is None else facts.records,
            mechanism.batch,
            mechanism.steps,
            source,
            device,
            lambda *_: plain,
        )
    if isinstance(mechanism, MeanEmbedding):
        return EmbeddingAttack(
            mechanism.sigma,
            delta,
            facts.adjacency,
            mechanism.labels,
            mechanism.features,
            count_weight=mechanism.count_weight,
            noise=source,
            device=device,
            make=lambda *_: mechanism,
        )
    if isinstance(mechanism, PrivateSketch):
        design = mechanism.design
        return SketchAttack(
            mechanism.sigma,
            delta,
            facts.adjacency,
            design.classes,
            public=len(design.prototypes) > 0,
            dim=design.dim,
            noise=source,
            device=device,
            make=lambda *_: mechanism,
            own_design=design,
        )
    if isinstance(mechanism, SanitizedGradient) and not isinstance(mechanism, SanitizedParameters):
        return GradientAttack(
            mechanism.sigma,
            delta,
            mechanism.sampling,
            mechanism.clip,
            _records(mechanism.sampling, 12),
            mechanism.steps,
            source,
            device,
            type(mechanism),
        )
    if isinstance(mechanism, ClippedGradients):
        return DPSGDAttack(
            mechanism.sigma,
            delta,
            mechanism.sampling,
            mechanism.clip_norm,
            _records(mechanism.sampling, 5),
            mechanism.steps,
            noise=source,
            device=device,
            make=type(mechanism),
        )
    if isinstance(mechanism, CorrectCounts | Marginals):
        return CountsAttack(mechanism, facts, delta, source, device)
    name = type(mechanism).__name__
    if query is None and hasattr(mechanism, "begin"):
        raise UsageError(f"{name} answers queries and has no attack of its own: pass the query to ask in every step.")
    without, with_ = furthest_neighbours(mechanism, facts, source, flat, query)
    # one step per trial is attacked, so the claim is that of one step
    claim = Claim.of(account(event, delta))
    return LearnedAttack(name, mechanism, without, with_, claim, facts.clip, noise=source, query=query)


def _has(target: Any, *names: str) -> bool:
    """Whether it has these attributes, by its type and fields: no property is computed."""
    return all(hasattr(type(target), name) or name in getattr(target, "__dict__", {}) for name in names)


def _records(sampling: Sampling, usual: int) -> int:
    """As many records as samples of fixed size are drawn from; a Poisson sampler works on any number."""
    return sampling.records if isinstance(sampling, FixedSize) else usual
