"""`privot compare A B`: how far apart two data sets are, without privacy; or two private sketches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing import options as shared
from privot.cli.parsing.options import AsJson, Chart, Classes, PublicSeed, Shape
from privot.cli.printing.output import number, print_facts, print_json

if TYPE_CHECKING:
    from privot.federation.sketches.sketch_comparison import Distance

VERDICTS = {
    True: "indistinguishable at this budget: two samples of one distribution look like this in more than 5 % of cases",
    False: "distinguishable: two samples of one distribution look like this in fewer than 5 % of cases",
}


def compare(
    first: Annotated[
        str, typer.Argument(metavar="A", help="A file (.npz, .csv, IDX …), images by class, digits, or a sketch.")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="The other one, with as many columns.")],
    method: Annotated[
        str | None,
        typer.Option(help="Method: exact, sinkhorn, sliced, fedwad, triangle, or sketch. Default: sliced or sketch."),
    ] = None,
    p: Annotated[float, typer.Option(help="Order of the distance (exact, sliced).")] = 2.0,
    slices: Annotated[int, typer.Option(help="Number of directions (sliced).")] = 1000,
    reg: Annotated[float, typer.Option(help="Regularisation divided by the mean cost (sinkhorn).")] = 0.05,
    most: Annotated[int, typer.Option(help="Largest number of records per side (not sliced).")] = 2000,
    seed: PublicSeed = 0,
    rounds: Annotated[int, typer.Option(help="Number of rounds (fedwad).")] = 20,
    share: Annotated[str, typer.Option("--t", help="Interpolation parameter: a number, or random (fedwad).")] = "",
    defence: Annotated[str, typer.Option(help="Defence points: constant or random (triangle).")] = "constant",
    trust: shared.Trust = None,
    words: shared.WordVectorFile = None,
    labels: Annotated[bool, typer.Option(help="Compare labels too, by OTDD (exact, fedwad, triangle).")] = False,
    classes: Classes = None,
    shape: Shape = None,
    allow_unproven: shared.AllowUnproven = False,
    out: Chart = None,
    as_json: AsJson = False,
) -> None:
    """Measure how far apart two data sets are by optimal transport; there is no privacy unless both are sketches.

    Examples: privot compare a.npz b.npz --method exact --out transport.png; privot compare a.sketch b.sketch
    """
    from privot.cli.printing.progress import working
    from privot.cli.records import stated
    from privot.cli.running.comparisons import PROTOCOLS, Sides, chosen_method, compare_by_protocol, compare_records
    from privot.errors import UsageError
    from privot.transport.slice_directions import check_seed

    method = method or chosen_method(first, second)
    check_seed(seed)
    sides = Sides(first, second, words, labels, stated(classes, shape))
    if method == "sketch":
        if out is not None:
            raise UsageError("--out cannot be combined with sketches: use privot federate matrix to draw many of them.")
        return _print_sketches(first, second, trust, as_json)
    with working("comparing", quiet=as_json) as tell:
        if method in PROTOCOLS:
            answer = compare_by_protocol(
                sides, method, p=p, rounds=rounds, share=share, defence=defence, most=most, seed=seed,
                allow_unproven=allow_unproven,
            )  # fmt: skip
        else:
            answer = compare_records(
                sides, method, p=p, slices=slices, reg=reg, most=most, seed=seed, out=out, tell=tell
            )
    if method in PROTOCOLS:
        return print_json(answer) if as_json else _print_protocol(answer, p)
    return print_json(answer) if as_json else _print_records(answer, p)


def _print_protocol(answer: dict[str, Any], p: float) -> None:
    print_facts(
        [
            (f"W_{p:g}", number(answer["value"], 6)),
            ("rounds", f"{answer['rounds']}, {answer['bytes']} bytes"),
            ("privacy", answer["privacy"]),
        ]
    )


def _print_records(answer: dict[str, Any], p: float) -> None:
    what = {"exact": f"W_{p:g}", "sliced": f"sliced W_{p:g}", "sinkhorn": "regularised transport cost"}
    (low, high), sizes, used = answer["interval"], answer["records"], answer["used"]
    counts = f"{sizes['a']} and {sizes['b']}, {used['a']} and {used['b']} used, {answer['dimension']} dimensions"
    facts = [
        (what[answer["method"]], number(answer["value"], 6)),
        ("interval", f"{number(low, 5)} to {number(high, 5)}: {answer['interval_of']}"),
        ("records", counts),
        ("privacy", answer["privacy"]),
    ]
    if answer["null_level"] is not None:
        size, here = answer["null_records"], number(answer["value_at_null_records"], 5)
        shown = f"{number(answer['null_level'], 5)} for {size} records per side of one distribution; A and B: {here}"
        facts.insert(2, ("null level", shown))
    print_facts(facts)


def _print_sketches(first: str, second: str, trust: list[Path] | None, as_json: bool) -> None:
    from privot.cli.printing.guarantee_words import in_words, summary, vouched
    from privot.cli.printing.progress import working
    from privot.cli.running.comparisons import compare_sketch_files

    with working("comparing", quiet=as_json):
        found, sketches, trusted = compare_sketch_files(first, second, trust)
    if as_json:
        print_json(
            {
                "method": "sketch",
                "value": found.value,
                "w2": found.w2.to_dict(),
                "sliced": found.sliced.to_dict(),
                "otdd": None if found.otdd is None else found.otdd.to_dict(),
                "p_value": found.p_value,
                "indistinguishable": found.indistinguishable,
                "guarantees": {"a": summary(found.guarantees[0]), "b": summary(found.guarantees[1])},
                "signers": {"a": sketches[0].signer, "b": sketches[1].signer},
                "trusted": trusted,
            }
        )
        return
    signers = " and ".join(f"{str(sketch.signer)[:16]}…" for sketch in sketches)
    print_facts(
        [
            ("W_2", _distance(found.w2)),
            ("sliced W_2", _distance(found.sliced)),
            *([] if found.otdd is None else [("OTDD", f"{_distance(found.otdd)}, labels compared too")]),
            ("verdict", f"{VERDICTS[bool(found.indistinguishable)]} (p = {number(found.p_value, 3)})"),
            ("privacy of A", in_words(found.guarantees[0])),
            ("privacy of B", in_words(found.guarantees[1])),
            ("signed by", f"{signers}: {vouched(trusted)}"),
        ]
    )


def _distance(distance: Distance) -> str:
    low, high = distance.interval or (0.0, 0.0)
    return (
        f"{number(distance.value)}  ({number(low)} to {number(high)}: 95 % over the noise; "
        f"null level {number(distance.null_level)})"
    )
