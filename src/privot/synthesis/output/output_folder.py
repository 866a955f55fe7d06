"""The output folder: what sampling needs, synthetic data, pictures and a report; it sees what was released only."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privot.errors import DataError, UsageError
from privot.jobs.released_files import write_bytes
from privot.jobs.spending import write_spent
from privot.report.image_grid import draw_grid
from privot.synthesis.fitted import FittedSynthesizer
from privot.synthesis.output.html_report import write_report
from privot.synthesis.output.image_folder import check_image_folder, write_image_folder
from privot.synthesis.tabular import table_folder as tables
from privot.synthesis.tabular.related import related_folder as related
from privot.synthesis.tabular.restricted_rows import restricted_rows
from privot.tables.related_codec import RelatedCodec
from privot.transport.slice_directions import fresh_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

SYNTHETIC = "synthetic.npz"
_JUDGED = 10_000
"""Synthetic rows that links of columns are judged by, at least."""
_TRIED = 10
"""Samples for every image of the grid where a labeller says what they are."""


def write_samples(path: Path, x: Any, y: Any, shape: Any, class_names: Any = None) -> None:
    """Samples as `.npz` (x, y and class names where there are some), images in their shape; or `.csv` of numbers."""
    x = np.asarray(x, dtype=np.float32)
    if path.suffix == ".npz":
        arrays = {"x": x.reshape(len(x), *shape) if shape else x}
        if y is not None:
            arrays["y"] = np.asarray(y)
            if class_names is not None:
                arrays["class_names"] = np.asarray(class_names, dtype=np.str_)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        write_bytes(path, buffer.getvalue())
    elif path.suffix == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, x.reshape(len(x), *shape) if shape else x)
        write_bytes(path, buffer.getvalue())
    elif path.suffix == ".csv":
        names = [f"x{i}" for i in range(x.shape[1])] + ([] if y is None else ["y"])
        lines = [",".join(names)]
        for i, row in enumerate(x):
            lines.append(",".join([f"{v:.7g}" for v in row] + ([] if y is None else [str(int(y[i]))])))
        write_bytes(path, ("\n".join(lines) + "\n").encode())
    else:
        raise DataError(f"Samples are written to .npz, .npy or .csv, or images to a new folder, not to {path.name!r}.")


def write_drawn(
    synthesizer: FittedSynthesizer,
    path: Path,
    n: int,
    seed: int | None,
    spreadsheet_safe: bool = False,
    progress: Callable[[int, int], None] | None = None,
    where: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    joined: float = 0.0,
) -> dict[str, int] | None:
    """`n` samples, as `path`'s ending says: arrays, or the columns and types of a table (see `write_table`).

    Without an ending it is a new folder of PNG files, by class name; `progress` hears (images written, in all).
    `where` states conditions on the rows of a table; `joined` is the share of images that are joined of two. Related
    tables become a new folder with a file for each, of the endings in `kinds` (.csv unless given); the number of rows
    of each is returned.
    """
    if spreadsheet_safe and synthesizer.codec is None:
        raise UsageError("Only tables with a schema hold text that a spreadsheet could read as a formula.")
    if joined and synthesizer.codec is not None:
        raise UsageError("Rows of tables are not joined of two, as images may be: leave out --joined.")
    images = synthesizer.codec is None and not path.suffix
    if images:
        check_image_folder(path, synthesizer.shape)
    if isinstance(synthesizer.codec, RelatedCodec):
        endings = dict.fromkeys(synthesizer.codec.names, related.ENDINGS[0]) | dict(kinds or {})
        made = synthesizer.sample(n, seed=seed, where=where or None, frame="table")
        return related.write_tables(path, made, synthesizer.codec, endings, spreadsheet_safe)
    frame = None if synthesizer.codec is None else "table"
    x, y = synthesizer.sample(n, seed=seed, where=where or None, frame=frame, joined=joined)
    if synthesizer.codec is not None:
        tables.write_drawn(path, x, synthesizer.codec, spreadsheet_safe)
    elif images:
        span = (synthesizer.low, synthesizer.high)
        write_image_folder(path, x, y, synthesizer.shape, *span, synthesizer.class_names, progress)
    else:
        write_samples(path, x, y, synthesizer.shape, synthesizer.class_names)
    return None


def write_folder(
    synthesizer: FittedSynthesizer,
    folder: Path,
    samples: int,
    seed: int | None,
    kind: str | Mapping[str, str] | None = None,
    spent: Mapping[str, Any] | None = None,
    spreadsheet_safe: bool = False,
) -> dict[str, int] | None:
    """Everything that `privot synth` leaves behind; `kind` is the ending of a table's file, .csv unless given.

    Of related tables it gives the ending by name, and the number of rows of each is returned. `spent` is what the
    ledger holds (`spending`).
    """
    rows = None
    if isinstance(synthesizer.codec, RelatedCodec):
        kinds = kind if isinstance(kind, Mapping) else None
        # the pictures are of the same draw
        seed = fresh_seed() if seed is None else seed
        rows = write_drawn(synthesizer, folder, samples, seed, spreadsheet_safe, kinds=kinds)
        related.write_figures(folder, synthesizer.model_, samples, seed)
    elif synthesizer.codec is not None:
        made, _ = synthesizer.sample(samples, seed=seed, frame="table")
        tables.write_drawn(folder / f"{tables.SYNTHETIC}{kind or '.csv'}", made, synthesizer.codec, spreadsheet_safe)
        # pictures of the rows that are handed on, and of no others
        rows_made, labels = synthesizer.codec.encode(made, compact=True)
        judged = rows_made
        if samples < _JUDGED:
            judged, _ = restricted_rows(synthesizer.model_, _JUDGED, 0 if seed is None else seed)
        drowned = tables.drowned_of(synthesizer.design_, synthesizer.release_, judged)
        tables.write_figures(folder, rows_made, labels, synthesizer.codec, drowned)
    else:
        write_drawn(synthesizer, folder / SYNTHETIC, samples, seed)
        _write_grid(synthesizer, folder, seed)
    synthesizer.save(folder)
    write_spent(folder, spent)
    write_report(folder)
    return rows


def _write_grid(synthesizer: FittedSynthesizer, folder: Path, seed: int | None) -> None:
    if synthesizer.shape is None:
        return
    classes = synthesizer.generator_.classes
    wanted = np.repeat(np.arange(classes), 10) if classes > 1 else np.zeros(100, dtype=np.int64)
    images = _of_each_class(synthesizer, wanted, seed)
    unit = (images - np.asarray(synthesizer.low)) / (np.asarray(synthesizer.high) - np.asarray(synthesizer.low))
    write_bytes(folder / "grid.png", draw_grid(unit, synthesizer.shape))


def _of_each_class(synthesizer: FittedSynthesizer, wanted: NDArray[np.int64], seed: int | None) -> NDArray[Any]:
    """Samples of the classes `wanted`; blank ones where a labeller finds too few, for all is paid by now."""
    if synthesizer.generator_.shows_class or synthesizer.labeller_ is None:
        images: NDArray[Any] = synthesizer.sample(len(wanted), labels=wanted, seed=seed)[0]
        return images
    x, y = synthesizer.sample(_TRIED * len(wanted), seed=seed)
    out = np.empty((len(wanted), x.shape[1]), dtype=x.dtype)
    out[:] = np.asarray(synthesizer.high)
    for c in np.unique(wanted):
        found, places = x[y == c], np.flatnonzero(wanted == c)
        k = min(len(found), len(places))
        out[places[:k]] = found[:k]
    return out
