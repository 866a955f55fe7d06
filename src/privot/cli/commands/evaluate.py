"""`privot evaluate`: train on synthetic, test on real. The real test set is a file of its own, never a vault."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from privot.cli.parsing.options import AsJson, Classes, Device, PublicSeed, SchemaFile, Shape
from privot.cli.printing.printed_answer import print_facts, print_json, print_table


def evaluate(
    synthetic: Annotated[
        str,
        typer.Argument(
            metavar="SYNTHETIC", help="Synthetic data, a folder that privot synth wrote, or one of images by class."
        ),
    ],
    test: Annotated[
        str,
        typer.Option("--test", "--real", metavar="DATA", help="Real records with labels (x_test, y_test, or x, y)."),
    ],
    shape: Shape = None,
    classes: Classes = None,
    inception: Annotated[
        Path | None, typer.Option(help="TorchScript network for FID, or a package (.whl) that contains one.")
    ] = None,
    inception_range: Annotated[
        str, typer.Option(metavar="LOW,HIGH", help="Input pixel range of the network.")
    ] = "-1,1",
    schema: SchemaFile = None,
    private: Annotated[
        str | None,
        typer.Option(help="The private records, for nearest neighbours and for scores of models trained on them."),
    ] = None,
    public_test: Annotated[
        bool, typer.Option("--public-test", help="State that anybody may see the test records and figures about them.")
    ] = False,
    device: Device = "auto",
    seed: PublicSeed = 0,
    as_json: AsJson = False,
) -> None:
    """Train classifiers on synthetic data and test them on real data; for tables, also compare columns and pairs.

    Figures about real records go to report-private.html, which must not be published; with --public-test those about
    the test records go to report.html.

    Examples: privot evaluate digits-synth --test test.npz;
    privot evaluate census-synth --test census-test.csv --private census.csv
    """
    from privot.cli.parsing.typed_values import read_pair
    from privot.cli.printing.progress import working
    from privot.cli.running.evaluations import evaluate_arrays, evaluate_table_data, keep_evaluation, made_folder
    from privot.cli.table_input import codec_for
    from privot.common.devices import usable_device
    from privot.common.extras import require
    from privot.errors import UsageError

    takes = read_pair(inception_range, "--inception-range")
    require("Evaluation needs", "synthesis", "torch", "safetensors", "jinja2")
    where = usable_device(device, auto=True)
    if not 0 <= seed < 2**32:
        raise UsageError(f"--seed must be a whole number from 0 to 4294967295, got {seed}.")
    folder = made_folder(synthetic)
    codec = codec_for(folder, schema)
    evaluated: Callable[..., dict[str, Any]]
    if codec is None:
        numbers: dict[str, Any] = {"classes": classes, "shape": shape, "inception": inception, "takes": takes}
        evaluated, show = partial(evaluate_arrays, device=where, **numbers), _print_scores
    elif shape is not None or inception is not None:
        raise UsageError("--shape and --inception cannot be combined with a table.")
    else:
        evaluated, show = partial(evaluate_table_data, codec=codec), _print_table_scores
    with working("evaluating", quiet=as_json) as tell:
        answer = evaluated(synthetic, folder, test, private=private, public_test=public_test, seed=seed, tell=tell)
    keep_evaluation(folder, answer)
    if as_json:
        print_json(answer)
    else:
        show(answer)


def _print_scores(answer: dict[str, Any]) -> None:
    real = answer.get("real", {})
    rows = [[name, f"{100 * score:.1f} %"] for name, score in answer["scores"].items()]
    rows = [[*row, f"{100 * real[row[0]]:.1f} %"] if real else row for row in rows]
    print_table(["classifier", "accuracy, trained on synthetic", *(["on real"] if real else [])], rows)
    print_facts([*([("FID", f"{answer['fid']:.2f}")] if "fid" in answer else []), ("privacy", answer["privacy"])])


def _print_table_scores(answer: dict[str, Any]) -> None:
    def shown(score: float | None, form: str) -> str:
        return "–" if score is None else form.format(score)

    if answer["scores"]:
        print_table(
            [
                "classifier",
                "accuracy, trained on synthetic",
                "ROC-AUC",
                f"on {answer.get('real_from', 'real')}",
                "ROC-AUC",
            ],
            [
                [
                    name,
                    shown(score, "{:.2%}"),
                    shown(answer["auc"][name], "{:.4f}"),
                    shown(answer["real"][name], "{:.2%}"),
                    shown(answer["real_auc"][name], "{:.4f}"),
                ]
                for name, score in answer["scores"].items()
            ],
        )
    _print_targets(answer)
    near = answer["nearest"]
    ours, theirs = (", ".join(f"{v:.4f}" for v in near[key]) for key in ("synthetic", "held_out"))
    print_facts(
        [
            ("columns", f"total variation {answer['marginal_distance']:.4f} on average"),
            ("pairs", f"total variation {answer['pair_distance']:.4f} on average"),
            *_in_real_bins(answer["counts"]),
            *[("means", _means(q)) for q in answer["queries"] if q["what"] == "a mean"],
            ("associations", f"off by {answer['associations']['mean_gap']:.3f} on average (ρ, η, V)"),
            *[("warning", sentence) for sentence in answer["broken"]],
            *[("lost", sentence) for sentence in answer["associations"]["lost"][:3]],
            ("nearest real record", f"{ours} (1, 5, 50 %); other real records {theirs}: {near['marked']}"),
            ("verdict", answer["verdict"]["sentence"]),
            ("privacy", answer["privacy"]),
        ]
    )


def _means(query: dict[str, Any]) -> str:
    typical, worst = (f"{100 * query[name]:.2g} %" for name in ("typical", "worst"))
    return f"typically off by {typical} of their standard deviation, at worst by {worst} ({query['where']})"


def _in_real_bins(counts: dict[str, Any]) -> list[tuple[str, str]]:
    """Distances in bins of the real rows, beside what two samples of one table would have."""
    out = []
    for name in ("columns", "pairs", "triples"):
        if name in counts:
            mean, chance = counts[name]["mean"], counts[name]["chance"]
            out.append((f"{name}, bins of real rows", f"total variation {mean:.4f} on average (chance {chance:.4f})"))
    queries = counts["queries"]
    return [*out, ("range queries", f"off by {queries['mean']:.4f} on average, {queries['high']:.4f} in one of twenty")]


def _print_targets(answer: dict[str, Any]) -> None:
    if answer["targets"]:
        print_table(
            ["target", "measure", "trained on synthetic", "on half of the real rows"],
            [[t["target"], t["measure"], f"{t['synthetic']:.3f}", f"{t['real']:.3f}"] for t in answer["targets"]],
        )
    worst = [g for g in answer["groups"] if g["clear"]][:3]
    if worst:
        print_table(
            ["served worst", "rows", "right, trained on synthetic", "on half of the real rows"],
            [
                [
                    f"{g['column']} = {g['value']}",
                    str(g["rows"]),
                    *(f"{g['accuracy'][k]:.1%}" for k in ("synthetic", "real")),
                ]
                for g in worst
            ],
        )
