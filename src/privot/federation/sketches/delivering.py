"""Makes a sketch that is paid for once and kept on disk until it is delivered, across kills and full disks.

It reaches records only through the vault, and sends nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privot.accounting import Gaussian, calibrate
from privot.accounting.events import Event
from privot.federation.sketches.signed_sketch import Sketch, sketch_of
from privot.federation.sketches.sketch_order import Order
from privot.federation.wire.messages import MAX_BYTES
from privot.jobs.release_once import delivering, release_marked
from privot.mechanisms.sketching.private_sketch import PrivateSketch
from privot.vault import Vault

SUFFIX = ".paid"


@dataclass(frozen=True)
class Due:
    """A sketch to deliver, and whether an earlier attempt made it already."""

    sketch: Sketch
    before: bool
    put: Callable[[Path, Callable[[Path], object]], None]
    """put(place, write): deliver it to a file."""


@contextmanager
def due(vault: Vault, order: Order, folder: Path, data: str, purpose: str) -> Iterator[Due]:
    """The ordered sketch, for the block to deliver; deleted when the block succeeds, kept when it fails.

    `data` names the records and, if the order has classes, their labels: other records give another sketch. A sketch
    that was paid for and not delivered stays in the private `folder`; the same order finds it there at no further cost
    (`privot.jobs.release_once`).
    """
    bound = order.design.sensitivity(order.adjacency)

    def choose() -> dict[str, float]:
        def cost(sigma: float) -> Event:
            # for what the vault protects: one record, or everything of one unit
            return vault.facts.cost(Gaussian(sigma, bound, order.adjacency))

        return {"sigma": calibrate(cost, epsilon=order.epsilon, delta=order.delta)}

    def make(secret: bytes, chosen: Mapping[str, Any]) -> bytes:
        mechanism = PrivateSketch(order.design, chosen["sigma"])
        made = release_marked(vault, mechanism, secret, chosen, purpose=purpose, delta=order.delta)
        return sketch_of(made).to_bytes()

    path = folder / f"{order.digest()[:32]}-{data[:16]}{SUFFIX}"
    with delivering(path, choose, make, charged=vault.charges, what="sketch", most=MAX_BYTES) as kept:
        yield Due(Sketch.from_bytes(kept.content), kept.before, kept.put)
