"""Makes a sketch that is paid for once and kept on disk until it is delivered, across kills and full disks.

It reaches records only through the vault, and sends nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from privot.accounting import Gaussian, calibrate
from privot.accounting.events import Event
from privot.common.files import write_whole
from privot.federation.sketches.signed_sketch import Sketch, sketch_of
from privot.federation.sketches.sketch_order import Order
from privot.federation.wire.messages import MAX_BYTES
from privot.jobs.paid_question import Paid, Question, beside, delivering
from privot.jobs.run import Plan, Run
from privot.mechanisms.sketching.private_sketch import PrivateSketch
from privot.opening import read_bytes
from privot.release import Release
from privot.vault import Vault


def ordered(order: Order, vault: Vault, folder: Path, data: str, purpose: str) -> tuple[Question, Run]:
    """Where the ordered sketch is kept, in a private `folder`, and the run that pays for it.

    `data` names the records and, if the order has classes, their labels: other records give another sketch.
    """
    bound = order.design.sensitivity(order.adjacency)

    def choose() -> dict[str, float]:
        def cost(sigma: float) -> Event:
            # for what the vault protects: one record, or everything of one unit
            return vault.facts.cost(Gaussian(sigma, bound, order.adjacency))

        return {"sigma": calibrate(cost, epsilon=order.epsilon, delta=order.delta)}

    question = Question(folder, f"{order.digest()[:32]}-{data[:16]}", choose, read=_read, write=_write)
    return question, Run(question, lambda: vault, vault.charges, plan=Plan(purpose, order.delta))


def released(order: Order, question: Question, run: Run) -> Release:
    """The release of the ordered sketch, paid for now or before."""
    return run.release(lambda: PrivateSketch(order.design, question.chosen["sigma"]))[0]


@contextmanager
def due(vault: Vault, order: Order, purpose: str) -> Iterator[Paid[Sketch]]:
    """The ordered sketch, for the block to deliver; deleted when the block succeeds, kept when it fails.

    A sketch that was paid for and not delivered stays beside the ledger; the same order finds it there at no further
    cost (`privot.jobs.paid_question`).
    """
    question, run = ordered(order, vault, beside(vault, ".sketches"), vault.content_name(), purpose)
    with delivering(
        question, lambda: sketch_of(released(order, question, run)), spent=vault.charges, what="sketch"
    ) as paid:
        yield paid


def _read(path: Path) -> Release:
    sketch = Sketch.from_bytes(read_bytes(path, most=MAX_BYTES, inside=path.parent))
    return Release(dict(sketch.value), sketch.guarantee, sketch.public)


def _write(release: Release, path: Path) -> None:
    write_whole(path, sketch_of(release).to_bytes())
