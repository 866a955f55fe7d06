"""Scores of one's own records for `privot points`, against a sketch or records; nothing of them is sent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.cli.printing.guarantee_words import NO_PRIVACY, in_words, summary
from privot.cli.records import labelled_records, read_records
from privot.cli.sketch_files import check_one_design, public_design, read_sketches

if TYPE_CHECKING:
    from privot.data.stated_facts import StatedFacts
    from privot.federation import Sketch
    from privot.mechanisms import SketchDesign
    from privot.valuation.labelled_records import Labelled
    from privot.valuation.record_scores import Scores


MEANINGS = {
    "transport": "calibrated gradient: high is harmful",
    "labels": "−ln p(the label is right | record and label): high is a label that is probably wrong",
}
"""What a score is, by method."""


def check_method(method: str) -> None:
    """Refuse a method that records cannot answer."""
    from privot.errors import UsageError

    if method != "transport":
        raise UsageError(f"--method {method} needs a labelled sketch as --validation: make one with privot sketch.")


def score_against_sketch(
    data: str,
    validation: str,
    facts: StatedFacts,
    trust: list[Path] | None,
    prototypes: str | None,
    value_range: str | None,
    radius: float | None,
    method: str = "transport",
) -> tuple[Scores, int, dict[str, Any]]:
    """The scores, the number of columns, and what is answered about the sketch."""
    from privot.valuation import score_by_sketch, score_labels_by_sketch

    span = check_one_design(prototypes, value_range, radius)
    (read,), trusted = read_sketches([validation], trust)
    own = labelled_records(data, "A", facts)
    dim = own.x.shape[1]
    score = score_labels_by_sketch if method == "labels" else score_by_sketch
    found = score(own, read, _design(read, dim, prototypes, span, radius, facts))
    return found, dim, {
        "validation": {"kind": "sketch", "records": read.public["records"], "used": None},
        "seen": None if found.seen is None else found.seen.tolist(),
        "meanings": None if found.meanings is None else found.meanings.tolist(),
        "guarantee": summary(read.guarantee),
        "signer": read.signer,
        "trusted": trusted,
        "privacy": f"of the validation side: {in_words(read.guarantee)}; scoring costs nothing more",
    }  # fmt: skip


def score_against_records(
    data: str, validation: str, facts: StatedFacts, most: int, seed: int
) -> tuple[Scores, int, dict[str, Any]]:
    """The scores, the number of columns, and what is answered about the validation records."""
    from privot.valuation import score_by_records

    whole, own = labelled_records(validation, "V", facts), labelled_records(data, "A", facts)
    own.check_beside(whole)
    used = sample_by_class(whole, most, seed)
    return score_by_records(own, used), own.x.shape[1], {
        "validation": {"kind": "records", "records": len(whole.x), "used": len(used.x)},
        "seen": None,
        "meanings": None,
        "guarantee": None,
        "signer": None,
        "trusted": False,
        "privacy": NO_PRIVACY,
    }  # fmt: skip


def sample_by_class(whole: Labelled, most: int, seed: int) -> Labelled:
    """About `most` records, at least one of every class, each class in proportion."""
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
    from privot.errors import DataError

    if sketch.public["dim"] != dim:
        raise DataError(
            f"A has {dim} columns, and the sketch is of {sketch.public['dim']}: both need the same columns."
        )
    around = None if prototypes is None else read_records(prototypes, facts, labels=False).x
    return public_design(dim, around, span, radius, sketch.public["seed"]).labelled(sketch.public["classes"])


def check_score_file(out: Path | None) -> None:
    """Refuse a file for the scores that exists, has no folder, or is no .csv file."""
    from privot.common.files import is_taken
    from privot.errors import UsageError

    if out is None:
        return
    if out.suffix.lower() != ".csv":
        raise UsageError(f"--out must be a .csv file, got {out.suffix or 'a name without ending'!r}.")
    if is_taken(out):
        raise UsageError(f"{out} exists already: choose another file.")
    if not out.parent.is_dir():
        raise UsageError(f"There is no folder {out.parent}: create it first.")


def write_scores(found: Scores, out: Path) -> None:
    """One line per record, in their order; readable by its owner alone."""
    import numpy as np

    from privot.common.files import write_whole
    from privot.errors import DataError, UsageError

    rank = np.empty(len(found.score), dtype=np.int64)
    rank[found.worst(len(rank))] = np.arange(1, len(rank) + 1)
    lines = [f"{i},{found.labels[i]},{float(found.score[i])!r},{rank[i]}\n" for i in range(len(rank))]
    try:
        write_whole(out, ("row,label,score,rank\n" + "".join(lines)).encode(), fresh=True)
    except FileExistsError:
        raise UsageError(f"{out} exists already: choose another file.") from None
    except OSError as error:
        raise DataError(f"The scores cannot be written to {out} ({error.strerror}).") from None
