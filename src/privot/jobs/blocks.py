"""Blocks: a long training is cut into blocks of equal steps, and each block is charged before its first release.

All blocks together are reserved before the first, as one event, and their charges draw on that: B charges of T/B steps
cost what one charge of T steps costs. The ledger is then the durable record of what may have left the vault, and a
resumed job trusts nothing else: every block in the ledger counts as released, whether or not its steps were used.
Synthesis and adaptation pay for their blocks here; each decides itself what it keeps on disk between blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from privot.accounting import read_guarantee
from privot.accounting.events import Composed, Event, event_from_dict, leaves, units_in
from privot.common.interruption import finishing
from privot.errors import DataError
from privot.guarantee import Guarantee, Standing
from privot.mechanisms.mechanism import Mechanism
from privot.vault import Vault
from privot.vault.stream import Stream


@contextmanager
def paid_block(
    vault: Vault, mechanism: Mechanism, *, purpose: str, delta: float, allow_unproven: bool
) -> Iterator[Stream]:
    """Charge one block and hand out its stream; an interrupt waits until the end of this context.

    A paid block runs to its end: an interrupt would lose the block and its noise.
    """
    with finishing():
        yield vault.stream(mechanism, purpose=purpose, delta=delta, allow_unproven=allow_unproven)


def weaker(earlier: Guarantee | None, now: Guarantee) -> Guarantee:
    """The guarantee that holds for every block when some ran earlier: the weaker standing and all assumptions.

    Both guarantees are of the same steps.
    """
    if earlier is None:
        return now
    held = earlier if Standing.weakest([earlier.standing, now.standing]) is earlier.standing else now
    return replace(held, assumptions=tuple(dict.fromkeys((*earlier.assumptions, *now.assumptions))))


def all_blocks(block: Guarantee, count: int) -> Guarantee:
    """The guarantee of `count` blocks, each with the guarantee `block`."""
    return block if count == 1 else block.compose(*[block] * (count - 1))


def counted_anew(text: str) -> Guarantee:
    """The guarantee in a JSON `text`, counted again from its events; its assumptions are kept.

    Raises `DataError` where the events cost more than the stated numbers.
    """
    stated, counted = Guarantee.from_json(text), read_guarantee(text)
    return replace(counted, assumptions=tuple(dict.fromkeys((*counted.assumptions, *stated.assumptions))))


def check_block(block: Guarantee, event: Event) -> None:
    """Refuse a block from disk that was charged as another event than `event`, which the job decided on."""
    paid = Composed(tuple(event_from_dict(e) for e in block.events))
    # leaves say nothing of the unit that they are counted for
    if leaves(paid) != leaves(event) or units_in(paid) != units_in(event):
        raise DataError(
            "This folder holds a block that was charged as another event than its job decided on: restore the "
            "folder from a backup."
        )
