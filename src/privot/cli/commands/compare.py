"""`privot compare A B`: how far apart two data sets are, without privacy, and saying so; or two private sketches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privot.cli.parsing.options import AsJson, Classes, Shape
from privot.cli.printing.output import number, print_facts, print_json

NO_PRIVACY = "none: this is an exact answer about the records, so it is itself confidential"


def compare(
    first: Annotated[
        str,
        typer.Argument(metavar="A", help="A file (.npz, .csv, IDX …), images by class, or digits."),
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="The other one, in as many dimensions.")],
    method: Annotated[
        str | None, typer.Option(help="exact, sinkhorn, sliced, fedwad, triangle; sketch, for two sketch files.")
    ] = None,
    p: Annotated[float, typer.Option(help="Order of the distance (exact, sliced).")] = 2.0,
    slices: Annotated[int, typer.Option(help="Directions (sliced).")] = 1000,
    reg: Annotated[float, typer.Option(help="Regularisation over the mean cost (sinkhorn).")] = 0.05,
    most: Annotated[int, typer.Option(help="Records a side for exact and sinkhorn; more are sampled down.")] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of directions and samples; recorded.")] = 0,
    rounds: Annotated[int, typer.Option(help="Rounds (fedwad).")] = 20,
    share: Annotated[str, typer.Option("--t", help="Share of the way: a number, or random (fedwad).")] = "",
    defence: Annotated[str, typer.Option(help="constant or random (triangle).")] = "constant",
    trust: Annotated[list[Path] | None, typer.Option(help="Public keys (.pub) whose sketches are accepted.")] = None,
    words: Annotated[
        Path | None, typer.Option(help="Public word vectors (.npz: words, vectors); A and B are then texts.")
    ] = None,
    labels: Annotated[bool, typer.Option(help="Count labels too, as OTDD does (exact, fedwad, triangle).")] = False,
    classes: Classes = None,
    shape: Shape = None,
    allow_unproven: Annotated[bool, typer.Option(help="Run fedwad or triangle, which protect nobody.")] = False,
    out: Annotated[Path | None, typer.Option(help="Where to draw the transport or the worst slices.")] = None,
    as_json: AsJson = False,
) -> None:
    """How far apart two data sets are, by optimal transport. No privacy, unless A and B are private sketches.

    Example: privot compare a.npz b.npz --method exact --out transport.png
    """
    from privot.cli import sketch_files
    from privot.cli.records import stated
    from privot.errors import DataError, UsageError
    from privot.transport.slice_directions import check_seed

    if method is None:
        found_sketches = [sketch_files.is_sketch(source) for source in (first, second)]
        if any(found_sketches) and not all(found_sketches):
            other = (first, second)[found_sketches.index(False)]
            raise DataError(f"{other!r} is no sketch: a sketch is compared with another sketch of the same design.")
        method = "sketch" if all(found_sketches) else "sliced"
    check_seed(seed)
    facts = stated(classes, shape)
    if method == "sketch":
        if out is not None:
            raise UsageError("Sketches hold no records to draw: leave out --out (privot federate matrix draws many).")
        return sketch_files.compare_files(first, second, trust, as_json)
    if method in ("fedwad", "triangle"):
        return sketch_files.compare_openly(
            first, second, method, p, rounds, share, defence, most, seed, allow_unproven, as_json, words, labels, facts
        )
    import numpy as np

    from privot.transport import exact, sinkhorn, sliced
    from privot.transport._intervals import over_records, over_slices

    if method not in ("exact", "sinkhorn", "sliced"):
        raise UsageError(f"Unknown method {method!r}: say exact, sinkhorn, sliced, sketch, fedwad or triangle.")
    if most < 2 or not 0.0 < reg < float("inf"):
        raise UsageError("--most must be at least 2, and --reg a number greater than 0.")
    sets = [sketch_files.load_points(source, words, facts, labels=labels) for source in (first, second)]
    x, y = (np.asarray(found.x, dtype=np.float64) for found in sets)
    if x.shape[1] != y.shape[1]:
        raise DataError(f"A has {x.shape[1]} columns and B has {y.shape[1]}: they must lie in one space.")
    if labels:
        if method != "exact" or any(found.y is None for found in sets):
            raise UsageError("--labels goes with exact, fedwad, triangle or labelled sketches, and needs labels.")
        from privot.transport._otdd import augmented_pair

        x, y = (np.asarray(side) for side in augmented_pair(x, sets[0].y, y, sets[1].y))
    sizes = {"a": len(x), "b": len(y)}
    null: dict[str, Any] = {"null_level": None}
    if method == "sliced":
        found = sliced(x, y, p=p, slices=slices, seed=seed)
        interval = over_slices(found.details["costs"], p, seed)
    else:
        generator = np.random.default_rng(seed)
        x, y = (z if len(z) <= most else z[generator.choice(len(z), most, replace=False)] for z in (x, y))
        strength = reg * _mean_square(x, y) if method == "sinkhorn" else 0.0

        def distance(a: Any, b: Any) -> Any:
            return exact(a, b, p=p) if method == "exact" else sinkhorn(a, b, strength, tol=1e-4)

        found = distance(x, y)
        drawn = over_records(lambda a, b: float(distance(a, b).value), x, y, float(found.value), seed)
        interval = drawn.interval
        null = {"null_level": drawn.null_level, "value_at_null_records": drawn.at_size, "null_records": drawn.size}
    if out is not None:
        from privot.cli.printing.charts import draw_slices, draw_transport

        if method == "sliced":
            draw_slices(x, y, found, slices, out)
        else:
            draw_transport(x, y, found.plan, out)
    used = {"a": len(x), "b": len(y)}
    answer = {
        "method": method,
        "value": float(found.value),
        "interval": [interval.low, interval.high],
        "interval_of": interval.meaning,
        **null,
        "records": sizes,
        "used": used,
        "dimension": x.shape[1],
        "seed": seed,
        "privacy": NO_PRIVACY,
        "plot": None if out is None else str(out),
    }
    if as_json:
        print_json(answer)
    else:
        _say(answer, p)


def _mean_square(x: Any, y: Any) -> float:
    """The mean squared distance between the first records of both: what a regularisation is measured by."""
    from scipy.spatial.distance import cdist

    from privot.errors import DataError

    mean = float(cdist(x[:300], y[:300], "sqeuclidean").mean())
    if not mean < float("inf"):
        raise DataError("The squared distances between these records are too large: divide all of them by one number.")
    return mean or 1.0


def _say(answer: dict[str, Any], p: float) -> None:
    what = {"exact": f"W_{p:g}", "sliced": f"sliced W_{p:g}", "sinkhorn": "regularised transport cost"}
    (low, high), sizes, used = answer["interval"], answer["records"], answer["used"]
    facts = [
        (what[answer["method"]], number(answer["value"], 6)),
        ("interval", f"{number(low, 5)} to {number(high, 5)}: {answer['interval_of']}"),
        (
            "records",
            f"{sizes['a']} and {sizes['b']}, {used['a']} and {used['b']} used, {answer['dimension']} dimensions",
        ),
        ("privacy", answer["privacy"]),
    ]
    if answer["null_level"] is not None:
        size, here = answer["null_records"], number(answer["value_at_null_records"], 5)
        shown = f"{number(answer['null_level'], 5)} for {size} records a side of one distribution; of A and B {here}"
        facts.insert(2, ("null level", shown))
    print_facts(facts)
