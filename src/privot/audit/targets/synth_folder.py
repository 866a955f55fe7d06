"""Audits a folder of synthetic data without its private records: it repeats the synthesis on records of its own.

Candidates are synthetic records of the folder, so they resemble the data; a coin decides which are trained on. The
mechanism of the folder (its feature map, its σ) releases their sums, and a generator is trained on them with the
folder's own rules. A membership test that works on this generator would work on the folder's. Later releases, for a
choice or for labels, are attacked through the events of the guarantee.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Composed, Downgraded, Event, Gaussian, event_from_dict, leaves
from privot.audit.attack import run_attack
from privot.audit.attacks.embedding_attack import EmbeddingAttack
from privot.audit.attacks.membership import Membership, attack_generator, copying
from privot.audit.findings import Check, Findings
from privot.audit.implementation.disk_leftovers import checkpoint_reveals_no_record
from privot.audit.implementation.floating_point import embedding_on_grid
from privot.audit.statistics.epsilon_bounds import DEFAULT_CONFIDENCE
from privot.audit.targets.release_file import audit_guarantee
from privot.errors import DataError, said_by
from privot.guarantee import Adjacency, Guarantee
from privot.jobs.job import RELEASE
from privot.jobs.released_files import read_json, write_json
from privot.mechanisms.embedding import FeatureMap
from privot.release import Release
from privot.synthesis import Rules, Synthesizer, train
from privot.synthesis.fitted import FittedGenerator
from privot.synthesis.job_files import CHOICE, LABELS
from privot.synthesis.methods.embedding_method import mechanism_of
from privot.synthesis.neural.after_training.warp_selection import warped
from privot.synthesis.neural.generator_training.checkpoint import NAME as CHECKPOINT
from privot.synthesis.neural.generators.generator import Generator
from privot.synthesis.output.html_report import AUDIT, write_report
from privot.synthesis.output.saved_model import CONFIG, read_folder_guarantee
from privot.vault import Vault

Array = NDArray[np.float64]

CANDIDATES = 600
STEPS = 300
RUNS = 400
"""Default number of runs of the mechanism with the folder's own map, which may be large."""


@dataclass(frozen=True)
class FolderAudit:
    """What the audit of a folder found, and why no membership was tested where none was; empty where it was."""

    findings: Findings
    tests: list[Membership]
    guarantee: Guarantee
    untested: str = ""


def audit_folder(
    folder: Path,
    *,
    candidates: int = CANDIDATES,
    steps: int = STEPS,
    runs: int = RUNS,
    trials: int = 1_000_000,
    confidence: float = DEFAULT_CONFIDENCE,
    device: str = "cpu",
) -> FolderAudit:
    """Run all audits of a folder; the findings are also written to the folder and to its report."""
    began = time.monotonic()
    synthesizer = Synthesizer.load(folder, device)
    guarantee = read_folder_guarantee(folder)
    findings: Findings = [
        Check(
            "the guarantee is what its events cost",
            True,
            f"recomputed: {guarantee.stated()}",
        )
    ]
    findings += _files(folder)
    features = getattr(synthesizer, "features_", None)
    tests: list[Membership] = []
    untested = ""
    if features is None or guarantee.unit is not None:
        # a table, a method with many charges, or a claim about several records of one unit, which no attack on single
        # records comes near: the events of its guarantee are attacked
        findings += audit_guarantee(guarantee, trials=trials, confidence=confidence, device=device)
        untested = _untested(synthesizer, guarantee)
    else:
        attack = _attack(synthesizer, features, guarantee, _rules(folder), device)
        findings.append(run_attack(attack, runs=runs, trials=trials, confidence=confidence))
        if len(_events(guarantee)) > 1:
            findings += audit_guarantee(guarantee, trials=trials, confidence=confidence, device=device)
        tests = _membership(synthesizer, features, guarantee, folder, candidates, steps, confidence, device)
        findings += _guesses(tests, guarantee)
    answer = {
        "findings": [f.to_dict() for f in findings],
        "membership": [t.to_dict() for t in tests],
        "untested": untested,
        "claimed": guarantee.epsilon(),
        "delta": guarantee.at_delta,
        "adjacency": str(guarantee.adjacency),
        "unit": guarantee.to_dict()["unit"],
        "standing": str(guarantee.standing),
        "candidates": candidates if tests else 0,
        "steps": steps if tests else 0,
        "seconds": round(time.monotonic() - began, 1),
    }
    write_json(folder / AUDIT, answer)
    write_report(folder)
    return FolderAudit(findings, tests, guarantee, untested)


def _untested(synthesizer: Synthesizer, guarantee: Guarantee) -> str:
    """Why no membership is tested in this folder."""
    found = f"comes from the method {synthesizer.config.method}"
    if synthesizer.kind_.by_schema:
        found = "holds tables"
    elif guarantee.unit is not None:
        found = f"protects {guarantee.unit}"
    return (
        "Membership was not tested: these tests repeat a synthesis of images or points by embedding, one record at a "
        f"time, and this folder {found}. The events of its guarantee were attacked."
    )


def _guesses(tests: list[Membership], guarantee: Guarantee) -> list[Check]:
    """Whether membership guesses stay below the claim, and whether the tests detect a generator that copies."""
    ours, control = tests[: len(tests) // 2], tests[len(tests) // 2 :]
    return [
        Check(
            "the membership tests detect copying",
            all(t.stands_out for t in control),
            f"against a generator that copies: AUC {min(t.auc for t in control):.3f} or more",
        ),
        Check(
            "guesses of membership stay below the claim",
            all(t.epsilon <= guarantee.epsilon(t.delta) for t in ours),
            f"ε of at least {max(t.epsilon for t in ours):.3g} at δ = {guarantee.at_delta:g} from one run, add-remove",
        ),
    ]


def _files(folder: Path) -> list[Check]:
    """Checks of the releases and of the checkpoint in the folder."""
    found = []
    for path in (folder / RELEASE, folder / f"{CHOICE}.npz", folder / f"{LABELS}.npz"):
        if not path.exists():
            continue
        release = Release.load(path)
        public = release.public
        if public.get("mechanism") == "embedding":
            with said_by(path.name):
                found += embedding_on_grid(release)
        if release.guarantee.adjacency is Adjacency.ADD_REMOVE:
            what = f"{path.name} does not state the number of records"
            found.append(Check(what, public.get("records") is None, "add-remove"))
    if (folder / CHECKPOINT).exists():
        found.append(checkpoint_reveals_no_record(folder / CHECKPOINT))
    return found


def _attack(
    synthesizer: Synthesizer, features: FeatureMap, guarantee: Guarantee, rules: Rules, device: str
) -> EmbeddingAttack:
    """The folder's own map and σ, with records from two corners of the public range."""
    low = np.broadcast_to(np.asarray(synthesizer.kind_.low, dtype=np.float64), (features.dim,))
    high = np.broadcast_to(np.asarray(synthesizer.kind_.high, dtype=np.float64), (features.dim,))
    return EmbeddingAttack(
        _sigma(guarantee),
        guarantee.at_delta,
        guarantee.adjacency,
        synthesizer.labels_,
        features,
        np.array(high),
        np.array(low),
        None,
        device=device,
        make=lambda _, sigma, labels, *__: mechanism_of(features, sigma, labels, rules, device),
        title="embedding of this folder",
    )


def _events(guarantee: Guarantee) -> list[Event]:
    events = [_plain(event_from_dict(e)) for e in guarantee.events]
    only = events[0] if len(events) == 1 else None
    return [_plain(e) for e in only.events] if isinstance(only, Composed) else events


def _plain(event: Event) -> Event:
    """What is released, whatever its standing."""
    while isinstance(event, Downgraded):
        event = event.event
    return event


def _sigma(guarantee: Guarantee) -> float:
    events = _events(guarantee)
    # events after the first are for a choice and for labels, and are Gaussian too
    gaussian = all(isinstance(leaf, Gaussian) for e in events for leaf, _ in leaves(e))
    if not gaussian or not isinstance(events[0], Gaussian):
        raise DataError(
            "Only folders made by the embedding method can be audited: their guarantee begins with a Gaussian event."
        )
    return events[0].sigma


def _membership(
    synthesizer: Synthesizer,
    features: FeatureMap,
    guarantee: Guarantee,
    folder: Path,
    count: int,
    steps: int,
    confidence: float,
    device: str,
) -> list[Membership]:
    """Both tests against a generator trained as the folder's was, then both against one that copies."""
    drawn, labels = _sample(synthesizer, synthesizer.generator_, 3 * count)
    candidates, reference = drawn[:count], drawn[count:]
    there = np.random.default_rng().random(count) < 0.5
    there[:2], there[2:4] = True, False
    classes = synthesizer.generator_.classes
    y = None if labels is None else labels[:count]
    vault = Vault(
        candidates[there],
        None if y is None else y[there],
        clip=1.0,
        classes=None if y is None else classes,
        adjacency=guarantee.adjacency,
        budget=(1e300, 0.5),
        label="made by the audit",
    )
    rules = _rules(folder)
    mechanism = mechanism_of(features, _sigma(guarantee), y is not None, rules, device)
    # synthetic records, released in order to be attacked: whatever the standing of the claim
    release = vault.release(mechanism, purpose="audit", allow_unproven=True)
    training = train(release, replace(rules, steps=min(steps, rules.steps)), device=device, seed=0)
    made = training.generator
    if made.warp:
        # samples are warped as far as the folder's are
        made = warped(made, synthesizer.generator_.warp / made.warp)
    ours, _ = _sample(synthesizer, made.eval(), 4 * count)
    common = {"delta": guarantee.at_delta, "confidence": confidence}
    spread = 0.01 * float(drawn.std())
    copies = copying(candidates[there], 4 * count, spread)
    return [
        *attack_generator("trained as here", candidates, there, ours, reference, **common),
        *attack_generator("copying, without privacy", candidates, there, copies, reference, **common),
    ]


def _rules(folder: Path) -> Rules:
    rules = read_json(folder / CONFIG)["learned"].get("rules")
    if rules is None:
        raise DataError(f"{folder / CONFIG} does not state how the generator was trained: make the folder again.")
    return Rules.from_dict(rules)


def _sample(synthesizer: Synthesizer, generator: Generator, count: int) -> tuple[Array, NDArray[np.int64] | None]:
    """Records as the generator makes them, before any codec: numbers in the public range."""
    fitted = FittedGenerator(
        generator,
        synthesizer.features_,
        synthesizer.counts_,
        synthesizer.labels_,
        (synthesizer.kind_.low, synthesizer.kind_.high),
    )
    x, y = fitted.sample(count)
    return np.asarray(x, dtype=np.float64), y
