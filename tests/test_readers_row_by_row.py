"""What a reader makes of one record never depends on another record, whatever the format.

The statement that is tested: with the public facts fixed (class names, shape, header, schema, word vectors), every
reader R has a function f of one record such that

  * f(r) is a row (with its label), or r is refused;
  * a file D is refused exactly if one of its records is refused, and otherwise R(D) is the list of f(r) for r in D,
    bit for bit, with the same columns, types and class names.

So for neighbours D and D′, which differ in r: if both are read, every other row and everything beside the rows is the
same to the bit, R(D ∖ r) = R(D) ∖ f(r); and if one is refused, then because of r alone: every other file that holds r
is refused too. f(r) is found by reading a file that holds r and nothing else. A record is what a writer of the format
writes for one; of CSV files without a schema it is any line at all. Some writers here change how the *other* records
are written when one is replaced, as NumPy (types) and pandas (3.0 for 3) do.
"""

from __future__ import annotations

import csv
import io
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from privot.data.loading import Dataset, load
from privot.errors import DataError
from privot.federation.protocols.word_vectors import WordVectors
from privot.tables import Column, Schema, TableCodec, encode_file
from privot.tables.constraints.stated import Difference


@dataclass(frozen=True)
class Read:
    """Rows as bytes, each with its label, and all that is beside the rows."""

    rows: list[tuple[bytes, bytes]]
    frame: tuple[Any, ...]


@dataclass(frozen=True)
class Format:
    """How records are written and read; the first `good` of `pool` are to be read, the rest are nasty.

    `pool[good:refused]` must be read too, all others must be refused.
    """

    name: str
    pool: tuple[Any, ...]
    good: int
    refused: int
    write: Callable[[Path, list[Any]], Path]
    read: Callable[[Path], Any]
    ordered: bool = True


def as_read(found: Any, ordered: bool) -> Read:
    x, y, names = (found.x, found.y, found.names) if isinstance(found, Dataset) else (*found, None)
    labels = [b""] * len(x) if y is None else [label.tobytes() for label in y]
    rows = [(row.tobytes(), label) for row, label in zip(x, labels, strict=True)]
    frame = (x.shape[1:], x.dtype, None if y is None else (y.shape[1:], y.dtype), names)
    return Read(rows if ordered else sorted(rows), frame)


# --- arrays, whose dtype is whatever NumPy infers from all values together


def write_npz(path: Path, records: list[Any]) -> Path:
    x, y = np.array([r[0] for r in records]), np.array([r[1] for r in records])
    np.savez(path / "d.npz", x=x, y=y)
    return path / "d.npz"


def write_npy(path: Path, records: list[Any]) -> Path:
    np.save(path / "d.npy", np.array(records))
    return path / "d.npy"


ARRAYS = (
    ([1, 2], 0), ([3, -4], 1), ([5, 0], 2),  # whole
    ([0.5, 1e-300], 1), ([2**53 + 1, 7], 2), ([True, False], 0), ([1e308, -0.0], 2), ([1, 2], 1.0),  # of another type
    ([1, 2], 0.5), ([1, 2], 3), ([1, 2], -1), ([1, 2], math.nan), ([1, 2], "0"), ([1, 2], None), ([1, 2], 2.0**60),
    ([math.nan, 1], 0), ([math.inf, 1], 0), ([None, 1], 0), (["a", "b"], 0), ([1j, 1], 0), ([10**400, 1], 0),
)  # fmt: skip
ROWS = tuple(x for x, _ in ARRAYS[:8] + ARRAYS[15:])

# --- MATLAB's files: the class of a variable is in its header; scipy writes no None and no number beyond its types


def write_mat(path: Path, records: list[Any]) -> Path:
    from scipy.io import savemat

    x, y = np.array([r[0] for r in records]), np.array([r[1] for r in records])
    # labels count from 1
    savemat(path / "d.mat", {"x": x, "y": y + 1 if y.dtype.kind in "biuf" else y}, do_compression=len(records) % 2 == 0)
    return path / "d.mat"


MATRICES = tuple(record for record in ARRAYS[:-1] if record[1] is not None and None not in record[0])

# --- IDX: the type is in the header

CODES = {"u1": 0x08, "f4": 0x0D}


def write_idx(path: Path, records: list[Any], kind: str = "u1") -> Path:
    for name, values in (
        ("d-images-idx2-ubyte", np.array([r[0] for r in records], dtype=f">{kind}")),
        ("d-labels-idx1-ubyte", np.array([r[1] for r in records], dtype=">u1")),
    ):
        code = CODES[values.dtype.str[1:]]
        header = struct.pack(f">BBBB{values.ndim}I", 0, 0, code, values.ndim, *values.shape)
        (path / name).write_bytes(header + values.tobytes())
    return path / "d-images-idx2-ubyte"


# --- folders of images: sub-folders exist where there is an image

NAMES = ("a_rare", "b", "c")
GREY = np.arange(6, dtype=np.uint8).reshape(2, 3)


def write_folder(path: Path, records: list[Any]) -> Path:
    for number, (name, content, ending) in enumerate(records):
        (path / "d" / name).mkdir(parents=True, exist_ok=True)
        file = path / "d" / name / f"{number:03}{ending}"
        file.write_bytes(content) if isinstance(content, bytes) else content.save(file)
    return path / "d"


IMAGES = (
    ("a_rare", Image.fromarray(GREY), ".png"), ("b", Image.fromarray(GREY + 1), ".png"),
    ("b", Image.fromarray(GREY + 99), ".png"), ("c", Image.fromarray(GREY * 9), ".png"),
    ("c", Image.fromarray(GREY * 40), ".jpeg"), ("a_rare", Image.fromarray(GREY), ".PNG"),
    ("d", Image.fromarray(GREY), ".png"), ("", Image.fromarray(GREY), ".png"), ("B", Image.fromarray(GREY), ".png"),
    ("b", Image.fromarray(GREY.T.copy()), ".png"), ("b", Image.fromarray(np.stack([GREY] * 3, -1)), ".png"),
    ("c", Image.fromarray(GREY).convert("P"), ".png"), ("b", b"no image", ".png"), ("b", b"notes", ".txt"),
)  # fmt: skip

# --- CSV without a schema: a record is a line, whatever stands in it


def write_lines(path: Path, records: list[str], header: str) -> Path:
    (path / "d.csv").write_bytes("".join(f"{line}\n" for line in [header, *records]).encode())
    return path / "d.csv"


LINES = (
    "1,2,0", "3.5,-4,1", "0.1,1e-300,2", '"1",2,2', " 1 , 2 ,0", "1,2,1.0", "1e308,-0.0,0", "9007199254740993,2,1",
    "a,label,c", "1,label,0", "x,y,z", "1,2,0.5", "1,2,3", "1,2,-1", "1,2", "1,2,0,0", ",,", "1,,0", "nan,1,0",
    "1e999,1,0", '"1,2,0', '1,2,"0', '1,"2\n3",0', "1;2;0", "1_0,2,0", "1,2,9007199254740993", "  ", "\t", "1,2,\x000",
)  # fmt: skip
SINGLE = ("1", "-2.5", '"3"', "", '""', "x", "label", " ", '"4', "1,2", "nan")

# --- tables with a schema

SCHEMA = Schema(
    (
        Column("age", "integer", 0, 120, missing=True),
        Column("income", "continuous", 0, 1e6, scale="log", missing=True),
        Column("height", "continuous", 0.5, 2.5),
        Column("city", "categorical", categories=("Ulm", "a,b", "NA"), unknown="other", missing=True),
        Column("code", "categorical", categories=(1, 2, 30), unknown="other", missing=True),
        Column("grade", "ordinal", categories=("low", "high")),
        Column("smokes", "boolean", missing=True),
        Column("born", "date", "1900-01-01", "2024-12-31", missing=True),
        Column("died", "date", "1900-01-01", "2034-12-31", missing=True),
        Column("seen", "date", "2020-01-01 00:00", "2020-12-31 23:59", format="%Y-%m-%d %H:%M"),
        Column("ill", "categorical", categories=("no", "yes", 3)),
    ),
    label="ill",
    # what stands in a row then follows from two cells of its record
    constraints=(Difference("died", "born", high=30_000),),
)
CODEC = TableCodec(SCHEMA)
BASE: dict[str, Any] = {
    "age": 31, "income": 1234.5, "height": 1.7, "city": "Ulm", "code": 1, "grade": "low", "smokes": True,
    "born": date(1980, 2, 29), "died": date(2020, 6, 2), "seen": datetime(2020, 6, 1, 12, 34), "ill": "no",
}  # fmt: skip


def changed(**values: Any) -> dict[str, Any]:
    return {**BASE, **values}


TABLE = (
    BASE, changed(age=54, income=0.0, city="a,b", code=2, grade="high", smokes=False, ill="yes", died=None),
    changed(age=7, income=999999.9, code=30, born=date(2001, 1, 1), ill=3, height=0.5, died=date(1999, 1, 1)),
    changed(age=None), changed(income=None), changed(city=None), changed(code=None), changed(smokes=None),
    changed(born=None), changed(age=2**60), changed(age=-5), changed(income=1e308), changed(income=-1.0),
    changed(city="Bonn"), changed(city="other"), changed(city="NA"), changed(code=4), changed(code=2**62),
    changed(born=date(1, 1, 1)), changed(born=date(9999, 12, 31)), changed(seen=datetime(1999, 1, 1, 0, 1)),
    changed(height=5e-324, died=date(9999, 12, 31)),
    changed(height=None), changed(grade="middle"), changed(grade=None), changed(seen=None), changed(ill="maybe"),
    changed(ill=None), changed(height=math.inf),
)  # fmt: skip
TEXTS = (
    changed(age="31.0"), changed(code="1.0"), changed(code="1.50"), changed(smokes="YES"), changed(city="  Ulm "),
    changed(born="1980-02-29"), changed(city='the "x"'), changed(age="?"),
    changed(age="old"), changed(born="29.02.1980"), changed(born="1981-02-29"), changed(smokes="perhaps"),
    changed(income="1_0"), changed(income="inf"), changed(city="two\nlines"), changed(seen="2020-06-01"),
)  # fmt: skip


def cell(column: Column, value: Any, floats: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime | date):
        # not strftime, which writes the year 1 without its zeros
        return value.isoformat(" ", "minutes") if isinstance(value, datetime) else value.isoformat()
    return repr(float(value)) if floats and isinstance(value, int) and not isinstance(value, bool) else str(value)


def write_table(path: Path, records: list[Any]) -> Path:
    """As pandas does: whole numbers of a column become 3.0 as soon as one of them is missing."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(SCHEMA.names)
    floats = {c.name: any(r[c.name] is None for r in records) for c in SCHEMA.columns}
    writer.writerows([cell(c, r[c.name], floats[c.name]) for c in SCHEMA.columns] for r in records)
    (path / "d.csv").write_bytes(text.getvalue().encode())
    return path / "d.csv"


def write_parquet(path: Path, records: list[Any]) -> Path:
    """Types are inferred from all values of a column; whole numbers become floats as soon as one is missing."""
    pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    import pyarrow.parquet as parquet

    columns = {}
    for column in SCHEMA.columns:
        values = [r[column.name] for r in records]
        if any(v is None for v in values) and column.type in ("integer", "categorical"):
            values = [float(v) if isinstance(v, int) else v for v in values]
        if column.name == "ill":
            values = [None if v is None else str(v) for v in values]
        columns[column.name] = pa.array(values)
    if not pa.types.is_null(columns["city"].type):
        # a dictionary of the texts that occur is one more thing that depends on all records
        columns["city"] = columns["city"].dictionary_encode()
    parquet.write_table(pa.table(columns), path / "d.parquet")
    return path / "d.parquet"


# --- partitions: the same files, cut anywhere; a record is read as it is read alone, whatever partition it lies in


def write_cut(path: Path, records: list[Any]) -> Path:
    """Three files, of which the middle one may be empty; each has the types that its own records suggest."""
    (path / "cut").mkdir()
    cuts = [records[: (len(records) + 1) // 2], records[(len(records) + 1) // 2 :]]
    for number, part in enumerate(part for part in cuts if part):
        (path / f"{number}").mkdir()
        write_parquet(path / f"{number}", part).rename(path / "cut" / f"part-{number}.parquet")
    return path / "cut"


def write_cut_csv(path: Path, records: list[Any]) -> Path:
    """A file per record, and one with a header alone."""
    (path / "cut").mkdir()
    for number, part in enumerate([[], *([record] for record in records)]):
        write_table(path, part).rename(path / "cut" / f"part-{number:03}.csv")
    return path / "cut"


def read_cut(path: Path | str, **stated: Any) -> tuple[Any, Any]:
    from privot.partitions.engines.local_engine import LocalEngine
    from privot.partitions.source_opening import open_source

    source = open_source(path, engine=LocalEngine(1), **stated)
    assert source.count
    blocks = [block for partition in source.partitions for block in partition.blocks()]
    x = np.concatenate([np.ascontiguousarray(rows) for rows, _ in blocks])
    return x, None if blocks[0][1] is None else np.concatenate([y for _, y in blocks])


def write_shards(path: Path, records: list[Any]) -> Path:
    """Two tar shards; a record is an image and its class."""
    import tarfile

    (path / "shards").mkdir()
    half = (len(records) + 1) // 2
    for shard, (first, last) in enumerate(((0, half), (half, len(records)))):
        with tarfile.open(path / "shards" / f"{shard}.tar", "w") as archive:
            for number in range(first, last):
                add_files(archive, number, records[number])
    return path / "shards"


def add_files(archive: Any, number: int, files: dict[str, Any]) -> None:
    import tarfile

    for ending, content in files.items():
        held = io.BytesIO()
        held.write(content) if isinstance(content, bytes) else content.save(held, "PNG")
        member = tarfile.TarInfo(f"{number:05}{ending}")
        member.size = held.tell()
        held.seek(0)
        archive.addfile(member, held)


SHARDS = (
    {".png": Image.fromarray(GREY), ".cls": b"0"}, {".png": Image.fromarray(GREY + 1), ".cls": b"2"},
    {".cls": b"1", ".png": Image.fromarray(GREY * 9)}, {".png": Image.fromarray(GREY), ".cls": b" 1 ", ".json": b"{}"},
    {".png": Image.fromarray(GREY)}, {".cls": b"1"}, {".png": Image.fromarray(GREY), ".cls": b"3"},
    {".png": Image.fromarray(GREY), ".cls": b"-1"}, {".png": Image.fromarray(GREY.T.copy()), ".cls": b"1"},
    {".png": b"no image", ".cls": b"1"}, {".png": Image.fromarray(GREY), ".cls": b"1.0"},
    {".png": Image.fromarray(np.stack([GREY] * 3, -1)), ".cls": b"1"},
)  # fmt: skip

# --- texts: a record is a word that has a public vector

WORDS = ("budget", "minister", "film", "naïve", "the", "goal")
VECTORS = WordVectors(["budget", "minister", "film", "goal", "na", "ve", "the"], np.eye(7) * 3)


def write_text(path: Path, records: list[str]) -> Path:
    (path / "d.txt").write_text(" ".join(records), encoding="utf-8")
    return path / "d.txt"


def read_text(path: Path) -> tuple[Any, None]:
    return VECTORS.cloud(VECTORS.words_of(path.read_text(encoding="utf-8"))), None


FORMATS = [
    Format("npz", ARRAYS, 3, 8, write_npz, lambda p: load(p, classes=3)),
    Format("npy", ROWS, 3, 8, write_npy, load),
    Format("mat", MATRICES, 3, 8, write_mat, lambda p: load(p, classes=3)),
    Format("idx", (((1, 2), 0), ((3, 255), 2), ((0, 0), 1), ((1, 2), 3)), 2, 3, write_idx,
           lambda p: load(p, classes=3)),
    Format("idx of floats", (((1, 2), 0), ((0.5, 1e30), 2), ((math.nan, 1), 1), ((math.inf, 1), 0)), 2, 2,
           lambda p, r: write_idx(p, r, "f4"), lambda p: load(p, classes=3)),
    Format("folder", IMAGES, 4, 6, write_folder, lambda p: load(p, classes=NAMES, shape=(2, 3)), ordered=False),
    Format("folder without labels", IMAGES[:6] + IMAGES[9:], 4, 6, write_folder,
           lambda p: load(p, classes=0, shape=(2, 3)), ordered=False),
    Format("csv", LINES, 3, 8, lambda p, r: write_lines(p, r, "a,b,label"), lambda p: load(p, classes=3)),
    Format("csv of one column", SINGLE, 2, 3, lambda p, r: write_lines(p, r, "a"), load),
    Format("table in csv", TABLE + TEXTS, 3, 0, write_table, lambda p: encode_file(p, CODEC, compact=True)),
    Format("table in parquet", TABLE, 3, 22, write_parquet, lambda p: encode_file(p, CODEC, compact=True)),
    Format("table cut into parquet files", TABLE, 3, 22, write_cut, lambda p: read_cut(p, codec=CODEC)),
    Format("table cut into csv files", TABLE + TEXTS, 3, 0, write_cut_csv, lambda p: read_cut(p, codec=CODEC)),
    Format("shards", SHARDS, 3, 4, write_shards, lambda p: read_cut(p, classes=3, shape=(2, 3))),
    Format("text", ("budget", "film", "goal", "Minister", "budget,"), 3, 5, write_text, read_text),
]  # fmt: skip
TEXTS_READ = 8
"""So many of `TEXTS` are to be read."""


def must_be_read(form: Format, place: int) -> bool:
    if form.name in ("table in csv", "table cut into csv files"):
        return place < 22 or len(TABLE) <= place < len(TABLE) + TEXTS_READ
    return place < form.refused


class Reader:
    """Reads lists of records of one format, and each record alone, once."""

    def __init__(self, form: Format, folder: Path) -> None:
        self.form, self.folder, self.files = form, folder, 0
        self.alone: dict[int, Read | None] = {}

    def __call__(self, places: list[int]) -> Read | None:
        """What is read of a file of the records at `places` in the pool; None if it is refused."""
        self.files += 1
        path = self.folder / str(self.files)
        path.mkdir()
        file = self.form.write(path, [self.form.pool[place] for place in places])
        try:
            return as_read(self.form.read(file), self.form.ordered)
        except DataError:
            return None

    def expected(self, places: list[int]) -> list[tuple[bytes, bytes]] | None:
        """The rows of the records one by one; None if one of them is refused."""
        for place in places:
            if place not in self.alone:
                self.alone[place] = self([place])
        found = [self.alone[place] for place in places]
        if any(f is None for f in found):
            return None
        rows = [row for f in found if f is not None for row in f.rows]
        return rows if self.form.ordered else sorted(rows)

    def check(self, places: list[int]) -> None:
        """A file of many records is read as each of them is alone, or refused because one of them is."""
        found, wanted = self(places), self.expected(places)
        if wanted is None or found is None:
            assert (found is None) == (wanted is None), (self.form.name, places)
            return
        assert found.rows == wanted, (self.form.name, places)
        assert all(alone is not None and alone.frame == found.frame for alone in map(self.alone.get, places))


@pytest.fixture(params=FORMATS, ids=lambda form: form.name, scope="module")
def reader(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return Reader(request.param, tmp_path_factory.mktemp("readers"))


def test_the_test_knows_which_records_are_refused(reader: Reader) -> None:
    for place, record in enumerate(reader.form.pool):
        reader.expected([place])
        assert (reader.alone[place] is not None) == must_be_read(reader.form, place), (reader.form.name, record)


@pytest.mark.slow
def test_removing_or_replacing_any_one_record_changes_no_other(reader: Reader) -> None:
    good = list(range(reader.form.good))
    reader.check(good)
    for i in range(len(good)):
        # also the only record of its class, the first one and the last one
        reader.check([*good[:i], *good[i + 1 :]])
        for other in range(len(reader.form.pool)):
            reader.check([*good[:i], other, *good[i + 1 :]])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(draw=st.data())
def test_a_file_is_read_as_its_records_are_one_by_one(reader: Reader, draw: st.DataObject) -> None:
    pool = range(len(reader.form.pool))
    good = [place for place in pool if must_be_read(reader.form, place)]
    reader.check(draw.draw(st.lists(st.sampled_from(good), min_size=2, max_size=9)))
    reader.check(draw.draw(st.lists(st.sampled_from(pool), min_size=2, max_size=4)))


def test_words_without_a_vector_are_no_records_and_change_no_other(tmp_path: Path) -> None:
    whole = VECTORS.words_of("The minister's budget, a naïve film: the goal of Σ-stories.")
    assert whole == ["minister", "budget", "na", "ve", "film", "goal"]
    assert VECTORS.words_of("The minister's budget, a XX film: the goal.") == ["minister", "budget", "film", "goal"]


# --- the attack that the rule was written for


def embedding(data: Dataset) -> Any:
    """Per class the sum of features of norm 1: one record moves it by exactly 1, by 2 if it is replaced."""
    assert data.y is not None
    phases = data.x / 255.0 @ np.random.default_rng(0).normal(size=(data.x.shape[1], 500))
    features = np.concatenate([np.cos(phases), np.sin(phases)], axis=1) / np.sqrt(500)
    return np.stack([features[data.y == c].sum(axis=0) for c in range(3)])


def test_an_image_that_goes_with_its_folder_moves_the_embedding_by_its_own_share(tmp_path: Path) -> None:
    g = np.random.default_rng(1)
    for name, count in (("a_rare", 1), ("b", 50), ("c", 50)):
        (tmp_path / "zoo" / name).mkdir(parents=True)
        for k in range(count):
            Image.fromarray(g.integers(0, 256, (8, 8), dtype=np.uint8)).save(tmp_path / f"zoo/{name}/{k}.png")
    whole = load(tmp_path / "zoo", classes=NAMES, shape=(8, 8))
    (tmp_path / "zoo/a_rare/0.png").unlink()
    (tmp_path / "zoo/a_rare").rmdir()
    less = load(tmp_path / "zoo", classes=NAMES, shape=(8, 8))
    assert whole.names == less.names == NAMES
    # numbered by the folders that there are, b would be class 0 now, and this 35 and more
    assert np.linalg.norm(embedding(whole) - embedding(less)) == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_array_equal(whole.x[1:], less.x)
    np.testing.assert_array_equal(whole.y[1:], less.y)  # type: ignore[index]
