"""Several DATA of `privot synth`: a parent table and tables of children, with a `--schema` each and one `--unit`."""

from __future__ import annotations

from dataclasses import dataclass, field
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.kinds.related_records import RelatedTables
    from privot.tables import RelatedCodec

MAX_FILE_NAME = 200

MEANINGFUL = {
    "data", "epsilon", "delta", "adjacency", "out", "schema", "unit", "per_unit", "orphans", "method",
    "device", "ledger", "resume", "pay_again", "new_records", "dry_run", "records", "samples", "spreadsheet_safe",
    "allow_unproven", "checkpoint", "seed", "as_json",
}  # fmt: skip
"""Parameters of `privot synth` with a meaning for related tables."""


@dataclass(frozen=True)
class RelatedOptions:
    """The options of related tables, as they were typed; none of them where there is one table."""

    children: tuple[Path, ...] = ()
    schemas: tuple[Path, ...] = ()
    key: str | None = None
    per_parent: tuple[int, ...] = ()
    orphans: str | None = None

    @classmethod
    def of(
        cls,
        data: list[str],
        schemas: list[Path] | None,
        unit: str | None,
        per_unit: list[int] | None,
        orphans: str | None,
    ) -> RelatedOptions:
        """The options, none of them if `data` is one; refuses what several need and lack, and what one cannot have."""
        from privot.errors import UsageError

        schemas, per_unit, children = schemas or [], per_unit or [], data[1:]
        if not children:
            given = {"A second --schema": len(schemas) > 1, "A second --per-unit": len(per_unit) > 1}
            for name, several in {**given, "--set orphans": orphans is not None}.items():
                if several:
                    raise UsageError(f"{name} describes a table of children: name its file after DATA.")
            return cls()
        if len(schemas) != len(data):
            raise UsageError(
                f"There are {len(data)} tables and {len(schemas)} schemas: give one --schema for each, in the same "
                "order; or put a pattern of files in quotes."
            )
        if unit is None:
            raise UsageError("Children name their parent by a column that all tables have: give it with --unit.")
        if len(per_unit) not in (0, 1, len(children)):
            raise UsageError("Give --per-unit once for all tables of children, or once for each, in the same order.")
        return cls(tuple(map(Path, children)), tuple(schemas[1:]), unit, tuple(per_unit), orphans)


NO_CHILDREN = RelatedOptions()


@dataclass(frozen=True)
class RelatedInput:
    """The files of related tables by name, and what is public about them."""

    files: dict[str, Path]
    codec: RelatedCodec
    orphans: str = "refuse"
    kinds: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: str, schema: Path | None, options: RelatedOptions) -> RelatedInput:
        """Read the schemas; no record is read. Tables are called as their files, without folder and ending."""
        from privot.cli.table_input import UnitOptions, check_table, kind_for
        from privot.errors import DataError, UsageError
        from privot.partitions.source_opening import is_partitioned
        from privot.tables import RelatedCodec, Schema
        from privot.tables.table_writing import kind_of

        assert schema is not None
        paths = [Path(data), *options.children]
        for path in paths:
            if is_partitioned(str(path), None):
                raise UsageError("Related tables are one file each: .csv, .csv.gz or .parquet.")
        names = [path.name[: -len(kind_of(path))] for path in paths]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"Two related tables are called {name!r}, by their files: rename one of the files.")
        schemas = {name: Schema.load(path) for name, path in zip(names, (schema, *options.schemas), strict=True)}
        bounds: Any = None
        if options.per_parent:
            each = options.per_parent * (len(paths) - 1) if len(options.per_parent) == 1 else options.per_parent
            bounds = dict(zip(names[1:], each, strict=True))
        assert options.key is not None
        codec = RelatedCodec(schemas, key=options.key, per_parent=bounds)
        for path, of_file in zip(paths, codec.file_codecs, strict=True):
            try:
                check_table(str(path), of_file, UnitOptions(options.key))
            except DataError as error:
                said = str(error)
                raise DataError(said if repr(path.name) in said else f"{path.name}: {said}") from None
        kinds = {name: str(kind_for(str(path), codec.file_codecs[0])) for name, path in zip(names, paths, strict=True)}
        return cls(dict(zip(names, paths, strict=True)), codec, options.orphans or "refuse", kinds)

    @property
    def label(self) -> str:
        """The name under which a ledger lists the tables."""
        from privot.cli.ledgers import label_of

        return ", ".join(label_of(path) for path in self.files.values())

    def read(self) -> RelatedTables:
        """All rows of all tables."""
        from privot.errors import DataError
        from privot.kinds.table_kinds import read_related

        try:
            return read_related(self.files, self.codec, self.orphans)
        except DataError as error:
            if "orphans" not in str(error):
                raise
            raise DataError(f"{str(error).removesuffix('.')} (--set orphans=drop).") from None

    def default_ledger(self) -> Path:
        """The ledger of all tables together, beside them and named for all of them.

        Named so, it keeps each of the tables alone from getting a ledger of its own unasked (`ledgers.default_ledger`).
        Refuses tables of several folders, and tables that a ledger lies beside that may guard one of them.
        """
        from privot.cli.ledgers import ENDING, TOGETHER, ledgers_near
        from privot.errors import UsageError

        files = [Path(realpath(path)) for path in self.files.values()]
        name = TOGETHER.join(file.name for file in files) + ENDING
        if len({file.parent for file in files}) > 1 or len(name.encode()) > MAX_FILE_NAME:
            raise UsageError(
                "These tables have no place for a ledger of their own, in several folders or under long names: name "
                "the one ledger of all of them together with --ledger, which is made if there is none."
            )
        place = files[0].with_name(name)
        if not place.exists():
            alone = [file.with_name(file.name + ENDING) for file in files]
            near = [*(found for found in alone if found.exists()), *(n for file in files for n in ledgers_near(file))]
            if near:
                raise UsageError(
                    f"{str(near[0])!r} may guard some of these tables already, and a second ledger would be a second "
                    "budget for the same people: name the ledger of all tables together with --ledger."
                )
        return place


def check_meaningful(context: Any) -> None:
    """Refuse every option that was typed and has no meaning for related tables."""
    from privot.cli.parsing.settings import spelled
    from privot.errors import UsageError

    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if parameter.name not in MEANINGFUL and source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT"):
            raise UsageError(
                f"{spelled(parameter)} cannot be combined with tables of children: schemas and --unit state all that "
                "is public."
            )
