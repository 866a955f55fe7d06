"""A party's answer to a request, as signed bytes: a sketch, interpolants or a refusal. Answers are untrusted input.

Every answer names its request; nothing here opens a vault.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privot.errors import DataError
from privot.federation.coordination.requests import MAX_QUESTIONS, Request
from privot.federation.sketches.signed_sketch import Sketch, same_design
from privot.federation.wire.messages import Array, Interpolant, decode_any, encode
from privot.federation.wire.signing import open_sealed, seal
from privot.guarantee import Standing
from privot.mechanisms.sketching.private_sketch import design_facts

MAX_REASON = 300
_FACTS = ("distance", "t", "p", "number")
"""Facts of an interpolant beside its points, in the order of its fields."""


@dataclass(frozen=True, eq=False)
class Answer:
    """An answer to the request with the SHA-256 `request`: a signed sketch file, interpolants, or a `refusal`."""

    request: str
    sketch: bytes | None = None
    interpolants: tuple[Interpolant, ...] = ()
    refusal: str | None = None
    kind: ClassVar[str] = "answer"

    def sealed(self, key: Ed25519PrivateKey) -> bytes:
        """The encoded message, signed by the party."""
        facts: dict[str, Any] = {"request": self.request, "refusal": self.refusal}
        facts["interpolants"] = [{name: getattr(i, name) for name in _FACTS} for i in self.interpolants]
        arrays = {f"points{k}": i.points for k, i in enumerate(self.interpolants)}
        return seal(encode(self.kind, facts, arrays, {} if self.sketch is None else {"sketch": self.sketch}), key)

    @classmethod
    def opened(cls, data: bytes, party: str) -> Answer:
        """Read an answer; raises `DataError` unless it is well formed and `party` (a public key) signed it."""
        sealed = open_sealed(data, "The answer")
        if sealed.signer != party:
            raise DataError(
                f"The answer is signed by {sealed.signer[:16]}…, not by the party that the request went to."
            )
        axes = {f"points{k}": 2 for k in range(MAX_QUESTIONS)}
        facts, arrays, files = decode_any(sealed.payload, cls.kind, axes, ("sketch",))
        try:
            request, refusal, listed = (facts.pop(name) for name in ("request", "refusal", "interpolants"))
            well_formed = not facts and isinstance(listed, list) and isinstance(request, str)
            well_formed = well_formed and (refusal is None or (isinstance(refusal, str) and refusal.isprintable()))
            well_formed = well_formed and (refusal is not None) + bool(listed) + bool(files) == 1
            if not well_formed or set(arrays) != {f"points{k}" for k in range(len(listed))}:
                raise ValueError
            points = [_interpolant(arrays[f"points{k}"], stated) for k, stated in enumerate(listed)]
        except (KeyError, TypeError, ValueError):
            raise DataError("The answer must hold exactly one of a sketch, interpolants and a refusal.") from None
        return cls(request, files.get("sketch"), tuple(points), None if refusal is None else refusal[:MAX_REASON])


def digest(request: bytes) -> str:
    """The SHA-256 by which an answer names its request."""
    return hashlib.sha256(request).hexdigest()


def checked(data: bytes, expected: Request, sent: bytes) -> Answer:
    """Read a party's answer to the request `expected`, sent as the bytes `sent`.

    Raises `DataError` if it answers another request, or does not hold what was requested.
    """
    answer = Answer.opened(data, expected.party)
    if answer.request != digest(sent):
        raise DataError("The answer names another request than the one that was sent.")
    if answer.refusal is not None:
        return answer
    if expected.order is not None:
        if answer.sketch is None:
            raise DataError("Expected a sketch in the answer, got interpolants.")
        sketch_in(answer.sketch, expected)
    else:
        if len(answer.interpolants) != len(expected.questions):
            raise DataError(f"The party answered {len(answer.interpolants)} of {len(expected.questions)} questions.")
        for interpolant, question in zip(answer.interpolants, expected.questions, strict=True):
            interpolant.check_answers(question)
    return answer


def sketch_in(data: bytes, expected: Request) -> Sketch:
    """The signed sketch; raises `DataError` unless party, design, adjacency and cost are those of the order."""
    order = expected.order
    assert order is not None
    sealed = open_sealed(data, "The sketch")
    if sealed.signer != expected.party:
        raise DataError("The sketch is signed by another key than that of the party that the request went to.")
    found = Sketch.from_bytes(sealed.payload, sealed.signer)
    g = found.guarantee
    if found.public["design"] != order.design.digest() or g.adjacency is not order.adjacency:
        raise DataError("The sketch has another design or adjacency than was ordered.")
    # one sketch's statement of the design decides how all are read, so a false one must not pass
    widths = {name: width for name, width in order.design.widths.items() if width}
    shaped = {name: len(block) for name, block in found.value.items()} == widths
    if not shaped or not same_design(found.public, design_facts(order.design)):
        raise DataError("The sketch names the design that was ordered, but states another one.")
    if g.standing is not Standing.PROVEN:
        raise DataError(f"The sketch has the standing {g.standing}: only proven sketches are accepted.")
    if g.epsilon(order.delta) > order.epsilon * (1 + 1e-9):
        raise DataError("The sketch cost more than was ordered.")
    return found


def _interpolant(points: Array, stated: Any) -> Interpolant:
    if not isinstance(stated, dict) or set(stated) != set(_FACTS):
        raise ValueError
    return Interpolant(points, *(stated[name] for name in _FACTS))
