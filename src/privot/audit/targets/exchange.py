"""Audits the messages of `privot.federation` as they were sent: a coordinator's folder, or one signed sketch.

Interpolants are inverted with the coordinator's own questions; a sketch has its guarantee recomputed, its events
simulated and its bits checked. No party's records are read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from privot.audit.findings import Check, Findings
from privot.audit.implementation.floating_point import numbers_on_grid
from privot.audit.statistics.epsilon_bounds import DEFAULT_CONFIDENCE
from privot.audit.targets.release_file import audit_guarantee
from privot.audit.targets.transcript import records_behind
from privot.errors import DataError
from privot.federation.coordination.answers import Answer
from privot.federation.coordination.requests import Request
from privot.federation.protocols.answering import Party
from privot.federation.sketches.signed_sketch import Sketch
from privot.federation.wire.messages import MAX_BYTES, Interpolant, Question
from privot.federation.wire.signing import open_sealed
from privot.guarantee import Adjacency
from privot.opening import read_bytes

SENT, GOT = "sent", "got"
SAME = 1e-6
"""Largest error, relative to the message, of records that reproduce it."""


def is_exchange(folder: Path) -> bool:
    """Whether this is the folder of a coordinator."""
    return all((folder / part).is_dir() for part in (SENT, GOT))


def recorded(party: Party, messages: list[tuple[Question, Interpolant]]) -> Party:
    """The same party; every question and answer is appended to `messages`, as a coordinator holds them anyway."""

    def answer(question: Question) -> Interpolant:
        answered = party(question)
        messages.append((question, answered))
        return answered

    return answer


def audit_exchange(
    folder: Path, *, trials: int, confidence: float = DEFAULT_CONFIDENCE, device: str = "cpu"
) -> Findings:
    """Audit every party that answered: whether its messages reveal records, or what its sketch cost."""
    pairs: dict[str, list[tuple[Question, Interpolant]]] = {}
    findings: Findings = []
    for got in sorted((folder / GOT).iterdir()):
        sent = folder / SENT / got.name
        if got.name.startswith(".") or not sent.is_file():
            continue
        request, _ = Request.opened(read_bytes(sent, most=MAX_BYTES, inside=folder))
        answer = Answer.opened(read_bytes(got, most=MAX_BYTES, inside=folder), request.party)
        if answer.sketch is not None:
            sealed = open_sealed(answer.sketch)
            sketch = Sketch.from_bytes(sealed.payload, sealed.signer)
            findings += audit_sketch(sketch, trials=trials, confidence=confidence, device=device)
        for question, interpolant in zip(request.questions, answer.interpolants, strict=False):
            interpolant.check_answers(question)
            pairs.setdefault(request.party, []).append((question, interpolant))
    findings += [audit_interpolants(party, messages) for party, messages in sorted(pairs.items())]
    if not findings:
        raise DataError(f"There is no answer in {folder.name!r} yet: nothing to audit.")
    return findings


def audit_interpolants(party: str, messages: list[tuple[Question, Interpolant]]) -> Check:
    """Whether the coordinator can compute a party's records from any of its messages."""
    inverted = [
        len(answered.points)
        for question, answered in messages
        if question.p == 2.0 and _gives_back(answered.points, question.towards, question.t)
    ]
    most = max(inverted, default=0)
    detail = f"the coordinator can invert {len(inverted)} of {len(messages)} messages"
    if inverted:
        detail += f": {most} records, which reproduce the message to {SAME:g}"
    return Check(f"records behind the messages of {party[:16]}", not inverted, detail)


def audit_sketch(
    sketch: Sketch, *, trials: int, confidence: float = DEFAULT_CONFIDENCE, device: str = "cpu"
) -> Findings:
    """Audit a sketch as it was sent: its guarantee, recomputed and simulated, and the bits of its numbers."""
    findings = audit_guarantee(sketch.guarantee, trials=trials, confidence=confidence, device=device)
    sigma, weights = float(sketch.public["sigma"]), sketch.public["weights"]
    findings += [
        numbers_on_grid(f"the {name}", np.ravel(block), sigma, float(weights[name]))
        for name, block in sorted(sketch.value.items())
    ]
    if sketch.guarantee.adjacency is Adjacency.ADD_REMOVE:
        hidden = sketch.public["records"] is None
        findings.append(Check("the sketch does not state the number of records", hidden, "add-remove"))
    return findings


def _gives_back(points: np.ndarray, towards: np.ndarray, t: float) -> bool:
    found = records_behind(points, towards, t)
    return found is not None and found[1] <= SAME
