"""Audits a release or a guarantee from a file: its events are simulated and the bits of its numbers checked.

The records behind it are not read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privot.accounting import read_guarantee
from privot.audit.attack import run_attack
from privot.audit.attacks.event_attack import EventAttack
from privot.audit.attacks.projection_attack import ProjectionAttack
from privot.audit.findings import Check, Findings
from privot.audit.implementation.floating_point import embedding_on_grid, on_grid
from privot.audit.statistics.epsilon_bounds import DEFAULT_CONFIDENCE
from privot.errors import said_by
from privot.guarantee import Adjacency, Guarantee
from privot.opening import read_text
from privot.release import Release


def audit_guarantee(
    guarantee: Guarantee, *, trials: int, confidence: float = DEFAULT_CONFIDENCE, device: str = "cpu"
) -> Findings:
    """Simulate the events of a guarantee. Whether these events happened is recorded in the ledger, not in the file."""
    return [run_attack(EventAttack(guarantee, device=device), runs=0, trials=trials, confidence=confidence)]


def read_guarantee_file(path: Path) -> Guarantee:
    """The guarantee in a JSON file, recomputed from its events."""
    return read_guarantee(read_text(path))


def audit_release(
    path: Path, *, runs: int, trials: int, confidence: float = DEFAULT_CONFIDENCE, device: str = "cpu"
) -> tuple[Findings, Guarantee]:
    """Audit a release: its guarantee, recomputed and simulated, and the bits of its numbers.

    For a projection the mechanism itself is run too, with the release's public facts on the audit's own records.
    """
    release = Release.load(path)
    public, guarantee = release.public, release.guarantee
    findings = audit_guarantee(guarantee, trials=trials, confidence=confidence, device=device)
    kind = public.get("mechanism")
    if kind == "embedding":
        with said_by(path.name):
            findings += embedding_on_grid(release)
    elif "sigma" in public:
        with said_by(path.name):
            findings.append(on_grid(release, float(public["sigma"])))
    if guarantee.adjacency is Adjacency.ADD_REMOVE:
        hidden = public.get("records") is None
        findings.append(Check("the release does not state the number of records", hidden, "add-remove"))
    if kind == "projection":
        with said_by(path.name):
            attack, batch = _projection(public, guarantee.at_delta, device), public["batch"]
        findings.append(
            run_attack(
                attack,
                runs=runs,
                trials=trials if batch in (None, 1) else 0,
                confidence=confidence,
            )
        )
    return findings, guarantee


def _projection(public: Any, delta: float, device: str) -> ProjectionAttack:
    """One step of the mechanism that the public facts describe."""
    return ProjectionAttack(
        public["dim"],
        public["slices"],
        public["sigma"],
        delta,
        public["clip"],
        public["frame"],
        # without a batch every record has its own row, so that a few records show as much as many
        public["records"] if public["batch"] else min(public["records"], 4),
        public["batch"],
        device=device,
    )
