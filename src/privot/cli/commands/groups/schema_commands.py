"""`privot schema …`: write down what is public about a table, and propose its schema from that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privot.cli.parsing.options import AsJson
from privot.cli.printing.printed_answer import print_json
from privot.common.visible import command_line

if TYPE_CHECKING:
    from privot.tables import Schema

app = typer.Typer(
    help="State what is public about a table, and propose its schema.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def root() -> None:
    """State what is public about a table, and propose its schema."""


@app.command()
def dictionary(
    data: Annotated[Path, typer.Argument(help="Table whose column names are read; nothing else of it is read.")],
    out: Annotated[Path, typer.Option(help="New data dictionary (.json) with every column, to be filled in by hand.")],
    as_json: AsJson = False,
) -> None:
    """Write a data dictionary with the names of a table's columns, for you to fill in what is public.

    Of every column it asks whether to keep it (then say what is public about it), to drop it (an identifier, a free
    text), or to take it for the unit (the column that says whose a row is).

    Example: privot schema dictionary patients.csv --out dictionary.json
    """
    from privot.common.files import is_taken
    from privot.errors import UsageError
    from privot.tables import read_header
    from privot.tables.schema import ASKED

    names = read_header(data)
    if is_taken(out):
        raise UsageError(f"{out} exists already, and may have been filled in by hand: choose another file.")
    asked = json.dumps({"use": ASKED})
    lines = ",\n".join(f"  {json.dumps(name, ensure_ascii=False)}: {asked}" for name in names)
    _write_public(out, f"{{\n{lines}\n}}\n")
    if as_json:
        print_json({"dictionary": str(out), "columns": len(names)})
        return
    typer.echo(
        f"{out}: {len(names)} columns. Keep each by what is public, never by what the records hold, or leave it out:\n"
        '  a number or a date     {"low": 0, "high": 120}      {"low": "2024-01-01", "high": "2024-12-31"}\n'
        '  with decimals          {"type": "continuous", "low": 0, "high": 100, "decimals": 2}\n'
        '  one of a few words     {"categories": ["no", "yes"]}\n'
        '  no or yes              {"type": "boolean", "categories": [0, 1]}, in the words of the file, no first\n'
        '  may be missing         "missing": true beside the above\n'
        '  never below another    "at_least": "admitted", "apart": 60 beside the range; apart is the most\n'
        '  an identifier, a text  {"use": "drop"}: nobody reads it, and what comes out is without it\n'
        '  whose a row is         {"use": "unit"}: to be given as --unit, which protects all rows of one together\n'
        "Then: " + command_line(["privot", "schema", "propose", "--dictionary", str(out), "--out", "schema.json"])
    )


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
    label: Annotated[
        list[str] | None, typer.Option(help="Column to predict, if any; repeat it for further ones.")
    ] = None,
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
    from privot.common.files import is_taken
    from privot.errors import UsageError
    from privot.tables import propose_from_sample
    from privot.tables.constraints.differences import differences_of

    documents = [path for path in (dictionary, ddl, dtypes) if path is not None]
    if (sample is None) == (not documents):
        raise UsageError(
            "A schema needs public sources: give --dictionary (privot schema dictionary writes one to fill "
            "in), --ddl and --dtypes (some of them), or --sample FILE."
        )
    if table is not None and ddl is None:
        raise UsageError("--table names a table of --ddl: give that too.")
    unit: str | None = None
    if sample is not None:
        if header is not None:
            raise UsageError("--header cannot be combined with --sample: a sample has its own header.")
        if not public:
            raise UsageError("The schema shows values of the sample: add --public if everybody may see that file.")
        with working("reading the sample", quiet=as_json):
            schema = propose_from_sample(sample, label, public=True)
    else:
        schema, unit = _from_documents(header, dictionary, ddl, table, dtypes, label)
    if is_taken(out):
        raise UsageError(f"{out} exists already, and may have been corrected by hand: choose another file.")
    _write_public(out, json.dumps(schema.to_dict(), indent=2, ensure_ascii=False) + "\n")
    if as_json:
        answer = {"schema": str(out), "columns": len(schema.columns), "dropped": list(schema.dropped), "unit": unit}
        print_json(answer | {"label": schema.label, "labels": list(schema.labels)})
        return
    word = "labels" if len(schema.labels) > 1 else "label"
    named = ", ".join(schema.labels) or "none"
    dropped = f", {len(schema.dropped)} dropped" if schema.dropped else ""
    typer.echo(f"{out}: {len(schema.columns)} columns{dropped}, {word} {named}. Read it before using it.")
    plain = [column.name for column in schema.columns if column.categories == ("false", "true")]
    if plain:
        typer.echo(
            f"Written as false and true: {', '.join(plain)}. Where the table has other words for no and yes, state "
            'them: "categories": [0, 1].'
        )
    known = {column.name: column for column in schema.learned.columns}
    apart = [f"{c.name} ({known[c.name].low:g} to {known[c.name].high:g})" for c in differences_of(schema.constraints)]
    if apart:
        typer.echo(
            f"Learned as differences: {', '.join(apart)}. State the most that is publicly known for each, as its high."
        )
    if unit is not None:
        typer.echo(f"Everything of one {unit} is protected together with --unit {command_line([unit])}.")


def _write_public(path: Path, text: str) -> None:
    """A new file that everybody may read: what is in it is public."""
    from privot.common.files import write_whole

    write_whole(path, text.encode(), mode=0o644)


def _from_documents(
    header: Path | None,
    dictionary: Path | None,
    ddl: Path | None,
    table: str | None,
    dtypes: Path | None,
    label: list[str] | None,
) -> tuple[Schema, str | None]:
    """A schema from public documents, and the unit they name; of the private table at most the header is read."""
    from privot.tables import propose as propose_schema
    from privot.tables import read_header
    from privot.tables.hints.dictionaries import merged_hints, read_dictionary, read_dtypes
    from privot.tables.hints.sql_ddl import read_ddl
    from privot.tables.schema import use_of

    parts = [] if ddl is None else [read_ddl(ddl, table)]
    parts += [] if dtypes is None else [read_dtypes(dtypes)]
    parts += [] if dictionary is None else [read_dictionary(dictionary)]
    hints = merged_hints(parts, None if header is None else read_header(header))
    schema = propose_schema(list(hints.columns), hints.columns, label, hints.constraints)
    return schema, next((name for name, fields in hints.columns.items() if use_of(name, fields) == "unit"), None)
