"""A coordinator's request to a party, as signed bytes that name job, round and addressee. It holds public facts only.

A request is for a sketch (`Order`) or for interpolants (a batch of `Question`s: a round between machines costs
seconds, so all questions of a round are sent together). A request is untrusted input: shapes, ranges, sizes and version
are checked when it is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privot.errors import DataError, PolicyError, UsageError
from privot.federation.sketches.sketch_order import Order
from privot.federation.wire.messages import Array, Question, decode_any, encode
from privot.federation.wire.signing import open_sealed, seal
from privot.guarantee import Adjacency
from privot.mechanisms import SketchDesign

PROTOCOLS = ("sketch", "triangle", "fedwad")
MAX_QUESTIONS = 64
MAX_ROUNDS = 1000
MAX_NUMBERS = 1_000_000
_ARRAYS = {"centre": 1, "knots": 1, "basis": 2, "prototypes": 2}
_MAX_NUMBERS = 1 << 26
_NAME = re.compile(r"[0-9a-f]{32}")
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, eq=False)
class Request:
    """One message of a job to one party: `order` for the protocol "sketch", `questions` for the others.

    `labels` states whether the points in questions carry label statistics (OTDD).
    """

    protocol: str
    job: str
    number: int
    party: str
    order: Order | None = None
    questions: tuple[Question, ...] = ()
    labels: bool = False
    kind: ClassVar[str] = "request"

    def __post_init__(self) -> None:
        whole = isinstance(self.number, int) and not isinstance(self.number, bool)
        if self.protocol not in PROTOCOLS:
            raise DataError(f"Unknown protocol {str(self.protocol)[:20]!r}: use one of {', '.join(PROTOCOLS)}.")
        if not isinstance(self.job, str) or not _NAME.fullmatch(self.job):
            raise DataError("The name of a job must be 32 hexadecimal digits.")
        if not whole or not 0 <= self.number < MAX_NUMBERS:
            raise DataError(f"The number of a request must be a whole number below {MAX_NUMBERS}.")
        if not isinstance(self.party, str) or not _KEY.fullmatch(self.party):
            raise DataError("The party of a request must be a public key, 64 hexadecimal digits.")
        if not isinstance(self.labels, bool):
            raise DataError("The field labels of a request must be true or false.")
        if (self.order is None) == (self.protocol == "sketch") or bool(self.questions) == (self.protocol == "sketch"):
            raise DataError(
                "A request must hold an order for the protocol sketch, and questions for the other protocols."
            )
        if len(self.questions) > MAX_QUESTIONS:
            raise DataError(f"A request may hold at most {MAX_QUESTIONS} questions.")

    def sealed(self, key: Ed25519PrivateKey) -> bytes:
        """The encoded message, signed with the coordinator's key."""
        facts: dict[str, Any] = {name: getattr(self, name) for name in ("protocol", "job", "number", "party", "labels")}
        arrays: dict[str, Array] = {}
        if self.order is not None:
            facts["order"], arrays = _order_facts(self.order)
        else:
            facts["questions"] = [{"t": q.t, "p": q.p, "number": q.number} for q in self.questions]
            arrays = {f"towards{k}": q.towards for k, q in enumerate(self.questions)}
        return seal(encode(self.kind, facts, arrays), key)

    @classmethod
    def opened(cls, data: bytes, askers: Collection[str] | None = None) -> tuple[Request, str]:
        """(request, public key of its signer); raises `DataError` unless it is well formed.

        With `askers`, raises `PolicyError` for a request that none of these keys signed, before its content is read.
        """
        sealed = open_sealed(data, "The request")
        if askers is not None and sealed.signer not in askers:
            raise PolicyError(f"The policy does not allow any request from {sealed.signer[:16]}….")
        axes = {**_ARRAYS, **{f"towards{k}": 2 for k in range(MAX_QUESTIONS)}}
        facts, arrays, _ = decode_any(sealed.payload, cls.kind, axes)
        ordered = facts.pop("order", None)
        listed = facts.pop("questions", None)
        if set(facts) != {"protocol", "job", "number", "party", "labels"} or (ordered is None) == (listed is None):
            raise DataError(
                "A request must hold protocol, job, number, party, labels order or questions, and nothing else."
            )
        if ordered is not None:
            return cls(**facts, order=_order_from(ordered, arrays)), sealed.signer
        if not isinstance(listed, list) or set(arrays) != {f"towards{k}" for k in range(len(listed))}:
            raise DataError("A request for interpolants must hold points for every question.")
        questions = []
        for k, stated in enumerate(listed):
            if not isinstance(stated, dict) or set(stated) != {"t", "p", "number"}:
                raise DataError("A question must hold t, p and number, and nothing else.")
            questions.append(Question(arrays[f"towards{k}"], stated["t"], stated["p"], stated["number"]))
        return cls(**facts, questions=tuple(questions)), sealed.signer


def _order_facts(order: Order) -> tuple[dict[str, Any], dict[str, Array]]:
    d = order.design
    facts = {
        "epsilon": order.epsilon,
        "delta": order.delta,
        "adjacency": str(order.adjacency),
        "dim": d.dim,
        "radius": d.radius,
        "weights": dict(d.weights),
        "directions": d.directions,
        "seed": d.seed,
        "unmatched": [list(row) for row in d.unmatched],
        "rank": d.rank,
        "classes": d.classes,
        **({"bounded": True} if d.bounded else {}),
    }
    arrays = {"centre": d.centre, "knots": d.knots, "basis": d.basis, "prototypes": d.prototypes}
    # a plain design has neither basis nor prototypes, and a message holds no empty arrays
    return facts, {name: array for name, array in arrays.items() if array.size}


def _order_from(facts: Any, arrays: Mapping[str, Array]) -> Order:
    """Read a design from an untrusted request: raises `DataError` unless it is consistent and of bounded size."""
    import numpy as np

    try:
        dim, directions, classes = (_whole(facts[name]) for name in ("dim", "directions", "classes"))
        radius, rank = (_number(facts[name]) for name in ("radius", "rank"))
        unmatched = tuple((_number(a), _number(b), _number(c)) for a, b, c in facts["unmatched"])
        weights = {str(name): _number(w) for name, w in facts["weights"].items()}
        adjacency = Adjacency.parse(facts["adjacency"])
        terms = _number(facts["epsilon"]), _number(facts["delta"])
        bounded = facts.get("bounded", False) is True
        seed, known = _whole(facts["seed"]), len(facts) - bounded
        basis = arrays.get("basis", np.zeros((dim, 0)))
        prototypes = arrays.get("prototypes", np.zeros((0, dim)))
        fits = arrays["centre"].shape == (dim,) and basis.shape[0] == dim and prototypes.shape[1] == dim
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, UsageError):
        raise DataError("The design in the request cannot be read.") from None
    least = min(dim, directions, radius, rank, 1.0 if not unmatched else min(min(row) for row in unmatched))
    width = directions + basis.shape[1] + len(prototypes) + 2 * len(arrays.get("knots", ()))
    if known != 11 or not fits or least <= 0.0 or not unmatched or "knots" not in arrays:
        raise DataError("The design in the request is inconsistent.")
    if dim * width > _MAX_NUMBERS or max(1, classes) * width > _MAX_NUMBERS // 64:
        raise DataError("The design in the request is larger than is accepted.")
    if len(prototypes) > 2000 or len(arrays["knots"]) > 1000:
        raise DataError("The design in the request has more cells or knots than are accepted.")
    try:
        design = SketchDesign(
            dim, radius, arrays["centre"], basis, prototypes, arrays["knots"], weights, directions, seed,
            unmatched, rank, classes, bounded,
        )  # fmt: skip
    except (UsageError, KeyError) as error:
        raise DataError(f"The design in the request is refused: {error}") from None
    return Order(design, *terms, adjacency)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError
    return value
