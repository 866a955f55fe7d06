"""Makes a sketch that is paid for once and kept on disk until it is delivered, across kills and full disks.

It reaches records only through the vault, and sends nothing itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privot.accounting import Event, Gaussian, calibrate
from privot.common.files import private_folder, sync
from privot.common.private_files import lock_folder
from privot.errors import DataError
from privot.federation.sketches.signed_sketch import Sketch, sketch_of
from privot.federation.sketches.sketch_order import Order
from privot.federation.wire.messages import MAX_BYTES
from privot.jobs.release_once import KEPT_SUFFIX, write_once
from privot.mechanisms import PrivateSketch
from privot.opening import read_bytes
from privot.vault import Vault

SUFFIX = ".paid"


@dataclass(frozen=True)
class Due:
    """A sketch to deliver, and whether an earlier attempt made it already."""

    sketch: Sketch
    before: bool


@contextmanager
def due(vault: Vault, order: Order, folder: Path, data: str, purpose: str) -> Iterator[Due]:
    """The ordered sketch, for the block to deliver; deleted when the block succeeds, kept when it fails.

    `data` names the records and, if the order has classes, their labels: other records give another sketch. A sketch
    that was paid for and not delivered stays in the private `folder`; the same order finds it there at no further cost.
    The steps on disk are secret → charge → sketch → secret removed → delivered → sketch removed, so one charge never
    gives two releases.
    """
    private_folder(folder)
    lock = lock_folder(folder, "owner")
    try:
        path = folder / f"{order.digest()[:32]}-{data[:16]}{SUFFIX}"
        before = path.exists()
        content = read_bytes(path, most=MAX_BYTES, inside=folder) if before else _made(vault, order, path, purpose)
        # a kill may have left it beside a sketch that is whole
        path.with_suffix(KEPT_SUFFIX).unlink(missing_ok=True)
        yield Due(Sketch.from_bytes(content), before)
        path.unlink()
        sync(folder)
    finally:
        os.close(lock)


def _made(vault: Vault, order: Order, path: Path, purpose: str) -> bytes:
    bound = order.design.sensitivity(order.adjacency)

    def choose() -> dict[str, float]:
        def cost(sigma: float) -> Event:
            # for what the vault protects: one record, or everything of one unit
            return vault.facts.cost(Gaussian(sigma, bound, order.adjacency))

        return {"sigma": calibrate(cost, epsilon=order.epsilon, delta=order.delta)}

    def make(secret: bytes, chosen: Mapping[str, Any]) -> bytes:
        mechanism = PrivateSketch(order.design, chosen["sigma"])
        return sketch_of(vault.release_once(mechanism, purpose=purpose, secret=secret, delta=order.delta)).to_bytes()

    try:
        return write_once(path, choose, make)
    except OSError as error:
        raise DataError(
            f"{path.parent} cannot be written ({error.strerror}): make room there and order the same sketch again; "
            "if it was paid for already, that costs nothing more."
        ) from None
