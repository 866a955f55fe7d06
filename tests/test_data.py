"""Files are read as they were written, and nothing bad is read at all, nor quoted."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privot.data.loading import Dataset, checked_labels, checked_rows, load
from privot.errors import DataError, UsageError

X = np.array([[0.1, -2.0, 3e10], [4.0, 5.5, -0.0], [1 / 3, 7.0, 8.0]])
Y = np.array([0, 2, 1])
SECRET = "31415926.5"


def test_digits_are_built_in_and_scaled() -> None:
    data = load("digits")
    assert data.x.shape == (1797, 64)
    assert (data.x.min(), data.x.max()) == (0.0, 1.0)
    assert data.y is not None
    assert set(data.y) == set(range(10))


@pytest.mark.parametrize("names", [("x", "y"), ("x_train", "y_train")])
def test_npz(tmp_path: Path, names: tuple[str, str]) -> None:
    np.savez(tmp_path / "a.npz", **{names[0]: X, names[1]: Y, "x_test": X[:1]})
    data = load(tmp_path / "a.npz")
    np.testing.assert_array_equal(data.x, X)
    np.testing.assert_array_equal(data.y, Y)


def test_npy_images_are_flattened_and_float32_stays(tmp_path: Path) -> None:
    images = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.save(tmp_path / "a.npy", images)
    data = load(str(tmp_path / "a.npy"))
    assert data.y is None
    assert data.x.dtype == np.float32
    np.testing.assert_array_equal(data.x, images.reshape(2, 12))


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
@pytest.mark.parametrize("header", ["a,Label,b,c", "0,label,1,2", "a,TARGET,b,c", '"a","y","b","c"', "a,b,c,d"])
def test_csv(tmp_path: Path, ending: str, header: str) -> None:
    lines = [header]
    lines += [",".join(map(repr, row)) for row in np.insert(X, 1, Y, axis=1).tolist()]
    text = ("\ufeff" + "\r\n".join(lines) + "\r\n\r\n").encode()
    path = tmp_path / f"a{ending}"
    path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    data = load(path)
    if header == "a,b,c,d":
        np.testing.assert_array_equal(data.x, np.insert(X, 1, Y, axis=1))
        assert data.y is None
    else:
        np.testing.assert_array_equal(data.x, X)
        np.testing.assert_array_equal(data.y, Y)
        assert data.y is not None
        assert data.y.dtype == np.int64


@settings(max_examples=50, deadline=None)
@given(arrays(np.float64, (4, 3), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_csv_loses_no_bit(tmp_path_factory: pytest.TempPathFactory, x: np.ndarray) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_text("a,b,c\n" + "\n".join(",".join(repr(v.item()) for v in row) for row in x))
    assert load(path).x.tobytes() == x.tobytes()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "a,b,label\n",
        f"1,{SECRET}\n2\n",
        f"{SECRET},2\nname,4\n",
        f"{SECRET},\n1,2\n",
        f"{SECRET},nan\n1,2\n",
        f"{SECRET},1e999\n1,2\n",
        f"{SECRET},name\n1,2\n",
        f"y,label\n{SECRET},2\n",
        f"label\n{SECRET}\n",
        f"1,{SECRET.replace('.', '_')}\n",
        f"1,{SECRET}\x00\n",
        f'1,"{SECRET}\n',
    ],
)
def test_bad_csv_is_refused_in_one_sentence_without_values(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError) as refusal:
        load(tmp_path / "a.csv")
    message = str(refusal.value)
    assert SECRET[:6] not in message
    assert "\n" not in message
    assert message.endswith(".")


class Evil:
    """Would leave a mark if it were unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    np.save(tmp_path / "a.npy", np.array([[Evil(mark)]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", x=np.array([[Evil(mark)]], dtype=object))
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Evil(mark)))
    for name in ("a.npy", "a.npz", "b.npy"):
        with pytest.raises(DataError):
            load(tmp_path / name)
    assert not mark.exists()


def test_bad_numpy_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "good.npy", X)
    whole = (tmp_path / "good.npy").read_bytes()
    np.savez(tmp_path / "good.npz", x=X)
    zipped = (tmp_path / "good.npz").read_bytes()
    np.savez(tmp_path / "nameless.npz", z=X)
    np.savez(tmp_path / "mismatch.npz", x=X, y=Y[:2])
    for name, array in {
        "empty": np.empty((0, 3)),
        "vector": np.ones(3),
        "scalar": np.array(1.0),
        "narrow": np.empty((3, 0)),
        "images": np.empty((0, 2, 2)),
        "nan": np.array([[1.0, np.nan]]),
        "text": np.array([["a", "b"]]),
        "complex": np.array([[1j]]),
        "times": np.array([["2020-01-01"]], dtype="datetime64[D]"),
    }.items():
        np.save(tmp_path / f"{name}.npy", array)
    for name, content in {
        "cut.npy": whole[:-5],
        "header.npy": whole[:8] + b"\xff" * 20 + whole[28:],
        "void.npy": b"",
        "cut.npz": zipped[:-30],
        "flipped.npz": zipped[:140] + bytes([zipped[140] ^ 255]) + zipped[141:],
        "void.npz": b"",
        "cut.csv.gz": gzip.compress(b"1,2\n" * 1000)[:-20],
        "plain.csv.gz": b"1,2\n",
        "binary.csv": b"\xff\xfe\x00\x81,1\n",
        "a.txt": b"1,2\n",
    }.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "folder.npz").mkdir()
    good = {"good.npy", "good.npz"}
    checked = 0
    for path in [*sorted(tmp_path.iterdir()), tmp_path / "missing.npz"]:
        if path.name not in good:
            with pytest.raises(DataError, match=r"\.$"):
                load(path)
            checked += 1
    assert checked == 24
    assert load(tmp_path / "good.npz").x.shape == X.shape


ODD = st.one_of(
    st.none(),
    st.text(max_size=5),
    st.floats(),
    st.lists(st.one_of(st.floats(), st.text(max_size=3), st.none()), max_size=4),
    st.lists(st.lists(st.floats(), max_size=3), max_size=4),
    st.dictionaries(st.text(max_size=2), st.floats(), max_size=2),
)


@settings(max_examples=150, deadline=None)
@given(ODD)
def test_whatever_comes_is_finite_rows_or_a_data_error(values: object) -> None:
    try:
        rows = checked_rows(values)
    except DataError:
        return
    assert rows.ndim == 2
    assert np.isfinite(rows).all()


def test_rows_are_copied_and_wide_numbers_that_overflow_are_refused() -> None:
    x = X.copy()
    rows = checked_rows(x)
    x[:] = 9
    np.testing.assert_array_equal(rows, X)
    with pytest.raises(DataError):
        checked_rows(np.ma.masked_array(X, mask=X > 4))
    if np.finfo(np.longdouble).max > np.finfo(np.float64).max:
        with pytest.raises(DataError):
            checked_rows(np.array([[np.finfo(np.longdouble).max]]))


def test_labels_are_whole_numbers_or_refused() -> None:
    assert checked_labels([0.0, 2.0], 2).dtype == np.int64
    assert checked_labels([[1], [2]], 2).shape == (2,)
    assert checked_labels([0, 2], 2, classes=3).tolist() == [0, 2]
    for bad in ([1], [1, np.nan], ["a", "b"], [[1, 2], [3, 4]], [0.5, 2.0], [1, 2.0**53]):
        with pytest.raises(DataError):
            checked_labels(bad, 2)
    for bad in ([0, 3], [-1, 0]):
        with pytest.raises(DataError, match="from 0 to 2"):
            checked_labels(bad, 2, classes=3)


def test_labels_are_left_out_unread_where_that_is_stated(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,target\n1,0.5\n2,7\n")
    with pytest.raises(DataError, match="whole numbers"):
        load(tmp_path / "a.csv")
    data = load(tmp_path / "a.csv", classes=0)
    assert data.y is None
    np.testing.assert_array_equal(data.x, [[1.0], [2.0]])


def test_names_of_classes_are_for_folders_and_a_shape_is_for_rows_that_have_it(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=Y)
    assert load(tmp_path / "a.npz", classes=3, shape=(1, 3)).y is not None
    for stated in ({"classes": ("a", "b")}, {"shape": (2, 2)}, {"classes": -1}, {"classes": "ab"}, {"shape": (0, 3)}):
        with pytest.raises(UsageError):
            load(tmp_path / "a.npz", **stated)
    with pytest.raises(DataError, match="from 0 to 1"):
        load(tmp_path / "a.npz", classes=2)


def test_whether_the_first_line_of_a_csv_file_is_a_header_is_never_guessed(tmp_path: Path) -> None:
    # by a guess, replacing the first record by the second of these would lose a record, and a column to labels
    for text in ("1,2\n3,4\n", "1,nan\n3,4\n", ",\n3,4\n"):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(DataError, match="names no column"):
            load(tmp_path / "a.csv")


def test_one_line_is_one_record(tmp_path: Path) -> None:
    for text in ('a,b\n1,"2\n3",4\n', 'a,b\n1,"2\n"\n3,4\n', 'a,b\n1,"2\n'):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(DataError):
            load(tmp_path / "a.csv")
    # an empty record is refused, not dropped: the number of records is public where one replaces another
    for text in ("a,b\n1,2\n,\n", "a\n1\n\n2\n", "a\n1\n\n", "a,b\n1,2\n  \n"):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(DataError, match=r"Line \d"):
            load(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("\na,b\n1,2\n\n3,4\n\n")
    assert load(tmp_path / "a.csv").x.shape == (2, 2)


def test_a_data_set_shows_no_values() -> None:
    assert "0.1" not in repr(Dataset(X, Y))
    assert repr(Dataset(X)) == "Dataset(3 records, 3 columns, no labels)"


def test_a_file_of_another_make_is_named_by_what_it_is(tmp_path: Path) -> None:
    said = {
        "semicolons": "a;b;label\n1;2;0\n",
        "semicolons.": "a;b\n0,5;0,25\n",
        "tabs": "a\tb\tlabel\n1\t2\t0\n",
        "UTF-8": "ä,b\n1,2\n".encode("latin-1"),
        "without a schema": "a,b\n1,red\n",
    }
    for words, content in said.items():
        path = tmp_path / "data.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(DataError, match=words.rstrip(".")):
            load(path)
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        load(tmp_path / "folder.npz")
