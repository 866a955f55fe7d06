"""`privot compare A B`: how far apart two data sets are, without privacy; by DP-SWD; or two private sketches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing import options as shared
from privot.cli.parsing.options import AsJson, Chart, Classes, LedgerFile, NewRecords, PublicSeed, Shape
from privot.cli.parsing.settings import SETTINGS
from privot.cli.printing.printed_answer import number, print_facts, print_json

if TYPE_CHECKING:
    from privot.cli.running.private_comparison import PrivateAnswer
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
        typer.Option(
            help="Method: exact, sinkhorn, sliced, dp-swd, fedwad, triangle, or sketch. Default: sliced or sketch."
        ),
    ] = None,
    p: Annotated[float, typer.Option(help="Order of the distance (exact, sliced, dp-swd).")] = 2.0,
    slices: Annotated[
        int | None, typer.Option(help="Number of directions. Default: 1000 (sliced), at most 50 (dp-swd).")
    ] = None,
    reg: Annotated[float, typer.Option(help="Regularisation divided by the mean cost (sinkhorn).")] = 0.05,
    most: Annotated[int, typer.Option(help="Largest number of records per side (not sliced).")] = 2000,
    seed: PublicSeed = 0,
    rounds: Annotated[
        int, typer.Option(rich_help_panel=SETTINGS, help="Number of rounds of FedWad. Default: 20.")
    ] = 20,
    share: Annotated[
        str,
        typer.Option("--t", rich_help_panel=SETTINGS, help="Interpolation parameter: a number, or random (fedwad)."),
    ] = "",
    defence: Annotated[
        str, typer.Option(rich_help_panel=SETTINGS, help="Defence points: constant or random (triangle).")
    ] = "constant",
    factor: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SETTINGS, help="Divisor: corrected (1 - t) or published (t to the p; wrong) (triangle)."
        ),
    ] = None,
    secret: Annotated[
        bool,
        typer.Option("--secret", rich_help_panel=SETTINGS, help="Each side draws its own defence points (triangle)."),
    ] = False,
    federated: Annotated[
        bool,
        typer.Option(
            "--federated",
            rich_help_panel=SETTINGS,
            help="Compare the interpolants by FedWad, not directly (triangle).",
        ),
    ] = False,
    trust: shared.Trust = None,
    words: shared.WordVectorFile = None,
    labels: Annotated[bool, typer.Option(help="Compare labels too, by OTDD (exact, fedwad, triangle).")] = False,
    classes: Classes = None,
    shape: Shape = None,
    epsilon: shared.OptionalEpsilon = None,
    delta: shared.OptionalDelta = None,
    adjacency: shared.OptionalNeighbours = None,
    clip: Annotated[float | None, typer.Option(help="Public bound to which norms are clipped (dp-swd).")] = None,
    public: Annotated[
        str | None, typer.Option(help="Side that is public and pays nothing: a or b (dp-swd). Default: none.")
    ] = None,
    ledger: LedgerFile = None,
    new_records: NewRecords = False,
    allow_unproven: shared.AllowUnproven = False,
    out: Chart = None,
    as_json: AsJson = False,
) -> None:
    """Measure how far apart two data sets are by optimal transport; only dp-swd and sketches give privacy.

    With dp-swd every private side releases its records' noisy projections once and its ledger is charged.

    Examples: privot compare a.npz b.npz --method exact --out transport.png; privot compare a.sketch b.sketch;
    privot compare a.npz b.npz --method dp-swd --epsilon 5 --delta 1e-5 --adjacency replace-one --clip 1 --public b
    """
    from privot.cli.printing.progress import working
    from privot.cli.records import stated
    from privot.cli.running.comparisons import (
        PROTOCOLS,
        Sides,
        TriangleOptions,
        chosen_method,
        compare_by_protocol,
        compare_records,
    )
    from privot.cli.running.private_comparison import PrivateOptions, compare_privately
    from privot.errors import UsageError
    from privot.transport.slice_directions import check_seed

    method = method or chosen_method(first, second)
    check_seed(seed)
    private = PrivateOptions(epsilon, delta, adjacency, clip, public, ledger, new_records)
    if method != "dp-swd":
        private.refuse_any(method)
    only_triangle = TriangleOptions(factor, secret, federated)
    only_triangle.checked(method, defence)
    sides = Sides(first, second, words, labels, stated(classes, shape))
    if method == "sketch":
        if out is not None:
            raise UsageError("--out cannot be combined with sketches: use privot federate matrix to draw many of them.")
        return _print_sketches(first, second, trust, as_json)
    if method == "dp-swd":
        if out is not None:
            raise UsageError("--out cannot be combined with dp-swd: leave it out.")
        show = (lambda made: print_json(made.to_dict())) if as_json else _print_private
        return compare_privately(sides, private, p=p, slices=slices, seed=seed, show=show)
    with working("comparing", quiet=as_json) as tell:
        if method in PROTOCOLS:
            answer = compare_by_protocol(
                sides, method, p=p, rounds=rounds, share=share, defence=defence, triangle_options=only_triangle,
                most=most, seed=seed, allow_unproven=allow_unproven,
            )  # fmt: skip
        else:
            lines = 1000 if slices is None else slices
            answer = compare_records(
                sides, method, p=p, slices=lines, reg=reg, most=most, seed=seed, out=out, tell=tell
            )
    if method in PROTOCOLS:
        return print_json(answer) if as_json else _print_protocol(answer, p)
    return print_json(answer) if as_json else _print_records(answer, p)


def _print_protocol(answer: dict[str, Any], p: float) -> None:
    as_printed = [("factor", "published: divided by t^p, which gives no distance; leave --factor out for W")]
    print_facts(
        [
            (f"W_{p:g}", number(answer["value"], 6)),
            *(as_printed if answer.get("factor") == "published" else []),
            ("rounds", f"{answer['rounds']}, {answer['bytes']} bytes"),
            ("privacy", answer["privacy"]),
        ]
    )


def _print_private(made: PrivateAnswer) -> None:
    from privot.cli.printing.guarantee_words import in_words
    from privot.cli.running.private_comparison import UNIT

    found = made.found
    low, high = found.interval
    sizes, slices = found.public["records"], found.public["slices"]
    verdict = "distinguishable: the interval excludes 0" if found.distinguishable else "not distinguishable from 0"
    facts = [
        (f"smoothed sliced W_{found.p:g}", f"{number(found.value, 6)}, debiased ({verdict})"),
        ("interval", f"{number(low, 5)} to {number(high, 5)}: {found.interval_of}"),
        ("null level", f"{number(found.null_level, 5)}: two samples of one distribution under this noise"),
        ("not debiased", f"{number(found.raw, 5)}, as published"),
        ("noise", f"σ = {number(found.public['sigma'], 5)} on {slices} directions, clip {found.public['clip']:g}"),
        ("records", f"{sizes[0]} and {sizes[1]}, {found.public['dim']} dimensions; the unit protected is {UNIT}"),
    ]
    for name, guarantee, payer in zip("AB", found.guarantees, made.payers, strict=True):
        if guarantee is None:
            facts.append((f"privacy of {name}", "none: stated to be public"))
        else:
            paid = "nobody: this data is built in" if payer is None else str(payer)
            before = ", in an earlier attempt" if made.before and payer is not None else ""
            facts.append((f"privacy of {name}", f"{in_words(guarantee)}; charged to {paid}{before}"))
    print_facts(facts)


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
