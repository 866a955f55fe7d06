"""`privot schema …`: write down what is public about a table, and propose its schema from that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from privot.cli.parsing.options import AsJson
from privot.cli.printing.output import print_json

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

    Example: privot schema dictionary patients.csv --out dictionary.json
    """
    from privot.common.files import is_taken
    from privot.errors import UsageError
    from privot.tables import read_header

    names = read_header(data)
    if is_taken(out):
        raise UsageError(f"{out} exists already, and may have been filled in by hand: choose another file.")
    lines = ",\n".join(f"  {json.dumps(name, ensure_ascii=False)}: {{}}" for name in names)
    _write_public(out, f"{{\n{lines}\n}}\n")
    if as_json:
        print_json({"dictionary": str(out), "columns": len(names)})
        return
    typer.echo(
        f"{out}: {len(names)} columns to describe by what is public, never by what the records hold:\n"
        '  a number or a date     {"low": 0, "high": 120}      {"low": "2024-01-01", "high": "2024-12-31"}\n'
        '  with decimals          {"type": "continuous", "low": 0, "high": 100, "decimals": 2}\n'
        '  one of a few words     {"categories": ["no", "yes"]}\n'
        '  may be missing         "missing": true beside the above\n'
        f"Then: privot schema propose --dictionary {out} --out schema.json"
    )


@app.command()
def propose(
    out: Annotated[Path, typer.Option(help="New schema file (.json); a draft to be corrected by hand.")],
    header: Annotated[
        Path | None, typer.Option(help="Table whose column names are read; nothing else of it is read.")
    ] = None,
    dictionary: Annotated[
        Path | None,
        typer.Option(help="Public data dictionary (.json): for each column low, high, categories, type, missing …"),
    ] = None,
    sample: Annotated[Path | None, typer.Option(help="Public table with the same columns; needs --public.")] = None,
    public: Annotated[bool, typer.Option("--public", help="Confirm that everybody may see --sample.")] = False,
    label: Annotated[str | None, typer.Option(help="Column to predict, if any.")] = None,
    as_json: AsJson = False,
) -> None:
    """Propose a schema from a public data dictionary or a public sample, never from the private table.

    Examples: privot schema propose --header private.csv --dictionary dictionary.json --label income --out
    schema.json;
    privot schema propose --sample public.csv --public --out schema.json
    """
    from privot.cli.printing.progress import working
    from privot.common.files import is_taken
    from privot.errors import UsageError
    from privot.tables import propose as propose_schema
    from privot.tables import propose_from_sample, read_header

    if (sample is None) == (dictionary is None):
        raise UsageError(
            "A schema needs one public source: give either --dictionary FILE (privot schema dictionary writes one to "
            "fill in) or --sample FILE."
        )
    if sample is not None:
        if header is not None:
            raise UsageError("--header cannot be combined with --sample: a sample has its own header.")
        if not public:
            raise UsageError("The schema shows values of the sample: add --public if everybody may see that file.")
        with working("reading the sample", quiet=as_json):
            schema = propose_from_sample(sample, label, public=True)
    else:
        assert dictionary is not None
        hints = _read_dictionary(dictionary)
        schema = propose_schema(read_header(header) if header is not None else list(hints), hints, label)
    if is_taken(out):
        raise UsageError(f"{out} exists already, and may have been corrected by hand: choose another file.")
    _write_public(out, json.dumps(schema.to_dict(), indent=2, ensure_ascii=False) + "\n")
    if as_json:
        print_json({"schema": str(out), "columns": len(schema.columns), "label": schema.label})
        return
    typer.echo(f"{out}: {len(schema.columns)} columns, label {schema.label or 'none'}. Read it before using it.")


def _write_public(path: Path, text: str) -> None:
    """A new file that everybody may read: what is in it is public."""
    from privot.common.files import write_whole

    write_whole(path, text.encode(), mode=0o644)


def _read_dictionary(path: Path) -> dict[str, Any]:
    """A public data dictionary: a JSON object, from column names to their fields."""
    from privot.errors import DataError
    from privot.opening import read_json

    found = read_json(path)
    if not isinstance(found, dict):
        raise DataError(f"{path} is not a JSON object: expected column names, each with its fields.")
    return found
