"""`privot points A`: scores of one's own records against a validation set, on one's own machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from privot.cli.parsing import options as shared
from privot.cli.parsing.options import AsJson, Chart, Classes, PublicSeed, Shape
from privot.cli.printing.printed_answer import number, print_facts, print_json, print_table

KEEP = "private, do not publish: scores are about A's own confidential records, and nothing of A was sent anywhere"
MEANING_SEEN = 0.95
"""From which value of `seen` on the meaning of a label counts as told by the sketch."""


def points(
    data: Annotated[
        str, typer.Argument(metavar="A", help="Your own labelled records: a file (.npz, .csv, IDX …), images by class.")
    ],
    validation: Annotated[
        str, typer.Option(help="Labelled sketch of the validation set, or its records if you hold them.")
    ],
    method: Annotated[
        Literal["transport", "labels"],
        typer.Option(help="transport: noisy or far records, and labels; labels: wrong labels (sketch only)."),
    ] = "transport",
    prototypes: shared.Prototypes = None,
    value_range: shared.ValueRange = None,
    radius: shared.Radius = None,
    trust: shared.Trust = None,
    top: Annotated[int, typer.Option(min=1, help="How many of the worst records are shown.")] = 10,
    most: Annotated[int, typer.Option(min=2, help="Largest number of validation records.")] = 2000,
    seed: PublicSeed = 0,
    classes: Classes = None,
    shape: Shape = None,
    out: Annotated[Path | None, typer.Option(help="New .csv file with row (from 0), label, score and rank.")] = None,
    plot: Chart = None,
    as_json: AsJson = False,
) -> None:
    """Score your own records against a validation set on your own machine: a high score is harmful.

    Nothing about A leaves. A server cannot do this for you: under (ε, δ)-differential privacy it finds bad records at
    most e^ε times as often as it raises false alarms, plus δ.

    For a sketch, repeat the --prototypes, --range or --radius that it was made with.

    Examples: privot points a.npz --validation v.sketch --prototypes public.npy --out scores.csv;
    privot points a.npz --validation v.sketch --prototypes public.npy --method labels
    """
    from privot.cli.records import stated
    from privot.cli.running import own_scores
    from privot.cli.sketch_files import is_sketch
    from privot.transport.slice_directions import check_seed

    check_seed(seed)
    own_scores.check_score_file(out)
    if plot is not None:
        from privot.report.chart_files import check_ending

        check_ending(plot)
    facts, design = stated(classes, shape), (prototypes, value_range, radius)
    # options that only a sketch needs mean that V is one, if a damaged one, which is then said
    if is_sketch(validation) or trust or any(given is not None for given in design):
        found, dim, answer = own_scores.score_against_sketch(data, validation, facts, trust, *design, method)
    else:
        own_scores.check_method(method)
        found, dim, answer = own_scores.score_against_records(data, validation, facts, most, seed)
    worst = [{"row": i, "label": int(found.labels[i]), "score": float(found.score[i])} for i in found.worst(top)]
    if plot is not None:
        from privot.cli.printing.charts import draw_scores

        draw_scores(found.score, plot)
        plot.chmod(0o600)
    # last, because it is never written twice
    if out is not None:
        own_scores.write_scores(found, out)
    answer = {
        "records": len(found.score),
        "dimension": dim,
        "method": method,
        "score": own_scores.MEANINGS[method],
        "worst": worst,
        **answer,
        "scores": KEEP,
        "seed": seed,
        "out": None if out is None else str(out),
        "plot": None if plot is None else str(plot),
    }
    return print_json(answer) if as_json else _print(answer)


def _print(answer: dict[str, Any]) -> None:
    from privot.cli.printing.guarantee_words import vouched

    rows = [[str(k + 1), str(w["row"]), str(w["label"]), number(w["score"])] for k, w in enumerate(answer["worst"])]
    print_table(["rank", "row", "label", "score"], rows)
    against = answer["validation"]
    high = "a high score is harmful" if answer["method"] == "transport" else "a high score is a label probably wrong"
    lines = [("scored", f"{answer['records']} records, {answer['dimension']} dimensions; {high}")]
    if against["kind"] == "records":
        lines.append(("against", f"{against['records']} validation records, {against['used']} used"))
    else:
        meanings = answer["meanings"]
        told = _seen(answer["seen"]) if meanings is None else _meant(meanings, answer["seen"])
        lines.append(("against", f"a sketch; {told}"))
        lines.append(("signed by", f"{str(answer['signer'])[:16]}…: {vouched(bool(answer['trusted']))}"))
    lines += [("privacy", str(answer["privacy"])), ("scores", KEEP)]
    if answer["out"] is not None:
        lines.append(("written to", f"{answer['out']}: row (from 0), label, score, rank"))
    print_facts(lines)


def _seen(seen: list[float]) -> str:
    """How far the noise lets the sketch's class means be used; no test of a difference, which chance moves too."""
    if not any(seen):
        return "its noise hides how your classes differ from its own, so your own class means are used"
    moved = 100.0 * sum(seen) / len(seen)
    return f"your class means are moved {moved:.0f} % of the way to its noisy ones (mean over classes)"


def _meant(meanings: list[int], seen: list[float]) -> str:
    """Which labels mean another class by the sketch, and how many the noise leaves open."""
    moved = ", ".join(f"{label} means its {meant}" for label, meant in enumerate(meanings) if label != meant)
    clear = sum(one >= MEANING_SEEN for one in seen)
    hidden = "" if clear == len(seen) else ", and noise hides the others"
    return f"{moved or 'every label keeps its name'}; it tells what {clear} of {len(seen)} labels mean{hidden}"
