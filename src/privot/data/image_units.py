"""Reads whose each image of a folder is: a CSV file with one line per image; it quotes neither a path nor a unit.

What an image file is called may say whose it is, and so does the unit: a refusal names a line by its number.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Mapping
from pathlib import Path

from privot.errors import DataError, UsageError
from privot.opening.csv_lines import csv_rows
from privot.opening.limits import Meter

PATH_COLUMN = "file_name"
"""The column of paths: the name that folders of images with a metadata file use for it."""
_LINE = 400
"""Bytes that a line takes in memory besides its characters."""


def read_image_units(path: str | Path, unit: str) -> dict[str, str]:
    """From the path of an image, relative to its folder (`healthy/17.png`), to the text in the column `unit`.

    The first line names the columns; `file_name` and `unit` are each there once, and other columns are not read. A
    path has no `..`, no leading `/` and no backslash: it lies in the folder, and it is compared as it stands. A path
    that stands in two lines is refused, whatever the lines say.
    """
    path, complaint = Path(path), ""
    if unit == PATH_COLUMN:
        raise UsageError(f"The column {PATH_COLUMN} holds the paths of the images: name the column of the unit.")
    taken, found = Meter(path.name), dict[str, str]()
    try:
        with csv_rows(path) as reader:
            places: tuple[int, int] | None = None
            width = before = 0
            for cells in reader:
                line, before = before + 1, reader.line_num
                if before != line:
                    raise DataError(f"Line {line} of {path.name!r} has a line break inside a cell: remove it.")
                if not cells:
                    continue
                if places is None:
                    width, places = len(cells), _places(path.name, [cell.strip() for cell in cells], unit)
                    continue
                if len(cells) != width:
                    raise DataError(f"Line {line} of {path.name!r} has {len(cells)} cells, and the first has {width}.")
                name, whose = cells[places[0]], cells[places[1]]
                taken.add(_LINE + 4 * (len(name) + len(whose)))
                if not _is_inside(name):
                    raise DataError(
                        f"Line {line} of {path.name!r} names no file in the folder: give the path relative to the "
                        "folder, with / between its parts, as in healthy/17.png."
                    )
                if name in found:
                    raise DataError(f"Line {line} of {path.name!r} names an image for the second time: keep one line.")
                found[name] = whose
            if places is None:
                complaint = "is empty: its first line names the columns"
    except UnicodeDecodeError:
        complaint = "is not text in UTF-8: save it in that encoding"
    except FileNotFoundError:
        complaint = f"is not there: give a CSV file with the columns {PATH_COLUMN} and {unit}"
    except (OSError, EOFError, csv.Error, zlib.error):
        complaint = "cannot be read as comma-separated text: it is damaged or of another kind"
    if complaint:
        raise DataError(f"{path.name!r} {complaint}.")
    return found


def unit_of(units: Mapping[str, str], name: str, which: str) -> str:
    """Whose the image at the path `name` is; errors call it `which`. A missing value is refused with all the others."""
    if name not in units:
        raise DataError(
            f"{which} has no line in the file of units, by its path relative to the folder: say whose it is."
        )
    return units[name]


def _places(file: str, names: list[str], unit: str) -> tuple[int, int]:
    """Where the path and the unit stand in a line."""
    for name in (PATH_COLUMN, unit):
        if names.count(name) != 1:
            often = "no column" if name not in names else f"{names.count(name)} columns"
            raise DataError(
                f"{file!r} has {often} {name!r}: name one in its first line, with commas between the names."
            )
    return names.index(PATH_COLUMN), names.index(unit)


def _is_inside(name: str) -> bool:
    parts = name.split("/")
    return "\\" not in name and "\0" not in name and not any(part in ("", ".", "..") for part in parts)
