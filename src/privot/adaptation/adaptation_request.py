"""A request to the holder of the target, as a plain JSON file: all of it is public, and untrusted input.

A request states the public map of a record to be summed, the number of records, and ε and δ. The reader's own code
derives the mechanism, its sensitivity and its σ; the σ in the file is for people, and a σ that does not follow is
refused. A file names no code and no path.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from privot.accounting import account, embedding
from privot.adaptation.adaptation_design import MAX_ASKED, MAX_ASKED_NUMBERS, AdaptationDesign
from privot.common.arguments import is_number
from privot.errors import DataError, PrivotError, UsageError
from privot.guarantee import Adjacency, Guarantee
from privot.mechanisms import MeanEmbedding
from privot.mechanisms.mechanism import Facts, refuse_unit
from privot.opening import parse_json, read_bytes
from privot.synthesis.neural.features.fourier import Fourier
from privot.transport.slice_directions import check_seed

SCHEMA_VERSION = 1
KIND = "adaptation request"
MAX_BYTES = 1 << 16
MAX_RECORDS = 10**8
MAX_BANDWIDTHS = 16
EPSILONS, DELTAS = (1e-3, 1e3), (1e-12, 0.1)
LARGEST = 1e12
SAME = 1e-10
"""The relative difference between one σ computed on two machines, by rounding alone."""

_MAP = ("kind", "dim", "frequencies", "bandwidths", "seed", "low", "high", "frame")
_FIELDS = ("schema", "kind", "method", "adjacency", "epsilon", "delta", "sigma", "records", "features")


@dataclass(frozen=True)
class AdaptationRequest:
    """One mean embedding of `records` target records, under replace-one, at (`epsilon`, `delta`); all checked."""

    epsilon: float
    delta: float
    records: int
    features: Mapping[str, Any]
    """The map, as `Fourier.to_dict` writes it down, with one range for all columns."""

    def __post_init__(self) -> None:
        _check_number("ε", self.epsilon, *EPSILONS)
        _check_number("δ", self.delta, *DELTAS)
        _check_whole("records", self.records, 2, MAX_RECORDS)
        _check_map(self.features)

    @classmethod
    def of(cls, design: AdaptationDesign) -> AdaptationRequest:
        """The request of an adaptation; refuses a method that needs more than one release, or another than of a mean.

        The holder of the target learns the map, not what is done with its mean: `embedding` and `stand-in` ask alike.
        """
        s, records, features = design.settings, design.facts.records, design.features
        refuse_unit(design.facts, "A request")
        if s.releases != 1 or features is None or records is None:
            raise UsageError(
                "A request carries one mean embedding: choose the method embedding or stand-in with one block and no "
                "schema, or adapt where the target is."
            )
        if features.get("kind") != Fourier.kind:
            raise UsageError("A request carries Fourier features: design the adaptation with by_request=True.")
        return cls(design.epsilon, design.delta, records, features)

    @property
    def facts(self) -> Facts:
        """The public facts that the request expects of the target."""
        return Facts(int(self.features["dim"]), self.records, 1.0, Adjacency.REPLACE_ONE)

    @cached_property
    def sigma(self) -> float:
        """The smallest σ that (ε, δ) allows, counted here."""
        return embedding(adjacency=Adjacency.REPLACE_ONE, delta=self.delta, epsilon=self.epsilon).sigma

    def mechanism(self, sigma: float | None = None) -> MeanEmbedding:
        """The requested mechanism; with `sigma`, at that σ, which was computed elsewhere or earlier."""
        if sigma is not None and not abs(sigma - self.sigma) <= SAME * self.sigma:
            raise DataError(f"ε and δ of this request need σ = {self.sigma:.6g}, not {sigma:.6g}.")
        given = {name: value for name, value in self.features.items() if name != "kind"}
        return MeanEmbedding(Fourier(**given), self.sigma if sigma is None else sigma)

    def cost(self, delta: float | None = None) -> Guarantee:
        """What an answer costs, counted from the mechanism that would run; quoted at `delta` (its own unless given)."""
        try:
            return account(self.mechanism().event(self.facts), self.delta if delta is None else delta)
        except UsageError as error:
            raise DataError(f"This request cannot be answered: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "schema": SCHEMA_VERSION,
            "kind": KIND,
            "method": "embedding",
            "adjacency": str(Adjacency.REPLACE_ONE),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "sigma": self.sigma,
            "records": self.records,
            "features": {name: self.features[name] for name in _MAP},
        }

    def to_bytes(self) -> bytes:
        """The file."""
        return (json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n").encode()

    def digest(self) -> str:
        """A digest of what is requested, not of the file's layout; σ is left out, because it follows from the rest."""
        asked = {name: value for name, value in self.to_dict().items() if name != "sigma"}
        return hashlib.sha256(json.dumps(asked, sort_keys=True, allow_nan=False).encode()).hexdigest()

    @classmethod
    def from_bytes(cls, data: bytes) -> AdaptationRequest:
        """Read and check a stranger's file."""
        if len(data) > MAX_BYTES:
            raise DataError(f"A request has at most {MAX_BYTES} bytes: this is not one.")
        try:
            fields = parse_json(data)
        except DataError:
            raise DataError("This is not a request: it is not plain JSON with finite numbers.") from None
        if not isinstance(fields, dict) or fields.get("kind") != KIND:
            raise DataError("This is not a request that privot adapt --ask wrote.")
        schema = fields.get("schema")
        if type(schema) is not int or schema != SCHEMA_VERSION:
            raise DataError(f"This request has another schema; this privot reads {SCHEMA_VERSION}.")
        if set(fields) != set(_FIELDS):
            raise DataError(f"A request must hold {', '.join(_FIELDS)}, and nothing else.")
        if fields["method"] != "embedding" or fields["adjacency"] != str(Adjacency.REPLACE_ONE):
            raise DataError("A request must be for the method embedding under replace-one neighbours.")
        made = cls(fields["epsilon"], fields["delta"], fields["records"], fields["features"])
        _check_number("σ", fields["sigma"], 1e-9, LARGEST)
        try:
            made.mechanism(float(fields["sigma"]))
        except DataError:
            raise
        except PrivotError as error:
            raise DataError(f"This request cannot be answered: {error}") from None
        # the numbers as they are used: 1 and 1.0 make the same request
        return cls(float(made.epsilon), float(made.delta), made.records, _plain(made.features))

    @classmethod
    def read(cls, path: Path) -> AdaptationRequest:
        """Read and check the file at `path`, no more of it than a request has."""
        try:
            return cls.from_bytes(read_bytes(path, most=MAX_BYTES))
        except FileNotFoundError:
            raise DataError(f"There is no file {path.name!r}: give a request that privot adapt --ask wrote.") from None


def _check_map(features: Any) -> None:
    if not isinstance(features, Mapping) or set(features) != set(_MAP):
        raise DataError(f"The map of a request must hold {', '.join(_MAP)}, and nothing else.")
    if features["kind"] != Fourier.kind or features["frame"] not in ("orthogonal", "independent"):
        raise DataError("The map of a request must be Fourier features along orthogonal or independent directions.")
    _check_whole("columns", features["dim"], 1, MAX_ASKED_NUMBERS)
    _check_whole("frequencies", features["frequencies"], 1, MAX_ASKED)
    if features["dim"] * features["frequencies"] > MAX_ASKED_NUMBERS:
        raise DataError(
            f"The map of this request has more than {MAX_ASKED_NUMBERS} numbers: ask for fewer frequencies."
        )
    widths = features["bandwidths"]
    if not isinstance(widths, list) or not 1 <= len(widths) <= min(MAX_BANDWIDTHS, features["frequencies"]):
        raise DataError(f"The map of a request has 1 to {MAX_BANDWIDTHS} bandwidths, no more than frequencies.")
    for width in widths:
        _check_number("A bandwidth", width, 1e-6, 1e6)
    for name in ("low", "high"):
        _check_number(f"The {name} end of the range", features[name], -LARGEST, LARGEST)
    if not features["low"] < features["high"]:
        raise DataError("The range of a request must have its low end below its high end.")
    try:
        check_seed(features["seed"])
    except UsageError as error:
        raise DataError(str(error)) from None


def _plain(features: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {name: float(features[name]) for name in ("low", "high")}
    return {**features, **numbers, "bandwidths": [float(width) for width in features["bandwidths"]]}


def _check_number(name: str, value: Any, low: float, high: float) -> None:
    if not is_number(value) or not low <= value <= high:
        raise DataError(f"{name} in a request must be a number from {low:g} to {high:g}.")


def _check_whole(name: str, value: Any, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise DataError(f"The number of {name} in a request must be a whole number from {low} to {high}.")
