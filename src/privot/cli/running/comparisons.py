"""Ways in which `privot compare` measures without paying: on records, by a published protocol, between sketches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.cli.printing.guarantee_words import NO_PRIVACY
from privot.cli.printing.progress import Tell, silent
from privot.cli.records import load_points, same_space

if TYPE_CHECKING:
    from privot.data.stated_facts import StatedFacts
    from privot.errors import PrivotError
    from privot.federation import Sketch
    from privot.federation.sketches.sketch_comparison import SketchComparison

RECORD_METHODS = ("exact", "sinkhorn", "sliced")
PROTOCOLS = ("fedwad", "triangle")


@dataclass(frozen=True)
class Sides:
    """The two sides of a comparison, as they were typed, and what is stated about both."""

    first: str
    second: str
    words: Path | None
    labels: bool
    facts: StatedFacts

    def points(self, refusal: PrivotError, can_count_labels: bool = True) -> tuple[Any, Any]:
        """The points of both sides, labels counted where that was asked; `refusal` is raised where that cannot be."""
        import numpy as np

        sets = [load_points(s, self.words, self.facts, labels=self.labels) for s in (self.first, self.second)]
        x, y = (np.asarray(found.x, dtype=np.float64) for found in sets)
        same_space(x, y)
        if self.labels:
            if not can_count_labels or any(found.y is None for found in sets):
                raise refusal
            from privot.transport._otdd import augmented_pair

            x, y = (np.asarray(side) for side in augmented_pair(x, sets[0].y, y, sets[1].y))
        return x, y


@dataclass(frozen=True)
class TriangleOptions:
    """The options that only TriangleWad has, as they were typed."""

    factor: str | None = None
    secret: bool = False
    federated: bool = False

    def checked(self, method: str, defence: str) -> dict[str, Any]:
        """What `triangle` takes; empty for another method, which none of these options may be given to."""
        from privot.errors import UsageError

        if method != "triangle":
            given = {"factor": self.factor is not None, "secret": self.secret, "federated": self.federated}
            for option in (name for name, is_given in given.items() if is_given):
                raise UsageError(f"--set {option} works with --method triangle only, and this is {method}.")
            return {}
        if self.secret and defence != "random":
            raise UsageError("--set secret=yes means that each side draws its own points: add --set defence=random.")
        return {"factor": self.factor or "corrected", "shared": not self.secret, "federated": self.federated}


def chosen_method(first: str, second: str) -> str:
    """The method where none is named: sketch for two sketches, sliced for two data sets."""
    from privot.cli.sketch_files import is_sketch
    from privot.errors import DataError

    found = [is_sketch(source) for source in (first, second)]
    if any(found) and not all(found):
        other = (first, second)[found.index(False)]
        raise DataError(f"{other!r} is no sketch: a sketch is compared with another sketch of the same design.")
    return "sketch" if all(found) else "sliced"


def sampled(x: Any, y: Any, most: int, seed: int) -> tuple[Any, Any]:
    """At most `most` records per side."""
    import numpy as np

    generator = np.random.default_rng(seed)
    x, y = (z if len(z) <= most else z[generator.choice(len(z), most, replace=False)] for z in (x, y))
    return x, y


def compare_records(
    sides: Sides,
    method: str,
    *,
    p: float,
    slices: int,
    reg: float,
    most: int,
    seed: int,
    out: Path | None,
    tell: Tell = silent,
) -> dict[str, Any]:
    """An exact answer about the records, with an interval, and a chart where one is asked for; no privacy."""
    from privot.errors import UsageError
    from privot.transport import sliced
    from privot.transport._intervals import over_slices

    if method not in RECORD_METHODS:
        known = ", ".join((*RECORD_METHODS, "dp-swd", "sketch", *PROTOCOLS))
        raise UsageError(f"Unknown method {method!r}: use one of {known}.")
    if most < 2 or not 0.0 < reg < float("inf"):
        raise UsageError("--most must be at least 2, and --reg a number greater than 0.")
    wrong = "--labels works with exact, fedwad, triangle or labelled sketches, and needs labels in both data sets."
    x, y = sides.points(UsageError(wrong), can_count_labels=method == "exact")
    sizes = {"a": len(x), "b": len(y)}
    null: dict[str, Any] = {"null_level": None}
    if method == "sliced":
        found = sliced(x, y, p=p, slices=slices, seed=seed)
        interval = over_slices(found.details["costs"], p, seed)
    else:
        x, y = sampled(x, y, most, seed)
        found, drawn = _over_records(x, y, method, p, reg, seed, tell)
        interval = drawn.interval
        null = {"null_level": drawn.null_level, "value_at_null_records": drawn.at_size, "null_records": drawn.size}
    if out is not None:
        from privot.cli.printing.charts import draw_slices, draw_transport

        draw_slices(x, y, found, slices, out) if method == "sliced" else draw_transport(x, y, found.plan, out)
    return {
        "method": method,
        "value": float(found.value),
        "interval": [interval.low, interval.high],
        "interval_of": interval.meaning,
        **null,
        "records": sizes,
        "used": {"a": len(x), "b": len(y)},
        "dimension": x.shape[1],
        "seed": seed,
        "privacy": NO_PRIVACY,
        "plot": None if out is None else str(out),
    }


def _over_records(x: Any, y: Any, method: str, p: float, reg: float, seed: int, tell: Tell) -> tuple[Any, Any]:
    """The distance, and what resampling the records makes of it."""
    from privot.transport import exact, sinkhorn
    from privot.transport._intervals import DRAWS, over_records

    strength = reg * _mean_square(x, y) if method == "sinkhorn" else 0.0

    def distance(a: Any, b: Any) -> Any:
        return exact(a, b, p=p) if method == "exact" else sinkhorn(a, b, strength, tol=1e-4)

    tell("all records", 0, 0)
    found = distance(x, y)
    asked = 0

    def counted(a: Any, b: Any) -> float:
        nonlocal asked
        asked += 1
        # each draw compares two samples, and two of both pooled
        tell("resampling", asked, 2 * DRAWS)
        return float(distance(a, b).value)

    return found, over_records(counted, x, y, float(found.value), seed)


def _mean_square(x: Any, y: Any) -> float:
    """The mean squared distance between the first records of both: the unit of the regularisation."""
    from scipy.spatial.distance import cdist

    from privot.errors import DataError

    mean = float(cdist(x[:300], y[:300], "sqeuclidean").mean())
    if not mean < float("inf"):
        raise DataError("The squared distances between these records are too large: divide all of them by one number.")
    return mean or 1.0


def compare_by_protocol(
    sides: Sides,
    method: str,
    *,
    p: float,
    rounds: int,
    share: str,
    defence: str,
    triangle_options: TriangleOptions,
    most: int,
    seed: int,
    allow_unproven: bool,
) -> dict[str, Any]:
    """FedWad or TriangleWad on two files at hand: what the exchange would give; it protects no record."""
    from privot.errors import DataError, UnprovenError, UsageError
    from privot.federation import fedwad, triangle

    if not allow_unproven:
        raise UnprovenError(f"{method} protects no record: add --allow-unproven to run it anyway.")
    try:
        t: Any = share if share in ("", "random") else float(share)
    except ValueError:
        raise UsageError(f"--t must be a number or random, got {share!r}.") from None
    if most < 2:
        raise UsageError(f"--most must be at least 2, got {most}.")
    extra = triangle_options.checked(method, defence)
    x, y = sampled(*sides.points(DataError("--labels needs labels in both data sets.")), most, seed)
    if method == "fedwad":
        found = fedwad(x, y, rounds, p, t=t or "random", seed=seed)
    elif t == "random":
        raise UsageError("--t random works with fedwad only: triangle has one round, so give --t a number.")
    else:
        found = triangle(x, y, t or 0.5, defence, p, rounds=rounds, seed=seed, **extra)
    return {
        "method": method,
        "value": found.value,
        "rounds": found.rounds,
        "bytes": found.bytes_sent,
        "used": {"a": len(x), "b": len(y)},
        "seed": seed,
        **extra,
        "standing": "unproven",
        "privacy": found.privacy,
    }


def compare_sketch_files(
    first: str, second: str, trust: list[Path] | None
) -> tuple[SketchComparison, list[Sketch], bool]:
    """Check both signatures and compare; the sketches, and whether trusted keys signed them, come along."""
    from privot.cli.sketch_files import read_sketches
    from privot.federation import compare_sketches

    sketches, trusted = read_sketches([first, second], trust)
    return compare_sketches(*sketches), sketches, trusted
