"""Makes a sketch that is paid for once and kept on disk until it is delivered, across kills and full disks.

It reaches records only through the vault, and sends nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from privot.accounting import Gaussian, calibrate
from privot.common.arguments import check_delta, check_epsilon
from privot.common.declared import declared
from privot.common.files import write_whole
from privot.errors import UsageError
from privot.federation.sketches.signed_sketch import Sketch, sketch_of
from privot.federation.sketches.sketch_order import Order
from privot.federation.wire.messages import MAX_BYTES
from privot.jobs.paid_question import Paid, Question, beside, delivering
from privot.jobs.run import Plan, Run
from privot.mechanisms import SketchDesign
from privot.mechanisms.mechanism import Facts
from privot.mechanisms.sketching.private_sketch import PrivateSketch
from privot.opening import read_bytes
from privot.release import Release
from privot.vault import Vault


def ordered(order: Order, vault: Vault, folder: Path, data: str, purpose: str) -> tuple[Question, Run]:
    """Where the ordered sketch is kept, in a private `folder`, and the run that pays for it.

    `data` names the records and, if the order has classes, their labels: other records give another sketch.
    """

    def choose() -> dict[str, float]:
        return {"sigma": _sigma(order, vault.facts)}

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


@declared(vault="privot.vault.vault:Vault", design="?privot.mechanisms.sketching.sketch_design:SketchDesign")
def sketch(
    vault: Vault,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    sigma: float | None = None,
    design: SketchDesign | None = None,
    prototypes: Any = None,
    radius: float | None = None,
    seed: int = 0,
    purpose: str = "a sketch to be compared with others",
    allow_unproven: bool = False,
) -> Sketch:
    """Release one private sketch of a vault's records, with noise for (ε, δ) or with a given σ.

    Sketches of one design can be compared with `compare_sketches`, so all parties must use the same `design`, or the
    same `prototypes`, `radius` and `seed`.

    Parameters
    ----------
    vault
        The records, (records, dim), with labels if the design has classes. Its ledger is charged before its records are
        read.
    epsilon, delta
        The cost of the sketch; σ is calibrated to it. Give both, or `sigma`.
    sigma
        The standard deviation of the noise, in units of the weighted sums. `delta` may be given with it.
    design
        The public design that all parties share.
    prototypes
        Public rows (rows, dim) that a design is built around, if no `design` is given.
    radius
        The public scale of the records for a plain design (neither `design` nor `prototypes`); the vault's clip unless
        given.
    seed
        Seed of the design's public random directions.
    purpose
        What the ledger records as the reason of the charge.
    allow_unproven
        Required where the vault draws noise from a source that is not proven (a seeded one, for tests).

    Returns
    -------
    Sketch
        Not yet signed: `Sketch.save` signs it.

    Raises
    ------
    UsageError
        If both or neither of (`epsilon`, `delta`) and `sigma` are given, or the records do not fit the design.
    BudgetError
        If the vault's budget does not cover the cost; nothing is released then.

    Formal guarantees
    -----------------
      * one Gaussian mechanism: noise N(0, σ²) on the weighted sums of coordinates that the design bounds, with
        sensitivity `design.sensitivity(adjacency)` per record, under the vault's adjacency and for its unit;
      * the bound holds for every record, however large, in floating point too: no record is clipped before;
      * the vault is charged first, so an interrupted release costs at most what one release costs. What a ledger paid
        for and was not returned is kept beside it: the same call, or `privot sketch`, goes on at no further cost.

    Examples
    --------
    >>> import numpy as np
    >>> vault = Vault(np.eye(8), clip=1.0, adjacency="replace-one", budget=(1.0, 1e-5))
    >>> sketch(vault, epsilon=1.0, delta=1e-5).guarantee.epsilon() <= 1.0
    True
    """
    facts = vault.facts
    if (sigma is None) == (epsilon is None or delta is None):
        raise UsageError("A sketch needs epsilon and delta, or sigma, and not both.")
    if design is None:
        if prototypes is not None:
            design = SketchDesign.around(prototypes, seed=seed)
        else:
            design = SketchDesign.plain(facts.dim, facts.clip if radius is None else radius, seed=seed)
    if sigma is None:
        assert epsilon is not None
        assert delta is not None
        check_epsilon(epsilon), check_delta(delta)
        order = Order(design, epsilon, delta, facts.adjacency)
        if vault.ledger is not None and not allow_unproven:
            with due(vault, order, purpose) as paid:
                return paid.value
        sigma = _sigma(order, facts)
    release = vault.release(PrivateSketch(design, sigma), purpose=purpose, delta=delta, allow_unproven=allow_unproven)
    return sketch_of(release)


def _sigma(order: Order, facts: Facts) -> float:
    """The smallest σ of the ordered sketch, for what the vault protects: one record, or everything of one unit."""
    bound = order.design.sensitivity(order.adjacency)
    return calibrate(
        lambda sigma: facts.cost(Gaussian(sigma, bound, order.adjacency)), epsilon=order.epsilon, delta=order.delta
    )


def _read(path: Path) -> Release:
    sketch = Sketch.from_bytes(read_bytes(path, most=MAX_BYTES, inside=path.parent))
    return Release(dict(sketch.value), sketch.guarantee, sketch.public)


def _write(release: Release, path: Path) -> None:
    write_whole(path, sketch_of(release).to_bytes())
