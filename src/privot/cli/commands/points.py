"""`privot points A`: scores of one's own records against a validation set, at home: no vault, nothing sent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.commands.compare import NO_PRIVACY
from privot.cli.commands.value import Trust, labelled_records, read_sketches, vouched
from privot.cli.parsing.options import AsJson, Classes, Shape
from privot.cli.printing.output import number, print_facts, print_json, print_table

if TYPE_CHECKING:
    from privot.data import StatedFacts
    from privot.federation import Sketch
    from privot.mechanisms import SketchDesign
    from privot.valuation import Scores
    from privot.valuation.labelled_records import Labelled

KEEP = "private, do not publish: scores are about A's own confidential records, and nothing of A was sent anywhere"


def points(
    data: Annotated[
        str, typer.Argument(metavar="A", help="Your own labelled records: a file (.npz, .csv, IDX …), images by class.")
    ],
    validation: Annotated[
        str, typer.Option(help="A labelled sketch that the validation side released, or its records if you hold them.")
    ],
    prototypes: Annotated[
        str | None, typer.Option(help="Of a sketch: the PUBLIC data it was built around, as its maker said it.")
    ] = None,
    span: Annotated[
        tuple[float, float] | None, typer.Option("--range", help="Of a sketch: the range of columns its maker said.")
    ] = None,
    radius: Annotated[float | None, typer.Option(help="Of a sketch: the radius its maker said.")] = None,
    trust: Trust = None,
    top: Annotated[int, typer.Option(min=1, help="How many of the worst records are shown.")] = 10,
    most: Annotated[int, typer.Option(min=2, help="Validation records used; more are sampled down.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of that sample; recorded.")] = 0,
    classes: Classes = None,
    shape: Shape = None,
    out: Annotated[
        Path | None, typer.Option(help="A new .csv file: row (from 0), label, score and rank of all.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Where to draw the scores.")] = None,
    as_json: AsJson = False,
) -> None:
    """Score your own records against a validation set, at home: high is harmful. Nothing about A leaves.

    A server cannot do this for you: (ε, δ)-differential privacy lets it find bad records at a rate of at most
    e^ε times that of false alarms, plus δ.

    Example: privot points a.npz --validation v.sketch --prototypes public.npy --out scores.csv
    """
    from privot.cli import sketch_files
    from privot.cli.records import stated
    from privot.errors import UsageError
    from privot.transport.slice_directions import check_seed
    from privot.valuation import score_by_records, score_by_sketch

    check_seed(seed)
    _check_new(out)
    if plot is not None:
        from privot.cli.printing.charts import check_ending

        check_ending(plot)
    said, facts = sum(given is not None for given in (prototypes, span, radius)), stated(classes, shape)
    answer: dict[str, Any]
    # with what only a sketch needs, whatever else is named is a broken one, and is told so
    if sketch_files.is_sketch(validation) or said or trust:
        if said != 1:
            raise UsageError(
                "Say what the sketch was made around, as its maker said it: --prototypes FILE, --range LOW HIGH or "
                "--radius NUMBER, and only one."
            )
        (read,), trusted = read_sketches([validation], trust)
        own = labelled_records(data, "A", facts)
        found = score_by_sketch(own, read, _design(read, own.x.shape[1], prototypes, span, radius, facts))
        answer = {
            "validation": {"kind": "sketch", "records": read.public["records"], "used": None},
            "seen": None if found.seen is None else found.seen.tolist(),
            "guarantee": sketch_files.summary(read.guarantee),
            "signer": read.signer,
            "trusted": trusted,
            "privacy": f"of the validation side: {sketch_files.in_words(read.guarantee)}; scoring costs nothing more",
        }
    else:
        whole, own = labelled_records(validation, "V", facts), labelled_records(data, "A", facts)
        own.check_beside(whole)
        used = _some(whole, most, seed)
        found = score_by_records(own, used)
        answer = {
            "validation": {"kind": "records", "records": len(whole.x), "used": len(used.x)},
            "seen": None,
            "guarantee": None,
            "signer": None,
            "trusted": False,
            "privacy": NO_PRIVACY,
        }
    worst = [{"row": i, "label": int(found.labels[i]), "score": float(found.score[i])} for i in found.worst(top)]
    if plot is not None:
        from privot.cli.printing.charts import draw_scores

        draw_scores(found.score, plot)
        plot.chmod(0o600)
    # last, because it is never written twice
    if out is not None:
        _write_scores(found, out)
    answer = {
        "records": len(own.x),
        "dimension": own.x.shape[1],
        "score": "calibrated gradient: high is harmful",
        "worst": worst,
        **answer,
        "scores": KEEP,
        "seed": seed,
        "out": None if out is None else str(out),
        "plot": None if plot is None else str(plot),
    }
    if as_json:
        print_json(answer)
        return
    print_table(
        ["rank", "row", "label", "score"],
        [[str(k + 1), str(w["row"]), str(w["label"]), number(w["score"])] for k, w in enumerate(worst)],
    )
    against = answer["validation"]
    lines = [("scored", f"{answer['records']} records, {answer['dimension']} dimensions; a high score is harmful")]
    if against["kind"] == "records":
        lines.append(("against", f"{against['records']} validation records, {against['used']} used"))
    else:
        lines.append(("against", f"a sketch; {_seen(answer['seen'])}"))
        lines.append(("signed by", f"{str(answer['signer'])[:16]}…, {vouched(bool(answer['trusted']))}"))
    lines += [("privacy", str(answer["privacy"])), ("scores", KEEP)]
    if out is not None:
        lines.append(("written to", f"{out}: row (from 0), label, score, rank"))
    print_facts(lines)


def _some(whole: Labelled, most: int, seed: int) -> Labelled:
    """About so many validation records, of every class at least one, each class in proportion."""
    import numpy as np

    from privot.valuation.labelled_records import Labelled

    if len(whole.x) <= most:
        return whole
    generator = np.random.default_rng(seed)
    kept = []
    for name in np.unique(whole.y):
        rows = np.flatnonzero(whole.y == name)
        kept.append(generator.choice(rows, max(1, round(most * len(rows) / len(whole.y))), replace=False))
    rows = np.sort(np.concatenate(kept))
    return Labelled(whole.x[rows], whole.y[rows], whole.name)


def _design(
    sketch: Sketch,
    dim: int,
    prototypes: str | None,
    span: tuple[float, float] | None,
    radius: float | None,
    facts: StatedFacts,
) -> SketchDesign:
    """The design that the maker of a sketch used, made again from what is public."""
    from privot.cli.records import read_records
    from privot.errors import DataError
    from privot.mechanisms import SketchDesign

    seed, classes = sketch.public["seed"], sketch.public["classes"]
    if sketch.public["dim"] != dim:
        raise DataError(f"A has {dim} columns, the sketch is of {sketch.public['dim']}: they must lie in one space.")
    if prototypes is not None:
        made = SketchDesign.around(read_records(prototypes, facts, labels=False).x, seed=seed)
    elif span is not None:
        made = SketchDesign.box(dim, *span, seed=seed)
    else:
        assert radius is not None
        made = SketchDesign.plain(dim, radius, seed=seed)
    return made.labelled(classes)


def _seen(seen: list[float]) -> str:
    """How far the noise lets the sketch's class means be believed; no test of a difference, which chance moves too."""
    if not any(seen):
        return "its noise hides how your classes differ from theirs, so your own class means are what you are held to"
    moved = 100.0 * sum(seen) / len(seen)
    return f"your class means are moved {moved:.0f} % of the way to its noisy ones (mean over classes)"


def _check_new(out: Path | None) -> None:
    from privot.errors import UsageError

    if out is None:
        return
    if out.suffix.lower() != ".csv":
        raise UsageError(f"Scores are written as .csv, not as {out.suffix or 'a file without ending'!r}.")
    if out.exists():
        raise UsageError(f"{out} exists already: name a file that does not.")
    if not out.parent.is_dir():
        raise UsageError(f"There is no folder {out.parent}: make it first.")


def _write_scores(found: Scores, out: Path) -> None:
    """One line a record, in their order; readable by its owner alone."""
    import numpy as np

    from privot.common.files import write_whole
    from privot.errors import DataError, UsageError

    rank = np.empty(len(found.score), dtype=np.int64)
    rank[found.worst(len(rank))] = np.arange(1, len(rank) + 1)
    lines = [f"{i},{found.labels[i]},{float(found.score[i])!r},{rank[i]}\n" for i in range(len(rank))]
    try:
        write_whole(out, ("row,label,score,rank\n" + "".join(lines)).encode(), fresh=True)
    except FileExistsError:
        raise UsageError(f"{out} exists already: name a file that does not.") from None
    except OSError as error:
        raise DataError(f"The scores cannot be written to {out} ({error.strerror}).") from None
