"""Audits the messages of `privot.federation` as they were sent: a coordinator's folder, or one signed sketch.

Interpolants are inverted with what the coordinator itself asked; a sketch is counted anew, played by its events and
looked at bit by bit.
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
"""Largest error, as a share of the message, of records that give the message again."""


def is_exchange(folder: Path) -> bool:
    """Whether a coordinator worked in this folder."""
    return all((folder / part).is_dir() for part in (SENT, GOT))


def overheard(party: Party, heard: list[tuple[Question, Interpolant]]) -> Party:
    """The same party, with every question and answer written down: what a coordinator holds anyway."""

    def answer(question: Question) -> Interpolant:
        said = party(question)
        heard.append((question, said))
        return said

    return answer


def audit_exchange(
    folder: Path, *, trials: int, confidence: float = DEFAULT_CONFIDENCE, device: str = "cpu"
) -> Findings:
    """Every party that answered: what its messages give away, or what its sketch cost."""
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
        for question, said in zip(request.questions, answer.interpolants, strict=False):
            said.check_answers(question)
            pairs.setdefault(request.party, []).append((question, said))
    findings += [audit_interpolants(party, heard) for party, heard in sorted(pairs.items())]
    if not findings:
        raise DataError(f"Nobody has answered in {folder.name!r} yet: there is nothing to audit.")
    return findings


def audit_interpolants(party: str, heard: list[tuple[Question, Interpolant]]) -> Check:
    """Whether any message of one party gives its records to whoever asked."""
    inverted = [
        len(said.points)
        for question, said in heard
        if question.p == 2.0 and _gives_back(said.points, question.towards, question.t)
    ]
    most = max(inverted, default=0)
    detail = f"{len(inverted)} of {len(heard)} messages are inverted by whoever asked"
    if inverted:
        detail += f": {most} records, which give the message again to {SAME:g}"
    return Check(f"records behind the messages of {party[:16]}", not inverted, detail)


def audit_sketch(
    sketch: Sketch, *, trials: int, confidence: float = DEFAULT_CONFIDENCE, device: str = "cpu"
) -> Findings:
    """A sketch as it was sent: the guarantee that it states, counted anew and played, and its own numbers."""
    findings = audit_guarantee(sketch.guarantee, trials=trials, confidence=confidence, device=device)
    sigma, weights = float(sketch.public["sigma"]), sketch.public["weights"]
    findings += [
        numbers_on_grid(f"the {name}", np.ravel(block), sigma, float(weights[name]))
        for name, block in sorted(sketch.value.items())
    ]
    if sketch.guarantee.adjacency is Adjacency.ADD_REMOVE:
        hidden = sketch.public["records"] is None
        findings.append(Check("the sketch does not say how many records there were", hidden, "add-remove"))
    return findings


def _gives_back(points: np.ndarray, towards: np.ndarray, t: float) -> bool:
    found = records_behind(points, towards, t)
    return found is not None and found[1] <= SAME
