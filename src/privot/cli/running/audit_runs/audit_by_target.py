"""What `privot audit` runs, by its target: one attack, all of them, one training run, the code, or a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.audit.attack import Attack
    from privot.audit.attacks.membership import Membership
    from privot.audit.findings import Findings

MECHANISMS = ("projection", "gradient", "embedding", "counts", "parameters", "sketch")
TARGET = (
    "projection, gradient, embedding, counts, parameters, sketch; one-run; implementation; protocol; all; or a path"
)


@dataclass(frozen=True)
class Effort:
    """How much is tried: runs of the mechanism itself, trials of its noise, and the confidence of what is measured."""

    runs: int | None
    trials: int
    confidence: float
    device: str


@dataclass(frozen=True)
class AuditAnswer:
    """What an audit found."""

    findings: Findings = field(default_factory=list)
    tests: list[Membership] = field(default_factory=list)
    one_run: dict[str, Any] | None = None
    untested: str = ""
    """Why no membership was tested in a folder."""


def run_audit(target: str, claim: dict[str, Any], effort: Effort, tell: Callable[[str, int, int], None]) -> AuditAnswer:
    """Attack `target`; `claim` are the options that describe a mechanism, `tell` hears of the progress."""
    if target in MECHANISMS:
        from privot.cli.running.audit_runs.mechanism_attack import attack_on

        return AuditAnswer(_play([attack_on(target, **claim, device=effort.device)], effort, tell))
    if target == "all":
        from privot.audit.standard_attacks import composed_releases, single_releases

        delta, device = claim["delta"], effort.device
        return AuditAnswer(_play([*single_releases(delta, device), *composed_releases(delta, device)], effort, tell))
    if target == "implementation":
        from privot.audit.implementation.code_audit import audit_implementation

        return AuditAnswer(audit_implementation(trials=min(effort.trials, 400_000)))
    if target == "one-run":
        return AuditAnswer(one_run=_one_run(claim, effort.confidence))
    return _path(Path(target), effort)


def _play(attacks: list[Attack], effort: Effort, tell: Callable[[str, int, int], None]) -> Findings:
    from privot.audit.attack import PARTS
    from privot.audit.attack import run_attack as play
    from privot.audit.standard_attacks import usual_runs, usual_trials

    found: Findings = []
    for done, attack in enumerate(attacks):
        hear = partial(_hear, tell, attack.name, done, len(attacks))
        hear(0, PARTS)
        count = usual_runs(attack) if effort.runs is None else effort.runs
        many = min(effort.trials, usual_trials(attack))
        found.append(play(attack, runs=count, trials=many, confidence=effort.confidence, progress=hear))
    return found


def _hear(tell: Callable[[str, int, int], None], name: str, done: int, attacks: int, part: int, parts: int) -> None:
    """Tell of a part of one of several attacks, counted in parts: an attack alone has a time left as well."""
    tell(name, done * parts + part, attacks * parts)


def _one_run(claim: dict[str, Any], confidence: float) -> dict[str, Any]:
    from privot.audit.attacks.one_run import one_run
    from privot.errors import UsageError

    sigma, batch, canaries = claim["sigma"], claim["batch"], claim["canaries"]
    if sigma is None or canaries < 10:
        raise UsageError("privot audit one-run needs --sigma, and --canaries of at least 10.")
    rate = 1.0 if batch is None else batch / (claim["records"] or canaries)
    found = one_run(
        sigma,
        claim["delta"],
        rate=min(rate, 1.0),
        steps=claim["steps"],
        canaries=canaries,
        clip=claim["clip"] or 1.0,
        confidence=confidence,
    )
    return found.to_dict()


def _path(path: Path, effort: Effort) -> AuditAnswer:
    """Attack what lies there: a folder, a guarantee, a release, a sketch or a transcript."""
    from privot.errors import UsageError
    from privot.opening.archives import members_of

    how: dict[str, Any] = {"trials": effort.trials, "confidence": effort.confidence, "device": effort.device}
    if path.is_dir():
        return _folder(path, effort, how)
    if not path.exists():
        raise UsageError(f"There is no mechanism and no file called {str(path)!r}: use {TARGET}.")
    if path.suffix == ".json":
        from privot.audit.targets.release_file import audit_guarantee, read_guarantee_file

        return AuditAnswer(audit_guarantee(read_guarantee_file(path), **how))
    if "release.json" in members_of(path):
        from privot.audit.targets.release_file import audit_release

        return AuditAnswer(audit_release(path, runs=1000 if effort.runs is None else effort.runs, **how)[0])
    from privot.federation.wire.signing import SEAL

    if SEAL in members_of(path):
        from privot.audit.targets.exchange import audit_sketch
        from privot.federation.sketches.signed_sketch import Sketch

        return AuditAnswer(audit_sketch(Sketch.load(path), **how))
    from privot.audit.targets.transcript import audit_transcript, read_transcript

    return AuditAnswer([audit_transcript(*read_transcript(path))])


def _folder(path: Path, effort: Effort, how: dict[str, Any]) -> AuditAnswer:
    from privot.audit.targets.exchange import audit_exchange, is_exchange

    if is_exchange(path):
        return AuditAnswer(audit_exchange(path, **how))
    from privot.audit.targets.synth_folder import RUNS, audit_folder

    found = audit_folder(path, runs=RUNS if effort.runs is None else effort.runs, **how)
    return AuditAnswer(found.findings, found.tests, untested=found.untested)
