"""What the report of a stand-in shows: pictures of both domains, how labels changed, what was private and what not.

Two files in the folder of a job hold it, both made of the public source and of what follows from the release: a few
records as they were shown (`views.safetensors`), and the labels of stand-in records before and after (`rounds.json`).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from privot.errors import DataError
from privot.guarantee import Adjacency, Guarantee
from privot.jobs.released_files import read_json, write_json
from privot.jobs.tensor_files import read_tensors, write_tensors

VIEWS, ROUNDS = "views.safetensors", "rounds.json"
SHOWN = 30
"""Records of each kind."""
_KINDS = {
    "source": "The source, as it is public",
    "transformed": "The same records through the transformation that was fitted to the release",
    "stand_in": "The stand-in, drawn from the generator",
}
_MAX_CLASSES = 50
"""More would not be legible."""


@dataclass(frozen=True)
class Figure:
    """A picture (PNG, may be empty) with a title and a sentence."""

    title: str
    words: str
    picture: bytes = b""


def write_views(folder: Path, views: Mapping[str, Tensor]) -> None:
    """Keep the shown records, by kind; rows in [0, 1] of shape (records, columns)."""
    write_tensors(folder / VIEWS, {name: views[name].cpu() for name in _KINDS if name in views}, {"kind": "views"})


def write_rounds(folder: Path, first: Tensor, last: Tensor, classes: int, used: bool) -> None:
    """Keep how often stand-in records of class i, by the first network, are of class j by the committee."""
    counts = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(counts, (first.cpu().numpy(), last.cpu().numpy()), 1)
    write_json(folder / ROUNDS, {"confusion": counts.tolist(), "learned_from_stand_in": used})


def figures_of(folder: Path, shape: Sequence[int] | None) -> list[Figure]:
    """The figures of what a job left in `folder`; none for other methods."""
    found: list[Figure] = []
    if shape is not None and (folder / VIEWS).exists():
        from privot.synthesis.output.figures import draw_grid

        held = read_tensors(folder / VIEWS)[0]
        for name, words in _KINDS.items():
            if name in held:
                rows = held[name].float().numpy()
                if rows.ndim != 2 or rows.shape[1] != int(np.prod(shape)) or not np.isfinite(rows).all():
                    raise DataError(f"{folder / VIEWS} does not fit the model: remove it.")
                found.append(Figure(words, "", draw_grid(rows[:SHOWN], shape)))
    if (folder / ROUNDS).exists():
        found.append(_confusion(folder))
    return found


def agreement(counts: NDArray[np.int64]) -> float:
    """The share of records that keep their label."""
    return float(np.trace(counts) / max(1, counts.sum()))


def _confusion(folder: Path) -> Figure:
    held = read_json(folder / ROUNDS)
    try:
        counts, used = np.array(held["confusion"], dtype=np.int64), held["learned_from_stand_in"] is True
    except (KeyError, TypeError, ValueError, OverflowError):
        counts, used = np.zeros(0, dtype=np.int64), False
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or not counts.size or (counts < 0).any():
        raise DataError(f"{folder / ROUNDS} does not hold a square table of counts: remove it.")
    how = "learned from the stand-in" if used else "did not learn from the stand-in, which failed its check"
    words = (
        f"{100 * agreement(counts):.1f} % of {counts.sum()} stand-in records keep the label that the first network, "
        f"trained on the source alone, gave them. The committee {how}. No label of the target is known here."
    )
    return Figure(
        "Labels of the stand-in before and after", words, _heat(counts) if len(counts) <= _MAX_CLASSES else b""
    )


def _heat(counts: NDArray[np.int64]) -> bytes:
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(4.6, 4.0), layout="constrained")
    axes = canvas.subplots()
    # within a row: of every hundred records that the first network put there
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    if len(counts) <= 12:
        for (i, j), share in np.ndenumerate(shares):
            if share >= 0.005:
                colour = "white" if share > 0.5 else "black"
                axes.text(j, i, f"{100 * share:.0f}", ha="center", va="center", fontsize=7, color=colour)
    axes.set_xlabel("class by the committee")
    axes.set_ylabel("class by the first network")
    out = io.BytesIO()
    canvas.savefig(out, format="png", dpi=120)
    return out.getvalue()


def privacy_of_parts(
    guarantee: Guarantee | None, releases: int, follows: str, evaluated: bool
) -> list[tuple[str, str]]:
    """(part, what protects it) of all that an adaptation touches; `follows` says what is made of its releases."""
    if guarantee is None:
        return [("the target", "not looked at"), ("the source", "public: not protected")]
    once = "one release" if releases == 1 else "the releases"
    rows = [("the target's records", f"private: {once} of them, {guarantee.stated()}")]
    rows.append(
        (follows, "follow from the release and the source: they cost nothing more, however often they are used")
    )
    counted = guarantee.adjacency is Adjacency.REPLACE_ONE
    stated = "the number of target records, columns and ranges" if counted else "columns and ranges of the target"
    rows.append((stated, "public: stated, not protected"))
    rows.append(("the source and its labels", "public: not protected"))
    if evaluated:
        rows.append(("the score on held-out target records", "not private: it was computed from those records"))
    return rows
