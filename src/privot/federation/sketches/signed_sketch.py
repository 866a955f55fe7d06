"""A party's sketch: released once through its vault, written to a signed file, and read back as untrusted input.

It touches records only through the vault's `PrivateSketch` mechanism; everything else works on released numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privot.accounting import Gaussian, read_guarantee
from privot.accounting.events import Downgraded, Event, PerUnit, event_from_dict
from privot.common.declared import declared
from privot.common.files import write_whole
from privot.common.html_facts import html_facts
from privot.errors import DataError
from privot.federation.wire.messages import MAX_BYTES, MAX_COLUMNS, Array, check_array, decode, encode
from privot.federation.wire.signing import open_sealed, seal
from privot.guarantee import Adjacency, Guarantee
from privot.mechanisms.sketching.private_sketch import expected_sensitivity
from privot.mechanisms.sketching.sketch_design import BLOCKS, LARGEST, MAX_CLASSES, PROPORTION, RADII, SHARES, WEIGHTS
from privot.opening import read_bytes
from privot.release import Release

KIND = "sketch"
_FACTS = {
    "mechanism": str,
    "design": str,
    "dim": int,
    "radius": float,
    "knots": list,
    "weights": dict,
    "prototype_costs": list,
    "unmatched": list,
    "rank": float,
    "seed": int,
    "classes": int,
    "sigma": float,
    "records": int | None,
}
MAX_CELLS = 2000
SIGMAS = (1e-9, 1e9)
"""Smallest and largest σ of a sketch: `PrivateSketch` refuses all others."""
SAMPLES = 1e12
"""Largest sample size of a calibration."""


@declared(value="mapping", guarantee="privot.guarantee:Guarantee", public="mapping", signer="?word")
@dataclass(frozen=True, eq=False, repr=False)
class Sketch:
    """A released sketch: noisy sums by block, their guarantee, the public facts about them, and the signer.

    Make one with `sketch`, read one with `Sketch.load`. A sketch is checked when it is made: a sketch that contradicts
    itself, or claims a lower cost than its noise and weights have, is refused.

    Parameters
    ----------
    value
        Block name → noisy sums, float64 arrays with one axis: `features` (classes × directions), `shells` (classes ×
        knots) and, for a design with prototypes, `cells` (prototypes) and `residuals` (knots). Without labels there is
        one class.
    guarantee
        The guarantee of the release.
    public
        The public facts: the design (name, dimension, radius, knots, weights, …), σ, and the number of records under
        replace-one (None under add-remove).
    signer
        The public key of the signer, 64 hexadecimal digits; None before signing.

    Raises
    ------
    DataError
        If facts, shapes, noise and guarantee do not fit together.

    Formal guarantees
    -----------------
      * the guarantee covers the whole value: anything computed from a sketch is post-processing;
      * a sketch read from a file or message has its guarantee recomputed from its one Gaussian event, and is refused
        if that event states more noise or less sensitivity than the sketch has;
      * `save` signs the exact bytes with Ed25519, and `load` refuses a file whose signature does not fit.

    Examples
    --------
    >>> from privot import Vault, sketch
    >>> vault = Vault(np.eye(8), clip=1.0, adjacency="replace-one", budget=(1.0, 1e-5))
    >>> made = sketch(vault, epsilon=1.0, delta=1e-5)
    >>> made.records, sorted(made.value)
    (8.0, ['features', 'shells'])
    >>> Sketch.from_bytes(made.to_bytes()).digest() == made.digest()
    True
    """

    value: Mapping[str, Array]
    guarantee: Guarantee
    public: Mapping[str, Any]
    signer: str | None = None

    def __post_init__(self) -> None:
        _check(self.value, self.guarantee, self.public)

    @property
    def records(self) -> float:
        """The number of records: stated under replace-one, estimated from the noisy counts under add-remove."""
        if self.public["records"] is not None:
            return float(self.public["records"])
        total = weight = 0.0
        for name in ("shells", "cells", "residuals"):
            if name in self.value:
                # the sum of a block carries the noise of all its coordinates
                precision = self.public["weights"][name] ** 2 / len(self.value[name])
                total, weight = total + precision * float(self.value[name].sum()), weight + precision
        return max(1.0, total / weight)

    def __repr__(self) -> str:
        g = self.guarantee
        return f"Sketch({self.public['dim']} dimensions, δ = {g.at_delta:g}, {g.relation}, {g.standing})"

    def _repr_html_(self) -> str:
        about = "public" if self.public["records"] is not None else "estimated from noisy counts"
        return html_facts(
            "Sketch",
            [
                ("of", f"{self.records:.0f} records ({about}) in {self.public['dim']} dimensions"),
                ("numbers", ", ".join(f"{name} {len(block)}" for name, block in self.value.items())),
                ("signed by", f"{self.signer[:16]}…" if self.signer else "nobody yet"),
                *self.guarantee.facts(),
            ],
        )

    def digest(self) -> str:
        """A SHA-256 that names the release, computed from its noisy numbers alone.

        Copies of one release have the same digest, whichever key signed them; two releases have different digests,
        because noise is not drawn twice.
        """
        sha = hashlib.sha256()
        for name in sorted(self.value):
            sha.update(f"{name} {len(self.value[name])}\n".encode() + self.value[name].astype("<f8").tobytes())
        return sha.hexdigest()

    def to_bytes(self) -> bytes:
        """The message, not yet signed."""
        return encode(KIND, {"guarantee": self.guarantee.to_dict(), "public": dict(self.public)}, self.value)

    @classmethod
    @declared(data="bytes")
    def from_bytes(cls, data: bytes, signer: str | None = None) -> Sketch:
        """Read a message; raises `DataError` unless shapes, ranges, version and guarantee are in order.

        The guarantee is recomputed from its event. `signer` is the key that signed the message, where that is known.
        """
        try:
            facts, arrays = decode(data, KIND, dict.fromkeys(BLOCKS, 1))
        except DataError as first:
            # a sketch without public data has two blocks
            try:
                facts, arrays = decode(data, KIND, dict.fromkeys(BLOCKS[:2], 1))
            except DataError:
                raise first from None
        if set(facts) != {"guarantee", "public"} or not isinstance(facts["public"], dict):
            raise DataError("A sketch message must hold a guarantee and public facts, and nothing else.")
        try:
            # before its ε is computed: hostile events could make that run without end
            _the_event(Guarantee.from_dict(facts["guarantee"]))
            counted = read_guarantee(json.dumps(facts["guarantee"]))
        except DataError:
            raise
        except Exception:
            raise DataError("The guarantee inside the sketch cannot be read.") from None
        try:
            return cls(arrays, counted, facts["public"], signer)
        except DataError:
            raise
        except Exception:
            raise DataError("What the sketch states about itself cannot be read.") from None

    def save(self, path: str | Path, key: Ed25519PrivateKey | None = None) -> None:
        """Write the signed file, whole or not at all, readable by everybody: it is made to be sent.

        Without `key` a key is made, used once and deleted: the signature then shows changes, but not who signed.
        """
        content = seal(self.to_bytes(), Ed25519PrivateKey.generate() if key is None else key)
        write_whole(Path(path), content, mode=0o644)

    @classmethod
    @declared(path="path")
    def load(cls, path: str | Path, trusted: tuple[str, ...] | None = None) -> Sketch:
        """Read a signed file; with `trusted` (public keys in hexadecimal), only if one of those keys signed it.

        Raises `DataError` if there is no such file, its signature is wrong, the signer is not trusted, or the content
        is not a sketch.
        """
        name = Path(path).name
        try:
            data = read_bytes(path, most=MAX_BYTES)
        except FileNotFoundError:
            raise DataError(f"There is no file {name!r}: give a sketch file.") from None
        sealed = open_sealed(data, repr(name))
        if trusted is not None and sealed.signer not in trusted:
            raise DataError(f"{name!r} is signed by {sealed.signer[:16]}…, which is not among the trusted keys.")
        return cls.from_bytes(sealed.payload, sealed.signer)


def sketch_of(release: Release) -> Sketch:
    """The sketch in a release; raises `DataError` if the release holds something else."""
    if not isinstance(release.value, Mapping):
        raise DataError("Expected a release of a sketch, got one of another mechanism.")
    return Sketch(dict(release.value), release.guarantee, dict(release.public))


def _the_event(guarantee: Guarantee) -> Gaussian:
    event: Event | None = event_from_dict(dict(guarantee.events[0])) if len(guarantee.events) == 1 else None
    while isinstance(event, Downgraded | PerUnit):
        event = event.event
    if not isinstance(event, Gaussian):
        raise DataError("The guarantee inside the sketch is not that of a sketch.")
    return event


def _check(value: Mapping[str, Array], guarantee: Guarantee, public: Mapping[str, Any]) -> None:
    """Raise `DataError` unless facts, shapes, noise and guarantee fit together."""
    whole = set(public) - {"bounded"} == set(_FACTS) and public.get("bounded", True) is True
    if not whole or public["mechanism"] != KIND:
        raise DataError("The public facts of the sketch are not those of a sketch.")
    for name, kind in _FACTS.items():
        given = public[name]
        number = isinstance(given, int | float) and not isinstance(given, bool) and abs(given) <= LARGEST
        if not (number if kind is float else isinstance(given, kind) and not isinstance(given, bool)):
            raise DataError(f"The sketch states {name} in a form that cannot be used.")
    knots, costs = _numbers("knots", public["knots"], 1), _numbers("prototype_costs", public["prototype_costs"], 2)
    cells = len(costs)
    if len(knots) < 2 or (np.diff(knots) <= 0.0).any() or knots[0] != 0.0:
        raise DataError("The knots of the sketch must rise from 0.")
    square = cells == 0 or (costs.shape == (cells, cells) and costs.min() >= 0.0 and np.allclose(costs, costs.T))
    if cells == 1 or cells > MAX_CELLS or not square:
        raise DataError("The prototype costs of the sketch are not distances between prototypes.")
    classes = public["classes"]
    if not 0 <= classes <= MAX_CLASSES:
        raise DataError("The sketch states classes in a form that cannot be used.")
    shapes = {"shells": len(knots) * max(1, classes)} | ({"cells": cells, "residuals": len(knots)} if cells else {})
    names = {"features", *shapes}
    if set(value) != names or set(public["weights"]) != names:
        raise DataError("The blocks of the sketch do not fit its public facts.")
    for name in names:
        check_array(f"block {name} of the sketch", value[name], 1)
        if len(value[name]) != shapes.get(name, len(value[name])):
            raise DataError(
                f"Block {name} of the sketch has {len(value[name])} coordinates: its public facts state another number."
            )
    if len(value["features"]) % max(1, classes):
        raise DataError("The features of the sketch do not divide into its classes.")
    weights = _numbers("weights", list(public["weights"].values()), 1)
    unmatched = _numbers("unmatched", public["unmatched"], 2)
    if unmatched.shape[1:] != (3,) or unmatched.min() <= 0.0 or (np.diff(unmatched[:, 0]) <= 0.0).any():
        raise DataError("The calibration inside the sketch cannot be used.")
    shares = unmatched[:, 1:]
    if unmatched[-1, 0] > SAMPLES or shares.min() < SHARES[0] or shares.max() > SHARES[1]:
        raise DataError("The calibration inside the sketch is out of range.")
    _within("σ", public["sigma"], *SIGMAS)
    _within("the dimension", public["dim"], 1, MAX_COLUMNS)
    _within("the rank", public["rank"], 1e-6, MAX_COLUMNS)
    _within("the seed", public["seed"], 0, 2**64)
    for weight in weights:
        _within("a weight", float(weight), *WEIGHTS)
    radius = float(public["radius"])
    if not RADII[0] <= radius <= RADII[1] or not PROPORTION[0] <= math.sqrt(knots[-1]) / radius <= PROPORTION[1]:
        raise DataError("The radius of the sketch, by itself or beside the last knot, is out of range.")
    replace_one = guarantee.adjacency is Adjacency.REPLACE_ONE
    if replace_one != (public["records"] is not None) or (replace_one and not 2 <= public["records"] < 1 << 40):
        raise DataError("A sketch must state its number of records under replace-one, and must not under add-remove.")
    event, bound = _the_event(guarantee), expected_sensitivity(public["weights"], replace_one)
    bound *= 1 if guarantee.unit is None else guarantee.unit.rows
    if event.sigma > public["sigma"] * (1 + 1e-9) or event.sensitivity < bound * (1 - 1e-9):
        raise DataError("The guarantee inside the sketch claims a lower cost than its noise and weights have.")


def _within(name: str, value: float, low: float, high: float) -> None:
    """Raise `DataError` for a number outside the range of real sketches: computing with it would overflow or hang."""
    if not low <= value <= high:
        raise DataError(
            f"The sketch states {name} outside {low:g} to {high:g}, the range of sketches that privot makes."
        )


def same_design(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two sketches state the same design, up to rounding, and not only the same name for it."""
    if any(one[name] != other[name] for name in ("design", "dim", "seed", "classes")):
        return False
    if set(one["weights"]) != set(other["weights"]):
        return False

    def listed(facts: Mapping[str, Any], name: str) -> Array:
        given = facts[name]
        return np.array([given[k] for k in sorted(given)] if isinstance(given, dict) else given, dtype=np.float64)

    for name in ("radius", "knots", "weights", "prototype_costs", "unmatched", "rank"):
        a, b = listed(one, name), listed(other, name)
        least = 1e-3 * float(np.abs(a).max(initial=0.0)) if name == "prototype_costs" else 0.0
        if a.shape != b.shape or not np.allclose(a, b, rtol=1e-3, atol=least):
            return False
    return True


def _numbers(name: str, given: Any, axes: int) -> Array:
    try:
        array = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.array(math.nan)
    if array.size == 0 and axes == 2:
        return np.zeros((0, 0))
    if array.ndim != axes or array.size == 0 or not (np.abs(array) <= LARGEST).all():
        raise DataError(f"The sketch states {name} in a form that cannot be used.")
    return array
