"""`privot study …`: published tables and figures, recomputed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing.options import AsJson, Chart, Delta, Device, Settings
from privot.cli.parsing.typed_values import read_options
from privot.cli.printing.printed_answer import print_json, print_table

if TYPE_CHECKING:
    from privot_lab.studies import Study

app = typer.Typer(
    help="Recompute published tables and figures, and compare them with their text.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Results = Annotated[Path, typer.Option("--out", help="Folder of results, one JSON file per study and mode.")]


@app.command("list")
def list_studies(out: Results = Path("studies"), as_json: AsJson = False) -> None:
    """List the studies: what each recomputes, the data it needs, how long it takes, and what came of it so far.

    Example: privot study list
    """
    from privot_lab.studies import STUDIES
    from privot_lab.studies.study_list import PAPERS
    from privot_lab.studies.study_pages import overall, results_in

    kept = results_in(out)
    listed: list[dict[str, Any]] = [
        {
            "name": s.name,
            "paper": s.paper.citation,
            "item": s.item,
            "title": s.title,
            "needs": list(s.needs),
            "minutes": {"quick, two cores": s.minutes[0], f"full, {s.full_on}": s.minutes[1]},
            "state": overall(kept.get(s.name, {})),
        }
        for s in STUDIES
    ]
    if as_json:
        print_json({"studies": listed})
        return
    print_table(
        ["study", "item", "what", "needs (full)", "minutes: quick, CPU", "full", "state"],
        [
            [
                s.name,
                s.item,
                s.title,
                ", ".join(s.needs) or "–",
                f"{s.minutes[0]:g}",
                f"{s.minutes[1]:g}, {s.full_on}",
                row["state"],
            ]
            for s, row in zip(STUDIES, listed, strict=True)
        ],
    )
    typer.echo("")
    for paper in PAPERS:
        typer.echo(f"{paper.key}-…: {paper.citation}")


@app.command()
def run(
    names: Annotated[list[str], typer.Argument(help="Names of studies (see privot study list), or all.")],
    full: Annotated[
        bool, typer.Option("--full/--quick", help="At the size of the paper, or in minutes on two cores.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(envvar="PRIVOT_DATA", help="Folder of open data sets: mnist.npz, usps.npz, …")
    ] = None,
    settings: Settings = None,
    out: Results = Path("studies"),
    device: Device = "cpu",
    seed: Annotated[int, typer.Option(help="Seed of everything that is not private noise.")] = 0,
    again: Annotated[bool, typer.Option("--again", help="Compute anew what is there already.")] = False,
    as_json: AsJson = False,
) -> None:
    """Recompute published figures and tables, and say of each claim whether it was reproduced.

    Studies use open data sets; nothing in their results protects anybody. A run that was cut off goes on where it was:
    results and their parts are kept in --out.

    Examples: privot study run all --quick; privot study run wdp-table-2 --full --data DIR --device cuda
    """
    from privot.errors import UsageError
    from privot_lab.studies import STUDIES, StudyRun, find_study

    chosen = list(STUDIES) if names == ["all"] else [find_study(name) for name in dict.fromkeys(names)]
    changes = read_options(settings)
    if changes and len(chosen) > 1:
        raise UsageError("--set changes the settings of one study: name one.")
    if data is not None and not data.is_dir():
        raise UsageError(f"--data names a folder of data sets, and {data} is none.")
    out.mkdir(parents=True, exist_ok=True)
    records = []
    for number, study in enumerate(chosen, 1):
        left = sum(s.minutes[1 if full else 0] for s in chosen[number - 1 :])
        _tell(f"{number} of {len(chosen)}: {study.name}, {study.item} (about {left:.1f} minutes left)", as_json)
        run_ = StudyRun(
            study, "full" if full else "quick", data, out, device, seed, tell=lambda line: _tell("  " + line, as_json)
        )
        record = run_.result(changes, again=again)
        drawn = study.draw(record["result"], out) if _was_run(record) else []
        records.append({**record, "drawn": [str(path) for path in drawn]})
        if not as_json:
            _print(study, record, drawn)
    if as_json:
        print_json(records[0] if len(records) == 1 else {"studies": records})


@app.command()
def pages(
    results: Annotated[Path, typer.Argument(help="Folder of results that privot study run wrote.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the pages: one per paper, and one of all items.")],
) -> None:
    """Write a page per paper from results: published beside ours, with a verdict per claim, and a table of all items.

    Example: privot study pages studies --out pages
    """
    from privot_lab.studies.study_pages import write_pages

    for path in write_pages(results, out):
        typer.echo(str(path))


@app.command()
def claims(
    rate: Annotated[float, typer.Option(help="Share of the records per step, for ε against σ.")] = 0.01,
    steps: Annotated[int, typer.Option(help="Number of steps, for ε against σ.")] = 1000,
    delta: Delta = 1e-5,
    smallest: Annotated[float, typer.Option(help="Smallest σ.")] = 0.05,
    largest: Annotated[float, typer.Option(help="Largest σ.")] = 20.0,
    points: Annotated[int, typer.Option(help="Number of values of σ.")] = 8,
    plot: Chart = None,
    as_json: AsJson = False,
) -> None:
    """Check every claim of the Wasserstein-DP paper and compute a counterexample for each that is refuted.

    Example: privot study claims --plot claims.png
    """
    from privot_lab.studies.wdp.claims_page import READING, print_claims
    from privot_lab.studies.wdp.wdp_claims import CLAIMS, Verdict
    from privot_lab.studies.wdp.wdp_comparison import compare_accountants

    # nothing is released here and nothing is signed: the unproven numbers are shown in order to be refuted
    compared = compare_accountants(
        rate=rate, steps=steps, delta=delta, smallest=smallest, largest=largest, points=points, allow_unproven=True
    )
    if plot is not None:
        from privot.cli.printing.charts import draw_comparison

        draw_comparison(compared, plot)
    found = [c.to_dict() for c in CLAIMS]
    if as_json:
        counts = {str(v): sum(c["verdict"] == str(v) for c in found) for v in Verdict}
        answer: dict[str, Any] = {"claims": found, "counts": counts, "epsilon_against_sigma": compared.to_dict()}
        print_json({**answer, "reading": list(READING), "plot": None if plot is None else str(plot)})
        return
    print_claims(found, compared)
    if plot is not None:
        typer.echo(f"\nDrawn in {plot}.")


def _tell(line: str, quiet: bool) -> None:
    if not quiet:
        typer.echo(line, err=True)


def _was_run(record: dict[str, Any]) -> bool:
    return all(f["verdict"] != "cannot be run" for f in record["result"]["findings"])


def _print(study: Study, record: dict[str, Any], drawn: list[Path]) -> None:
    from privot_lab.studies.result_tables import tables_of

    typer.echo(f"{record['title']}\n{record['paper']}, {record['item']}; open data, nothing is protected\n")
    for row in record["result"].get("rows", []):
        if "budgets" in row:
            _print_budgets(row)
    if _was_run(record):
        for table in tables_of(study, record["result"]):
            typer.echo(f"{table.title}:")
            print_table(list(table.header), [list(row) for row in table.rows])
            typer.echo("")
    for finding in record["result"]["findings"]:
        typer.echo(f"{finding['verdict']}: {finding['text']}")
        if finding["published"]:
            typer.echo(f"  published  {finding['published']}")
        typer.echo(f"  ours       {finding['measured']}")
        if finding["why"] and finding["verdict"] != "reproduced":
            typer.echo(f"  because    {finding['why']}")
    for path in drawn:
        typer.echo(f"Drawn in {path}.")
    typer.echo("")


def _print_budgets(row: dict[str, Any]) -> None:
    from privot.cli.printing.printed_answer import number

    typer.echo(f"{row['variant']}: accuracy {row['accuracy']:.3f}, σ {row['sigma']:g}, {row['steps']} steps")
    budgets = [
        [b["accountant"], number(b["epsilon"], 6), f"{b['delta']:g}", b["adjacency"], b["standing"]]
        for b in row["budgets"]
    ]
    print_table(["accountant", "ε", "δ", "adjacency", "standing"], budgets)
    typer.echo("")
