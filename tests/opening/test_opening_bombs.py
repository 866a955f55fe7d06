"""Small files that unpack to gigabytes are refused in one sentence, in seconds, and before the memory is taken."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import bombs
import numpy as np
import pytest
from bombs import GIB, write

from privot.accounting import Gaussian, account
from privot.cli import run
from privot.data.loading import load
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.opening import limits
from privot.opening.archives import read_arrays
from privot.opening.csv_lines import CsvRows, csv_rows
from privot.tables import Column, Schema, TableCodec, encode_file, read_table
from privot.tables.table_files import read_chunks

LIMIT = "more than the 512 MiB that are read"
_LOADING = """
import json, os, re, sys
from pathlib import Path
from privot.data.loading import load
from privot.errors import DataError
from privot.federation.protocols.word_vectors import WordVectors
from privot.release import Release

def said(read, path, name):
    os.environ["PRIVOT_MAX_UNPACKED"] = "20MiB" if name.startswith("low") else ""
    try:
        read(path)
    except DataError as error:
        return str(error)

folder, names = Path(sys.argv[1]), sys.argv[2:]
found = {name: said(load, folder / name, name) for name in names}
found["words.npz"] = said(WordVectors.load, folder / "words.npz", "")
found["release.npz"] = said(Release.load, folder / "release.npz", "")
# the peak since this program began: ru_maxrss also counts what the process that started it had held
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(json.dumps({"said": found, "peak": int(peak[1]) * 1024}))
"""


def guarantee() -> dict[str, object]:
    return account(Gaussian(1.0, 1.0, Adjacency.REPLACE_ONE), 1e-5).to_dict()


def idx_bomb() -> bytes:
    start = b"\0\0\x08\x02" + struct.pack(">2I", 3 * 2**20, 1024)
    return bombs.gzip_bomb(bytes(1 << 20), 3 * GIB, start)


FILES: dict[str, Callable[[], bytes]] = {
    "a.npz": bombs.npz_bomb,
    "a.idx.gz": idx_bomb,
    # of these everything up to the limit is read, so the limit is lowered
    "low-a.csv.gz": lambda: bombs.gzip_bomb(b"0,0,0,0\n" * (1 << 17), 3 * GIB, b"a,b,c,d\n"),
    "low-line.csv.gz": lambda: bombs.gzip_bomb(b"," * (1 << 20), 3 * GIB),
}


@pytest.mark.slow
def test_data_bombs_are_refused_in_one_sentence_each_below_half_a_gibibyte(tmp_path: Path) -> None:
    for name, make in FILES.items():
        assert write(tmp_path / name, make()).stat().st_size < 40 << 20
    words = bombs.npy_header((1,), "<U4") + "word".encode("utf-32-le")
    write(tmp_path / "words.npz", bombs.npz_bomb("vectors", others={"words.npy": words}))
    write(tmp_path / "release.npz", bombs.release_bomb(guarantee()))
    done = subprocess.run(
        [sys.executable, "-c", _LOADING, str(tmp_path), *FILES], capture_output=True, text=True, timeout=300, check=True
    )
    found = json.loads(done.stdout)
    assert len(found["said"]) == len(FILES) + 2
    for name, said in found["said"].items():
        assert said is not None, name
        assert "unpacks to" in said or "a record of more than" in said, (name, said)
        assert len(said) < 300
    assert found["peak"] < GIB // 2


def test_a_bomb_ends_a_command_with_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write(tmp_path / "a.npz", bombs.npz_bomb()))
    assert run(["compare", path, path]) == 3
    said = capsys.readouterr().err
    assert LIMIT in said
    assert said.count("\n") == 1
    path = str(write(tmp_path / "b.npz", bombs.release_bomb(guarantee())))
    assert run(["audit", path]) == 3
    assert LIMIT in capsys.readouterr().err


@pytest.mark.parametrize(("shape", "kind"), [((2**40, 2**40), "<f8"), ((2**62, 4), "|u1"), ((2**40,), "<U0")])
def test_a_header_whose_product_overflows_is_refused(shape: tuple[int, ...], kind: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="512 MiB"):
        load(write(tmp_path / "a.npy", bombs.npy_header(shape, kind) + bytes(64)))


def test_numbers_of_one_byte_count_as_the_eight_they_become(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", np.zeros((1000, 10), dtype=np.uint8))
    monkeypatch.setenv(limits.UNPACKED_VARIABLE, "80000")
    assert load(tmp_path / "a.npy").x.shape == (1000, 10)
    monkeypatch.setenv(limits.UNPACKED_VARIABLE, "79999")
    with pytest.raises(DataError, match="unpacks to"):
        load(tmp_path / "a.npy")


def test_a_folder_of_images_counts_as_what_its_pixels_become(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    (tmp_path / "a" / "one").mkdir(parents=True)
    for number in range(3):
        Image.fromarray(np.zeros((20, 20), dtype=np.uint8)).save(tmp_path / "a" / "one" / f"{number}.png")
    assert load(tmp_path / "a", classes=("one",)).x.shape == (3, 400)
    monkeypatch.setenv(limits.UNPACKED_VARIABLE, "9000")
    with pytest.raises(DataError, match="unpacks to"):
        load(tmp_path / "a", classes=("one",))


def test_a_csv_file_is_bounded_by_its_values_and_not_by_its_text_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.csv", b"a\n" + b"1\n" * 1000)
    monkeypatch.setenv(limits.UNPACKED_VARIABLE, "7999")
    with pytest.raises(DataError, match="unpacks to more than"):
        load(path)


def test_a_csv_file_is_refused_before_any_of_it_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.csv.gz", bombs.gzip_bomb(b"1,2\n" * (1 << 10), 1 << 17, b'a,"b"\n'))
    lines = CsvRows.__iter__

    def header_alone(rows: CsvRows) -> Iterator[tuple[int, list[str]]]:
        yield next(iter(lines(rows)))
        pytest.fail("it was parsed")

    monkeypatch.setattr(CsvRows, "__iter__", header_alone)
    schema = Schema((Column("a", "integer", 0, 3), Column("b", "integer", 0, 3)))
    monkeypatch.setenv(limits.UNPACKED_VARIABLE, "500000")
    for reads in (load, read_table, lambda path: encode_file(path, TableCodec(schema))):
        with pytest.raises(DataError, match="unpacks to more than"):
            reads(path)
    with pytest.raises(DataError, match="unpacks to more than"), csv_rows(path, held=16):
        pass
    # records that are passed on take no memory, but their text is bounded too
    with csv_rows(path, held=0):
        monkeypatch.setenv(limits.UNPACKED_VARIABLE, "100000")
    with pytest.raises(DataError, match="unpacks to more than"), csv_rows(path, held=0):
        pass


def parquet(path: Path, table: object, **how: object) -> Path:
    import pyarrow.parquet as library

    library.write_table(table, path, **how)
    return path


def test_parquet_rows_that_run_lengths_stand_for_are_refused_by_the_footer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrow = pytest.importorskip("pyarrow")
    zeros = arrow.array(np.zeros(1 << 20, dtype=np.int32))
    path = parquet(tmp_path / "a.parquet", arrow.table({"a": zeros, "b": zeros}))
    assert path.stat().st_size < 1 << 16
    monkeypatch.setenv(limits.UNPACKED_VARIABLE, "10MiB")
    with pytest.raises(DataError, match="16 MiB in memory, more than the 10 MiB"):
        read_table(path)


def test_a_parquet_text_repeated_by_a_dictionary_is_refused_before_it_is_written_out(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    indices = arrow.array(np.zeros(50_000, dtype=np.int32))
    column = arrow.DictionaryArray.from_arrays(indices, arrow.array(["x" * 100_000]))
    path = parquet(tmp_path / "a.parquet", arrow.table({"a": column}), store_schema=False)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(DataError, match="512 MiB"):
        next(iter(read_chunks(path)))


def test_a_parquet_page_is_refused_by_its_own_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrow = pytest.importorskip("pyarrow")
    path = parquet(tmp_path / "a.parquet", arrow.table({"a": ["x" * (4 << 20)]}), compression="zstd")
    assert path.stat().st_size < 1 << 16
    assert len(read_table(path)["a"][0]) == 4 << 20
    monkeypatch.setenv(limits.UNPACKED_VARIABLE, "2MiB")
    with pytest.raises(DataError, match="2 MiB"):
        read_table(path)


def test_parquet_texts_that_share_their_beginnings_are_refused(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"a": ["x" * 1000 + str(i) for i in range(100)]})
    path = parquet(tmp_path / "a.parquet", table, use_dictionary=False, column_encoding={"a": "DELTA_BYTE_ARRAY"})
    with pytest.raises(DataError, match="DELTA_BYTE_ARRAY"):
        read_table(path)


def test_parquet_of_every_kind_of_column_still_reads(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    columns = {
        "whole": [1, None, 3], "real": [0.5, None, 2.5], "text": ["a", None, "ä"], "true": [True, None, False]
    }  # fmt: skip
    for compression in ("none", "snappy", "gzip", "zstd"):
        for version in ("1.0", "2.0"):
            how = {"compression": compression, "data_page_version": version}
            table = read_table(parquet(tmp_path / "a.parquet", arrow.table(columns), **how))
            assert {name: list(table[name]) for name in table} == columns


def test_the_limit_is_raised_and_lowered_by_an_option_of_the_command(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.ones((100, 10)))
    pair = ["compare", str(tmp_path / "a.npz"), str(tmp_path / "a.npz"), "--slices", "5"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(limits.UNPACKED_VARIABLE, "")
        assert run(["--max-unpacked", "7KiB", *pair]) == 3
        assert run(["--max-unpacked", "1GiB", *pair]) == 0
        assert run(["--max-unpacked", "much", *pair]) == 2
        assert run(["--max-unpacked", "0", *pair]) == 2


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("2k", 2048), ("3MiB", 3 << 20), ("4 GB", 4 << 30), ("1T", 1 << 40)]
)
def test_sizes_are_read_in_binary_units(text: str, size: int) -> None:
    assert limits.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1.5GiB", "GiB", "1e9", "9" * 30, "0"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="A size is written like"):
        limits.parse_size(text)


def test_arrays_come_back_as_numpy_wrote_them(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(12.0).reshape(3, 4), "f": np.asfortranarray(np.arange(12).reshape(3, 4)), "s": np.array(2.5),
        "w": np.array(["one", "zwölf"]), "e": np.zeros((0, 3)), "b": np.array([True, False]),
    }  # fmt: skip
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        found = read_arrays(tmp_path / "a.npz")
        assert set(found) == set(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="never unpickled"):
        read_arrays(tmp_path / "o.npy")


def test_rows_of_a_table_are_bounded_as_wide_as_they_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A category of one byte becomes as many numbers as there are categories."""
    from privot.tables import Column, Schema, TableCodec, encode_file
    from privot.tables.table_files import encode_chunks, read_chunks

    words = tuple(f"c{number}" for number in range(200))
    codec = TableCodec(Schema((Column("word", "categorical", categories=words),)))
    file = tmp_path / "a.csv"
    file.write_text("word\n" + "c7\n" * 1000)
    monkeypatch.setenv("PRIVOT_MAX_UNPACKED", "1MiB")
    assert encode_file(file, codec, compact=True)[0].shape == (1000, 1)
    with pytest.raises(DataError, match="unpacks to"):
        encode_file(file, codec)
    with pytest.raises(DataError, match="unpacks to"):
        encode_chunks(read_chunks(file), codec, name=file.name)
