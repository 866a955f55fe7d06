"""Partitioned DATA, as the commands open it: options to a source, its progress, and what a dry run tells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from privot.common.block_sums import BlockSum
    from privot.data.stated_facts import StatedFacts
    from privot.jobs.job import Job
    from privot.ledger import Ledger
    from privot.partitions.engines.engine import Engine
    from privot.partitions.kept_sums import KeptSums
    from privot.partitions.source import PartitionedSource
    from privot.tables import TableCodec


@dataclass(frozen=True)
class PartitionOptions:
    """The options of partitioned data, as they were typed."""

    query: str | None = None
    parts: int | None = None
    engine: str | None = None
    scheduler: str | None = None
    workers: int | None = None

    @property
    def asked(self) -> bool:
        """Whether an engine was asked for, so that a single file is partitioned too."""
        return self.engine is not None or self.scheduler is not None or self.workers is not None

    def open(
        self, data: str, codec: TableCodec | None, facts: StatedFacts, unit: str | None = None
    ) -> PartitionedSource | None:
        """The source that DATA names, with the `unit` that is protected; None for a single file. No record is read."""
        from privot.errors import UsageError
        from privot.partitions.source_opening import is_partitioned, open_source

        if not is_partitioned(data, codec, self.query, engine=self.asked):
            if self.asked or self.parts is not None:
                raise UsageError(
                    "The settings engine, workers, scheduler and partitions are of partitioned data: a pattern, tar "
                    "shards, an address, a query, or a table with --schema."
                )
            return None
        if isinstance(facts.classes, tuple):
            raise UsageError("Shards label records by numbers: give --classes N, or --classes 0.")
        return open_source(
            data,
            codec=codec,
            classes=facts.classes,
            shape=facts.shape,
            query=self.query,
            parts=self.parts,
            engine=self._engine(),
            unit=unit,
        )

    def _engine(self) -> Engine:
        from privot.partitions import choose_engine

        name = self.engine or ("dask" if self.scheduler else "local")
        return choose_engine(name, workers=self.workers, scheduler=self.scheduler)


def named_ledger(ledger: Path | None) -> Path:
    """The ledger that was named: partitioned data lie beside none."""
    from privot.errors import UsageError

    if ledger is None:
        raise UsageError("Partitioned data lie beside no ledger: name the one ledger of these records with --ledger.")
    return ledger


def expect_ledger(source: PartitionedSource, place: Path) -> None:
    """Let the first pass name the records for the ledger at `place`, if there is one; else they are read once more."""
    from privot.ledger import Ledger
    from privot.vault.budget import expect_ledger as expect

    if place.is_file():
        with Ledger.open(place) as book:
            expect(source, book)


def keep_sums(source: PartitionedSource, job: Job, book: Ledger) -> KeptSums:
    """Keep what finished partitions give in the job's folder, under a key that only the ledger's own key gives."""
    import numpy as np

    from privot.partitions.kept_sums import FOLDER, KeptSums

    name = np.frombuffer(job.name.encode(), dtype=np.uint8)
    kept = KeptSums(job.folder / FOLDER, bytes.fromhex(book.fingerprint({"sums of the partitions of a job": name})))
    source.keep(kept)
    return kept


@contextmanager
def pass_bar(source: PartitionedSource, quiet: bool = False) -> Iterator[None]:
    """While this is open, passes over `source` show partitions, records per second and time left on a terminal."""
    from privot.cli.printing.progress import partition_bar

    before = source.progress
    with partition_bar(quiet) as tell:
        source.progress = tell
        try:
            yield
        finally:
            source.progress = before


def dry_run(source: PartitionedSource, summands: Sequence[BlockSum]) -> dict[str, Any]:
    """What the passes over `source` will take, as plain JSON types; the number of rows may be exact."""
    from privot.cli.printing.guarantee_words import NO_PRIVACY
    from privot.partitions.dry_run import estimate

    found = estimate(source, summands)
    return {
        "rows": found.rows,
        "rows_counted": found.counted,
        "bytes": found.size,
        "partitions": found.partitions,
        "workers": found.workers,
        "passes": found.passes,
        "peak_memory_mib": math.ceil(found.memory),
        "minutes": None if found.seconds is None else round(found.seconds / 60.0, 2),
        "privacy": NO_PRIVACY,
    }
