"""`privot schema …`: propose the public schema of a table from what is public about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privot.cli.parsing.options import AsJson
from privot.cli.printing.output import print_json

if TYPE_CHECKING:
    from privot.tables import Schema

app = typer.Typer(help="Propose the public schema of a table.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def root() -> None:
    """Propose the public schema of a table."""


@app.command()
def propose(
    out: Annotated[Path, typer.Option(help="New schema file (.json); a draft to be corrected by hand.")],
    header: Annotated[
        Path | None, typer.Option(help="Table whose column names are read; nothing else of it is read.")
    ] = None,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            help="Public data dictionary: .json (for each column low, high, categories, type, missing …) or .csv "
            "(name, type, min, max, categories …)."
        ),
    ] = None,
    ddl: Annotated[
        Path | None, typer.Option("--ddl", help="SQL file with the CREATE TABLE statement (types, CHECK, ENUM, keys).")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Table that is meant, where --ddl defines several.")] = None,
    dtypes: Annotated[
        Path | None, typer.Option(help="Map of pandas dtypes (.json): column names to dtypes; types only.")
    ] = None,
    sample: Annotated[Path | None, typer.Option(help="Public table with the same columns; needs --public.")] = None,
    public: Annotated[bool, typer.Option("--public", help="Confirm that everybody may see --sample.")] = False,
    label: Annotated[str | None, typer.Option(help="Column to predict, if any.")] = None,
    as_json: AsJson = False,
) -> None:
    """Propose a schema from public documents or a public sample, never from the private table.

    A data dictionary, an SQL definition and a map of dtypes can be given together: what the dictionary says counts.

    Examples: privot schema propose --header private.csv --dictionary dictionary.json --label income --out
    schema.json;
    privot schema propose --ddl tables.sql --table visits --dictionary ranges.csv --out schema.json;
    privot schema propose --sample public.csv --public --out schema.json
    """
    from privot.cli.printing.progress import working
    from privot.common.files import is_taken, write_whole
    from privot.errors import UsageError
    from privot.tables import propose_from_sample

    documents = [path for path in (dictionary, ddl, dtypes) if path is not None]
    if (sample is None) == (not documents):
        raise UsageError(
            "A schema needs public sources: give --dictionary, --ddl and --dtypes (some of them), or --sample FILE."
        )
    if table is not None and ddl is None:
        raise UsageError("--table names a table of --ddl: give that too.")
    if sample is not None:
        if header is not None:
            raise UsageError("--header cannot be combined with --sample: a sample has its own header.")
        if not public:
            raise UsageError("The schema shows values of the sample: add --public if everybody may see that file.")
        with working("reading the sample", quiet=as_json):
            schema = propose_from_sample(sample, label, public=True)
    else:
        schema = _from_documents(header, dictionary, ddl, table, dtypes, label)
    if is_taken(out):
        raise UsageError(f"{out} exists already, and may have been corrected by hand: choose another file.")
    write_whole(out, (json.dumps(schema.to_dict(), indent=2, ensure_ascii=False) + "\n").encode(), mode=0o644)
    if as_json:
        print_json({"schema": str(out), "columns": len(schema.columns), "label": schema.label})
        return
    typer.echo(f"{out}: {len(schema.columns)} columns, label {schema.label or 'none'}. Read it before using it.")


def _from_documents(
    header: Path | None,
    dictionary: Path | None,
    ddl: Path | None,
    table: str | None,
    dtypes: Path | None,
    label: str | None,
) -> Schema:
    """A schema from public documents; of the private table at most the header is read."""
    from privot.tables import propose as propose_schema
    from privot.tables import read_header
    from privot.tables.hints import merged_hints, read_ddl, read_dictionary, read_dtypes

    parts = [] if ddl is None else [read_ddl(ddl, table)]
    parts += [] if dtypes is None else [read_dtypes(dtypes)]
    parts += [] if dictionary is None else [read_dictionary(dictionary)]
    hints = merged_hints(parts, None if header is None else read_header(header))
    return propose_schema(list(hints.columns), hints.columns, label, hints.constraints)
