"""One `privot synth` of related tables, from its options to a finished folder; files go straight into a vault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privot.cli import ledgers
from privot.cli.related_input import RelatedInput
from privot.cli.running.synth_runs.synth_job import SynthJob
from privot.cli.running.synth_runs.synth_options import SynthOptions
from privot.cli.table_input import check_spreadsheet_safe

if TYPE_CHECKING:
    from pathlib import Path

    from privot.kinds.related_records import RelatedTables
    from privot.ledger import Ledger
    from privot.vault import Vault


class RelatedJob(SynthJob):
    """The job of a parent table and its tables of children; it is paid, kept and resumed as that of one table."""

    def __init__(self, options: SynthOptions) -> None:
        from privot.errors import UsageError
        from privot.guarantee import Adjacency
        from privot.synthesis import Synthesizer

        self.options = o = options
        self.adjacency = Adjacency.parse(o.adjacency)
        if self.adjacency is not Adjacency.ADD_REMOVE:
            raise UsageError(
                "Related tables work with --adjacency add-remove only: under replace-one the number of rows would be "
                "public, and it may change with one parent."
            )
        self.related = RelatedInput.of(o.data, o.schema, o.related)
        self._warn, self.source = None, None
        if o.spreadsheet_safe:
            for kind in self.related.kinds.values():
                check_spreadsheet_safe(kind)
        self.synthesizer = Synthesizer(
            o.epsilon, o.delta, method=o.method, records=o.records, kind=self.related.codec, device=o.device,
            seed=o.seed, allow_unproven=o.allow_unproven,
        )  # fmt: skip
        self.params = self.synthesizer.to_params()
        self.asked = {"orphans": self.related.orphans, "steps": None}

    def dry_run(self) -> dict[str, Any]:
        """What noise will do to the columns of each table; nothing is charged, and no record is read."""
        from privot.mechanisms import Facts
        from privot.synthesis.tabular.expected_error import ASSUMED, foretold

        codec = self.related.codec
        facts = Facts(codec.dim, None, codec.bound(), self.adjacency, unit=codec.unit, whole_units=True)
        design = self.synthesizer.design(facts)
        known = self.options.records
        return {
            "records": known,
            "tables": {
                name: [foretold(table, n) for n in ((known,) if known else ASSUMED)]
                for name, table in zip(codec.names, design.tables, strict=True)
            },
            "privacy": "no value was looked at: the noise is public",
        }

    def _default_ledger(self) -> Path:
        return self.related.default_ledger()

    def _kind(self) -> Any:
        return self.related.kinds

    def _ask(self) -> None:
        """Warn of columns that look like identifiers by their names; no value is looked at."""
        from privot.cli.printing.command_warnings import warn
        from privot.tables.unit_column import identifier_names

        for name, schema in zip(self.related.codec.names, self.related.codec.schemas, strict=True):
            described, _ = identifier_names(schema)
            if described:
                warn(
                    f"Column {described[0]!r} of {name!r} looks like an identifier by its name, and is treated as any "
                    'other: drop it in the schema ("drop": true), or let a constraint of kind key make it.'
                )

    def _records(self) -> Any:
        return self.related.read()

    def _held(self, records: Any) -> dict[str, Any]:
        return {"x": records, "clip": self.related.codec.bound(), "adjacency": self.adjacency}

    def _vault(self, records: RelatedTables | Any, book: Ledger, terms: tuple[float, float] | None) -> Vault:
        held = {"label": self.related.label, "unit": self.related.codec.key, **self._held(records)}
        new, files = self.options.new_records, [str(path) for path in self.related.files.values()]
        return ledgers.open_vault(book, terms=terms, new_records=new, where=files, **held)

    def _left_out(self) -> list[int | str]:
        return []
