"""What the commands do where the data is a table with a schema; a file goes straight into a vault or an evaluation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing.options import AsJson
from privot.cli.printing.output import print_facts, print_json, print_table

if TYPE_CHECKING:
    from privot.data import Dataset
    from privot.tables import TableCodec

SchemaFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The public schema of a table (.json, .toml): see privot schema.")
]

SpreadsheetSafe = Annotated[
    bool,
    typer.Option(
        "--spreadsheet-safe",
        help="In CSV tables, put an apostrophe before text that begins with = + - @, which spreadsheets may run.",
    ),
]

app = typer.Typer(help="Public schemas of tables.", no_args_is_help=True, rich_markup_mode=None)


def open_codec(schema: Path | None) -> TableCodec | None:
    """The codec of the schema in a file; None where none is given."""
    from privot.tables import Schema, TableCodec

    return None if schema is None else TableCodec(Schema.load(schema))


def codec_for(folder: Path | None, schema: Path | None) -> TableCodec | None:
    """The codec of what lies in a folder that `privot synth` made, or of a schema file; None where it is no table."""
    from privot.errors import UsageError
    from privot.jobs.released_files import read_json
    from privot.synthesis.output.saved_model import CONFIG
    from privot.tables import TableCodec

    if folder is None:
        return open_codec(schema)
    if schema is not None:
        raise UsageError("The folder has its own schema: leave out --schema.")
    params = read_json(folder / CONFIG).get("params")
    raw = params.get("codec") if isinstance(params, dict) else None
    return None if raw is None else TableCodec.from_dict(raw)


def table_records(data: str, codec: TableCodec) -> Dataset:
    """The file's rows as a vault of tables holds them. Always the compact layout: one data set has one budget."""
    from privot.data import Dataset
    from privot.tables import encode_file

    return Dataset(*encode_file(data, codec, compact=True))


def table_facts(codec: TableCodec, given: dict[str, Any]) -> dict[str, Any]:
    """What a schema says that is said by options elsewhere; `given` are those options, which must be left out."""
    from privot.errors import UsageError

    for name, value in given.items():
        if value is not None:
            raise UsageError(f"A table's schema says all that is public of it: leave out {name}.")
    return {"low": 0.0, "high": 1.0, "classes": codec.classes, "clip": codec.bound(compact=True)}


def kind_for(data: str, codec: TableCodec | None) -> str | None:
    """The ending of the synthetic table: that of the data, without its compression."""
    from privot.tables.table_writing import kind_of

    return None if codec is None else kind_of(data).removesuffix(".gz")


def check_spreadsheet_safe(kind: str | None) -> None:
    """Refuse --spreadsheet-safe, before anything is paid, where the synthetic file is no CSV table."""
    from privot.errors import UsageError

    if kind is None or not kind.startswith(".csv"):
        raise UsageError("--spreadsheet-safe is for CSV tables with a schema: leave it out.")


def evaluate_table_file(
    synthetic: str, test: str, codec: TableCodec, private: str | None, seed: int
) -> tuple[dict[str, Any], Callable[[], None]]:
    """What `privot evaluate` answers for a table, and how it is printed."""
    from privot.evaluation.table_quality import MODELS, evaluate_table, train_and_test
    from privot.synthesis.output.html_report import CONFIDENTIAL
    from privot.tables import read_table

    made, real = read_table(synthetic), read_table(test)
    records = None if private is None else read_table(private)
    answer = {
        **evaluate_table(made, real, codec, private=records, seed=seed).to_dict(),
        "records": {"synthetic": made.rows, "test": real.rows},
        "privacy": CONFIDENTIAL,
    }
    if records is not None and codec.classes is not None:
        scores = {model: train_and_test(records, real, codec, model, seed) for model in MODELS}
        answer["real"] = {name: score.accuracy for name, score in scores.items()}
        answer["real_auc"] = {name: score.auc for name, score in scores.items()}
        answer["privacy"] = f"{CONFIDENTIAL}; the figures on real were trained on --private records, without privacy"
    return answer, lambda: _print(answer)


def _print(answer: dict[str, Any]) -> None:
    def shown(score: float | None, form: str) -> str:
        return "–" if score is None else form.format(score)

    if answer["scores"]:
        print_table(
            ["classifier", "accuracy, trained on synthetic", "ROC-AUC", "on real", "ROC-AUC"],
            [
                [
                    name,
                    shown(score, "{:.2%}"),
                    shown(answer["auc"][name], "{:.4f}"),
                    shown(answer.get("real", {}).get(name), "{:.2%}"),
                    shown(answer.get("real_auc", {}).get(name), "{:.4f}"),
                ]
                for name, score in answer["scores"].items()
            ],
        )
    near = answer["nearest"]
    ours, theirs = (", ".join(f"{v:.4f}" for v in near[key]) for key in ("synthetic", "held_out"))
    print_facts(
        [
            ("columns", f"total variation {answer['marginal_distance']:.4f} on average"),
            ("pairs", f"total variation {answer['pair_distance']:.4f} on average"),
            ("nearest real record", f"{ours} (1, 5, 50 %); other real records {theirs}: {near['marked']}"),
            ("privacy", answer["privacy"]),
        ]
    )


@app.command("propose")
def propose_schema(
    out: Annotated[Path, typer.Option(help="Schema file to write (.json); a draft to be corrected by hand.")],
    header: Annotated[
        Path | None, typer.Option(help="A table whose column names are taken, and nothing else is read.")
    ] = None,
    dictionary: Annotated[
        Path | None, typer.Option(help="Public data dictionary (.json): name → low, high, categories, type, missing …")
    ] = None,
    sample: Annotated[Path | None, typer.Option(help="A public table of the same columns; needs --public.")] = None,
    public: Annotated[bool, typer.Option("--public", help="State that anybody may see what --sample holds.")] = False,
    label: Annotated[str | None, typer.Option(help="The column to predict, if any.")] = None,
    as_json: AsJson = False,
) -> None:
    """Propose a schema from public hints: a data dictionary, or a sample that anybody may see. Never the private table.

    Examples: privot schema propose --header private.csv --dictionary dictionary.json --label income --out schema.json;
    privot schema propose --sample public.csv --public --out schema.json
    """
    from privot.common.files import write_whole
    from privot.errors import UsageError
    from privot.tables import propose, propose_from_sample, read_header

    if (sample is None) == (dictionary is None):
        raise UsageError("A schema is proposed from public hints: give either --dictionary FILE or --sample FILE.")
    if sample is not None:
        if header is not None:
            raise UsageError("A sample has a header of its own: leave out --header.")
        if not public:
            raise UsageError("What is proposed shows the sample: add --public if anybody may see that file.")
        schema = propose_from_sample(sample, label, public=True)
    else:
        assert dictionary is not None
        hints = _read_dictionary(dictionary)
        schema = propose(read_header(header) if header is not None else list(hints), hints, label)
    if out.exists():
        raise UsageError(
            f"{out} is there already, and may have been corrected by hand: remove it or name another file."
        )
    write_whole(out, (json.dumps(schema.to_dict(), indent=2, ensure_ascii=False) + "\n").encode(), mode=0o644)
    if as_json:
        print_json({"schema": str(out), "columns": len(schema.columns), "label": schema.label})
        return
    typer.echo(f"{out}: {len(schema.columns)} columns, label {schema.label or 'none'}. Read it before using it.")


def _read_dictionary(path: Path) -> dict[str, Any]:
    """A public data dictionary: a JSON object, name → the fields of a column."""
    from privot.errors import DataError
    from privot.opening import read_json

    found = read_json(path)
    if not isinstance(found, dict):
        raise DataError(f"{path} is not a JSON object: expected column names, each with its fields.")
    return found
