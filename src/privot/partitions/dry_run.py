"""What going over a source will take, before it is done: rows, bytes, partitions, memory and minutes.

Sizes come from file systems and from the ends of Parquet files. Seconds per record are measured on one block of the
first partition, on this machine. The numbers are for the person who holds the records: they are no release.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from privot.common.block_sums import BlockSum
from privot.data.record_digest import KEY_BYTES, Checksum, records_digest
from privot.partitions.chosen_rows import SHARE_ROWS, shares_for
from privot.partitions.partition import Block, block_rows
from privot.partitions.source import PartitionedSource

PROCESS_MIB = 340
"""Of a worker's libraries: NumPy, SciPy, Arrow and PyTorch; most pages are shared between the workers of a machine."""
SHARED_MIB = 200
"""Of those, what the workers of one machine hold together once."""
CHOOSING_BYTES, PERMIT_BYTES = 300, 200
"""Of each row of a share, while rows of units are chosen: in the vault's process, and in its partition's worker."""
COPIES = 12
"""Arrays of a block's size that reading, encoding and counting hold at once."""


@dataclass(frozen=True)
class Estimate:
    """What passes over a source take; `rows` is None where the source does not say and nothing tells."""

    rows: int | None
    counted: bool
    size: int
    partitions: int
    workers: int
    passes: int
    memory: float
    seconds: float | None


def estimate(source: PartitionedSource, summands: Sequence[BlockSum]) -> Estimate:
    """Time one block of the first partition that has one, for naming the records and for each of the `summands`.

    Where a unit is protected, passes that choose rows are counted too: one for all sums, or, where the units are
    divided into shares, one for each share and sum. They are timed as the pass that names records.

    `memory` is in MiB over all processes of this machine, `seconds` are of wall-clock time with `source.engine`.
    """
    size = sum(partition.size for partition in source.partitions)
    stated = [partition.rows for partition in source.partitions]
    counted = all(rows is not None for rows in stated)
    held, of_block, of_partition = 0, 0.0, 0
    for partition in source.partitions:
        clock = time.perf_counter()
        block = next(iter(partition.blocks()), None)
        if block is not None:
            reading = time.perf_counter() - clock
            of_block, held = _seconds(reading, block, summands), len(block[0])
            of_partition = partition.size
            break
    rows = sum(rows or 0 for rows in stated) if counted else None
    if rows is None and held and of_partition and held < block_rows(source.dim):
        # the whole partition was one block
        rows = round(size * held / of_partition)
    workers = min(source.engine.workers, len(source.partitions))
    totals = max((sum(total.nbytes for total in summand.zeros()) for summand in summands), default=0)
    block_bytes = block_rows(source.dim) * (source.dim + 1) * 8
    own = PROCESS_MIB - SHARED_MIB + (block_bytes * COPIES + 2 * totals) / 2**20
    memory = SHARED_MIB + (workers + 1) * own
    passes = 1 + len(summands)
    seconds = None if rows is None or not held else rows / held * of_block / workers
    if source.unit is not None:
        shares = shares_for(rows or 1)
        more = 2 + len(summands) if shares == 1 else 1 + 2 * shares * len(summands)
        seconds = None if seconds is None else seconds * more / passes
        held_rows = min(rows or SHARE_ROWS, SHARE_ROWS)
        of_workers = workers * min(held_rows, -(-(rows or SHARE_ROWS) // len(source.partitions)))
        memory += (CHOOSING_BYTES * held_rows + PERMIT_BYTES * of_workers) / 2**20
        passes = more
    return Estimate(rows, counted, size, len(source.partitions), workers, passes, memory, seconds)


def _seconds(reading: float, block: Block, summands: Sequence[BlockSum]) -> float:
    """Of all passes over this block."""
    rows, labels = block
    clock = time.perf_counter()
    checksum = Checksum(1)
    checksum.of(rows, labels)
    check = time.perf_counter() - clock
    clock = time.perf_counter()
    records_digest(bytes(KEY_BYTES), rows)
    total = reading + check + time.perf_counter() - clock
    for summand in summands:
        totals = summand.zeros()
        # once for what is made at first use
        summand.add(totals, rows[:2], labels[:2] if summand.labels and labels is not None else None)
        clock = time.perf_counter()
        summand.add(totals, rows, labels if summand.labels else None)
        total += reading + check + time.perf_counter() - clock
    return total
