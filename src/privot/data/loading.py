"""Loads data sets by name or from files of any kind, and checks that they can be used; it hands out raw data.

What it loads goes into a vault, so a record's row depends on that record and on what is stated alone, never on another
record (docs/concepts/readers.md). No error here ever repeats a value from the file: a message names a line, a
column or a shape, never what stands there. Nothing is unpickled.
"""

from __future__ import annotations

import csv
import math
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privot.common.arguments import check_file_name
from privot.data.idx import is_idx, read_idx
from privot.data.image_folders import read_images
from privot.data.image_units import PATH_COLUMN, read_image_units
from privot.data.matlab import is_matlab, read_matlab
from privot.data.stated_facts import StatedFacts
from privot.errors import DataError, UsageError
from privot.opening.archives import array_names, read_arrays
from privot.opening.csv_lines import csv_rows
from privot.opening.limits import Meter

LABEL_NAMES = ("label", "target", "y")
"""A column of one of these names (in any case) holds the labels."""
_READABLE = "digits, .npz, .npy, .csv, .csv.gz, .mat, an IDX file or a folder of images by class"


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Records `x` of shape (records, dimension) and, where there are any, labels `y` of shape (records,).

    `names` are those of the classes 0, 1, …, and `columns` those of the columns of `x`, where the data names them.
    `units` say whose each record is, where a unit was asked for.
    """

    x: NDArray[Any]
    y: NDArray[Any] | None = None
    names: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    units: Sequence[Any] | NDArray[Any] | None = None

    def __repr__(self) -> str:
        labels = "no labels" if self.y is None else "labels"
        return f"Dataset({self.x.shape[0]} records, {self.x.shape[1]} columns, {labels})"


def load(
    source: str | Path,
    part: Literal["train", "test"] = "train",
    *,
    classes: int | Sequence[str] | None = None,
    shape: Sequence[int] | None = None,
    unit: str | None = None,
    unit_file: str | Path | None = None,
) -> Dataset:
    """The data set called `source`, or the one in the file of that name.

    `digits` is built in (1797 images of 8 × 8, pixels scaled to [0, 1]). A `.npz` file holds `x` and perhaps
    `y`, or `x_train` and perhaps `y_train` (`x_test` and `y_test` for the `part` "test"); a `.npy` file holds x; a
    `.csv` or `.csv.gz` file holds a line of names and numbers below it, and the column named label, target or y
    becomes y. A `.mat` file (MATLAB, versions 5 to 7) holds the records in a variable x, fts, feas, fea or features and
    the labels, counted from 1, in y, labels, label or gnd: label 1 is class 0.
    An IDX file (`train-images-idx3-ubyte`, also `.gz`) has its labels in the file beside it. A folder holds
    one sub-folder per class, with PNG or JPEG images of one size and mode; pixels stay as they are, from 0 to 255.
    Records with more than one axis (images) are flattened to rows.

    The rest is public and stated, never read off records. `classes` are the names of a folder's classes in the order
    of their numbers (N stands for the names 0 … N − 1), or the number of classes of any other file; 0 leaves labels
    out. A folder is not read without it: a sub-folder that is not named is refused, a missing one is an empty class.
    `shape` is the shape of one image, (height, width) or (height, width, channels). Without it the images of a folder
    have to agree with each other: state it wherever the records go into a vault. `unit` names the array of a `.npz`
    file that says, by a whole number or a text per record, whose it is; of a folder of images, the column of the CSV
    file `unit_file`, beside the column `file_name` with the paths of the images relative to the folder.

    >>> load("digits", classes=10).x.shape
    (1797, 64)
    >>> load("digits", classes=0).y is None
    True
    """
    stated = StatedFacts(classes, shape)  # type: ignore[arg-type]
    check_file_name(source, "the name of a file, folder or data set")
    path = Path(source)
    is_folder = str(source) != "digits" and path.is_dir()
    if isinstance(stated.classes, tuple) and not is_folder:
        raise UsageError(f"{path.name!r} labels records by numbers: state how many classes there are, not their names.")
    x: NDArray[Any]
    y: NDArray[Any] | None
    columns: tuple[str, ...] | None = None
    units: Sequence[Any] | NDArray[Any] | None = None
    _check_unit(path, is_folder, unit, unit_file)
    if str(source) == "digits":
        x, y = _digits()
    elif not path.exists():
        raise DataError(f"There is no file or data set called {str(source)!r}: give {_READABLE}.")
    elif path.name.lower().endswith((".csv", ".csv.gz")) and not path.is_dir():
        x, y, columns = _read_csv(path)
    elif is_folder:
        owners = None if unit is None or unit_file is None else read_image_units(unit_file, unit)
        x, y, units = read_images(path, stated, owners)
    elif unit is not None:
        x, y, units = _read_numpy(path, part, unit)
    else:
        x, y = _read(path, part)
    if x.ndim > 2:
        x = x.reshape(x.shape[0], math.prod(x.shape[1:]))
    rows = checked_rows(x)
    if stated.shape is not None and math.prod(stated.shape) != rows.shape[1]:
        raise UsageError(
            f"An image of this shape has {math.prod(stated.shape)} values, but a record has "
            f"{rows.shape[1]}: state another shape."
        )
    labels = None if y is None or not stated.labels else checked_labels(y, rows.shape[0], stated.count)
    return Dataset(rows, labels, stated.names if is_folder else None, columns, units)


def _check_unit(path: Path, is_folder: bool, unit: str | None, unit_file: str | Path | None) -> None:
    """Refuse, before anything is read, a unit that data of this kind does not have."""
    if unit_file is not None and (unit is None or not is_folder):
        raise UsageError(
            "A file of units says whose the images of a folder are: name its column as the unit, or leave it out."
        )
    if unit is not None and is_folder and unit_file is None:
        raise UsageError(
            f"{path.name!r} is a folder of images, which does not say whose an image is: give a file of units, a CSV "
            f"file with the columns {PATH_COLUMN} and {unit}."
        )
    if unit is not None and not is_folder and not path.name.lower().endswith(".npz"):
        raise UsageError(
            "A unit is an array of a .npz file, a column beside a folder of images, or a column of a table with a "
            "schema: give one of those."
        )


def _read(path: Path, part: str) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Records and labels as a file of arrays has them."""
    name = path.name.lower()
    if name.endswith((".npz", ".npy")):
        return _read_numpy(path, part)[:2]
    if is_idx(path):
        return read_idx(path)
    if is_matlab(path):
        return read_matlab(path)
    raise DataError(f"{path.name!r} is not of a kind that privot reads: give {_READABLE}.")


def checked_rows(x: Any) -> NDArray[Any]:
    """A copy of `x` of shape (records, dimension), finite: float32 stays, everything else becomes float64."""
    rows = _numbers("The records", x)
    if rows.ndim != 2:
        raise DataError(f"Records must have two axes (records, dimension), got {rows.ndim}: give one row per record.")
    if rows.size == 0:
        raise DataError("There are no records in the data: give at least one row and one column.")
    return rows


def checked_labels(y: Any, records: int, classes: int | None = None) -> NDArray[np.int64]:
    """A copy of `y` as whole numbers, one per record, each from 0 to `classes` − 1 where that is stated.

    A label that is not a whole number below 2⁵³ is refused, whatever the other labels are.
    """
    labels = _numbers("The labels", y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.shape[0] != records:
        raise DataError(f"There must be one label per record: {records} records, labels of shape {labels.shape}.")
    if not (np.all(labels == np.floor(labels)) and np.all(np.abs(labels) < 2.0**53)):
        raise DataError("Some labels are not whole numbers: renumber them, or leave labels out (classes=0).")
    if classes is not None and (labels.min() < 0 or labels.max() >= classes):
        raise DataError(
            f"Some labels are not whole numbers from 0 to {classes - 1}: renumber them, or state more classes."
        )
    return labels.astype(np.int64)


def _numbers(what: str, values: Any) -> NDArray[Any]:
    """`values` copied to a C-contiguous array of finite floats."""
    array: NDArray[Any] | None = None
    if isinstance(values, np.ma.MaskedArray):
        raise DataError(f"{what} are a masked array: fill in or drop what is masked first.")
    try:
        raw = np.asarray(values)
        if raw.dtype.kind in "fiub":
            kept = np.float32 if raw.dtype == np.float32 else np.float64
            # an overflow becomes an infinity, which is refused below
            with np.errstate(over="ignore"):
                array = np.array(raw, dtype=kept, order="C", copy=True)
    except Exception:  # whatever an array-like throws may quote its values: the message below does not
        array = None
    if array is None:
        raise DataError(f"{what} are not an array of numbers: give whole or real numbers only, all rows of one length.")
    if not np.isfinite(array).all():
        raise DataError(f"{what} hold values that are missing or infinite: drop or fill in those first.")
    return array


def _digits() -> tuple[NDArray[Any], NDArray[Any]]:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return np.ascontiguousarray(x, dtype=np.float64) / 16.0, np.asarray(y, dtype=np.int64)


def _read_numpy(
    path: Path, part: str, unit: str | None = None
) -> tuple[NDArray[Any], NDArray[Any] | None, NDArray[Any] | None]:
    """Records, labels and, where a unit is asked for, the array that says whose they are."""
    arrays: dict[str, NDArray[Any]] | None
    units: NDArray[Any] | None = None
    try:
        names = array_names(path)
        wanted = ("x", "y") if "x" in names else (f"x_{part}", f"y_{part}")
        if unit is not None and (unit in wanted or unit not in names):
            raise DataError(f"{path.name!r} has no array {unit!r} beside records and labels: name the one of the unit.")
        held = read_arrays(path, wanted if unit is None else (*wanted, unit))
        units = None if unit is None else held.pop(unit)
        arrays = {name[0]: array for name, array in held.items()}
    except OSError:
        arrays = None
    if arrays is None:
        raise DataError(f"{path.name!r} cannot be read: check its permissions.")
    if "x" not in arrays:
        raise DataError(f"{path.name!r} holds no array called x or x_{part}: name the records x.")
    return arrays["x"], arrays.get("y"), units


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of every line that is not blank; one line is one record, whatever quotes it holds."""
    width = before = 0
    with csv_rows(path) as reader:
        for cells in reader:
            spans, before = reader.line_num - before > 1, reader.line_num
            if spans:
                # a quote that is never closed would swallow the records below it
                raise DataError(f"Line {before} of {path.name!r} ends a cell that began above it: remove line breaks.")
            if width == 1 and not cells:
                # of a single column it could be a missing value, and no record is dropped silently
                raise DataError(f"Line {before} of {path.name!r} is empty: without a schema no value may be missing.")
            if cells:
                width = width or len(cells)
                yield before, [cell.strip() for cell in cells]


def _header(path: Path, cells: list[str]) -> list[str]:
    """The names in the first line; refuses a line that looks like a record."""
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        # one cell with those in it, or decimal commas between them
        if any(mark in cell for cell in cells):
            raise DataError(f"The cells of {path.name!r} are separated by {name}: save it with commas between them.")
    named = [bool(cell) and not _is_number(cell) for cell in cells]
    if not any(named):
        raise DataError(f"The first line of {path.name!r} names no column: put a line of names above the records.")
    names = [cell.lower() for cell in cells]
    # columns may be called 0, 1, 2, label; but 1, x, 3 is rather a damaged record
    if not all(named) and not any(name in LABEL_NAMES for name in names):
        raise DataError(f"The first line of {path.name!r} mixes names and numbers: name every column.")
    return names


def _read_csv(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None, tuple[str, ...]]:
    """Records and labels of a table of numbers, and the names that its first line gives the columns of records."""
    values, taken = array("d"), Meter(path.name)
    label: int | None = None
    names: tuple[str, ...] = ()
    width = 0
    complaint: str | None = None
    try:
        for number, cells in _lines(path):
            if width == 0:
                # never guessed: whether a line is a record, and how many columns there are, may not depend on a record
                width = len(cells)
                labels = [i for i, name in enumerate(_header(path, cells)) if name in LABEL_NAMES]
                if len(labels) > 1:
                    raise DataError(f"{path.name!r} has {len(labels)} columns of labels: keep one.")
                label = labels[0] if labels else None
                names = tuple(cell for i, cell in enumerate(cells) if i != label)
                continue
            if len(cells) != width:
                complaint = f"has {len(cells)} cells where the first line has {width}"
            elif not all(map(_is_number, cells)):
                complaint = "holds a cell that is empty or not a number"
            if complaint:
                raise DataError(
                    f"Line {number} of {path.name!r} {complaint}: without a schema every cell must hold a number."
                )
            taken.add(8 * width)
            values.extend(float(cell) for cell in cells)
    except UnicodeDecodeError:
        complaint = "not UTF-8"
    except (OSError, EOFError, csv.Error, zlib.error):
        complaint = "unreadable"
    if complaint == "not UTF-8":
        raise DataError(f"{path.name!r} is not text in UTF-8: save it in that encoding.")
    if complaint:
        raise DataError(f"{path.name!r} cannot be read as comma-separated numbers: it is damaged or of another kind.")
    if not values:
        raise DataError(f"{path.name!r} holds no records: give at least one line of numbers.")
    table = np.frombuffer(values).reshape(-1, width)
    if label is None:
        return table, None, names
    return np.delete(table, label, axis=1), table[:, label], names
