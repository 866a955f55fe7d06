"""IDX files and folders of images are read as they were written, and refused in one sentence where they are not."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from privot.data.loading import load
from privot.errors import DataError, UsageError

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 4, 5), dtype=np.uint8)
LABELS = np.array([3, 1, 4, 1, 5, 9], dtype=np.uint8)
CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx(values: np.ndarray) -> bytes:
    code = CODES[values.dtype.str[1:]]
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, code, values.ndim, *values.shape)
    return header + values.astype(values.dtype.newbyteorder(">")).tobytes()


def refusal(path: Path, **stated: Any) -> str:
    with pytest.raises(DataError) as refused:
        load(path, **stated)
    message = str(refused.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("names", [("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
                                   ("t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"),
                                   ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
                                   ("TRAIN-IMAGES-IDX3-UBYTE.GZ", "TRAIN-LABELS-IDX1-UBYTE"),
                                   ("train-images-idx3-ubyte", "train-labels-idx1-ubyte.gz")])  # fmt: skip
def test_idx_images_come_with_the_labels_beside_them(tmp_path: Path, names: tuple[str, str]) -> None:
    for name, values in zip(names, (PIXELS, LABELS), strict=True):
        content = idx(values)
        (tmp_path / name).write_bytes(gzip.compress(content) if name.lower().endswith(".gz") else content)
    data = load(tmp_path / names[0])
    np.testing.assert_array_equal(data.x, PIXELS.reshape(6, 20))
    np.testing.assert_array_equal(data.y, LABELS)


@pytest.mark.parametrize("kind", CODES)
def test_every_type_of_idx_is_read_big_endian(tmp_path: Path, kind: str) -> None:
    values = (np.arange(24).reshape(2, 3, 4) * 5).astype(kind)
    (tmp_path / "a.idx").write_bytes(idx(values))
    data = load(tmp_path / "a.idx")
    np.testing.assert_array_equal(data.x, values.reshape(2, 12))
    assert data.y is None


def test_bad_idx_is_refused(tmp_path: Path) -> None:
    good = idx(PIXELS)
    bomb = b"\0\0\x08\x03" + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1)
    for name, content, words in [
        ("cut", good[:-1], "cut short"),
        ("long", good + b"\0", "longer than its header"),
        ("header", good[:9], "cut short"),
        ("empty", b"", "does not start"),
        ("magic", b"\1" + good[1:], "does not start"),
        ("axes", b"\0\0\x08\0", "does not start"),
        ("type", good[:2] + b"\x0a" + good[3:], "type code 0x0a"),
        ("none", idx(PIXELS[:0]), "holds no records"),
        ("narrow", idx(PIXELS[:, :0]), "holds no records"),
        ("labels", idx(LABELS), "one value per record"),
        ("bomb", bomb, "more than the 512 MiB"),
        ("promise", b"\0\0\x08\x02" + struct.pack(">2I", 2**13, 2**12), "cut short"),
        ("nan", idx(np.full((2, 2), np.nan)), "missing or infinite"),
    ]:
        (tmp_path / f"{name}.idx").write_bytes(content)
        assert words in refusal(tmp_path / f"{name}.idx")
        (tmp_path / f"{name}.idx.gz").write_bytes(gzip.compress(content))
        assert words in refusal(tmp_path / f"{name}.idx.gz")
    (tmp_path / "plain.idx.gz").write_bytes(good)
    assert "not compressed" in refusal(tmp_path / "plain.idx.gz")
    (tmp_path / "half.idx.gz").write_bytes(gzip.compress(good)[:-12])
    assert "damaged" in refusal(tmp_path / "half.idx.gz")


def test_idx_images_without_their_labels_are_refused(tmp_path: Path) -> None:
    images, labels = tmp_path / "train-images-idx3-ubyte", tmp_path / "train-labels-idx1-ubyte"
    images.write_bytes(idx(PIXELS))
    assert "'train-labels-idx1-ubyte'" in refusal(images)
    labels.write_bytes(idx(LABELS[:5]))
    assert "one label per record" in refusal(images)
    labels.write_bytes(idx(LABELS.astype("f4")))
    assert "whole number" in refusal(images)
    labels.write_bytes(idx(PIXELS))
    assert "whole number" in refusal(images)


def fill(folder: Path, images: dict[str, np.ndarray]) -> None:
    for name, pixels in images.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / name)


def test_sub_folders_are_the_stated_classes_in_their_order(tmp_path: Path) -> None:
    order = {"cat/2.png": PIXELS[1], "ant/b.PNG": PIXELS[0], "cat/10.png": PIXELS[2]}
    fill(tmp_path / "zoo", order)
    (tmp_path / "zoo/.cache").mkdir()
    (tmp_path / "zoo/cat/.DS_Store").write_bytes(b"x")
    (tmp_path / "zoo/README.txt").write_text("animals")
    (tmp_path / "zoo/empty").mkdir()
    data = load(tmp_path / "zoo", classes=("dodo", "cat", "ant", "empty"), shape=(4, 5))
    np.testing.assert_array_equal(data.x, PIXELS[[2, 1, 0]].reshape(3, 20))
    np.testing.assert_array_equal(data.y, [1, 1, 2])
    assert data.names == ("dodo", "cat", "ant", "empty")
    bare = load(tmp_path / "zoo", classes=0)
    assert (bare.y, bare.names) == (None, None)
    np.testing.assert_array_equal(np.sort(bare.x, axis=0), np.sort(data.x, axis=0))


def test_class_names_are_stated_and_unknown_sub_folders_refused(tmp_path: Path) -> None:
    fill(tmp_path / "zoo", {"cat/1.png": PIXELS[0], "jane-doe/1.png": PIXELS[1]})
    with pytest.raises(UsageError, match="class names are public and stated"):
        load(tmp_path / "zoo")
    message = refusal(tmp_path / "zoo", classes=("ant", "cat"))
    assert "none of the 2 stated classes" in message
    assert "jane" not in message
    assert "names 0 to N" in refusal(tmp_path / "zoo", classes=2)
    for bad in (("cat", "cat"), ("cat", ""), ("cat", ".x"), ("cat ", "ant"), "cat", ["cat", 1], 2.0, True):
        with pytest.raises(UsageError):
            load(tmp_path / "zoo", classes=bad)


def test_a_number_of_classes_stands_for_their_numbers(tmp_path: Path) -> None:
    fill(tmp_path / "a", {"2/1.png": PIXELS[0], "0/1.png": PIXELS[1]})
    data = load(tmp_path / "a", classes=3)
    np.testing.assert_array_equal(data.y, [0, 2])
    assert data.names == ("0", "1", "2")
    assert "none of the 2 stated classes" in refusal(tmp_path / "a", classes=2)


def test_every_image_has_the_stated_shape(tmp_path: Path) -> None:
    fill(tmp_path / "a", {"c/1.png": PIXELS[0], "c/2.png": PIXELS[1]})
    assert load(tmp_path / "a", classes=("c",), shape=(4, 5)).x.shape == (2, 20)
    for shape, words in (((5, 4), "stated are 4 × 5 L"), ((4, 5, 3), "stated are 5 × 4 RGB")):
        assert f"File 1 by name in 'c' is 5 × 4 L, {words}" in refusal(tmp_path / "a", classes=("c",), shape=shape)
    for shape in ((4, 5, 2), (20,), (2, 2, 5, 1)):
        with pytest.raises(UsageError, match="shape of an image in a folder"):
            load(tmp_path / "a", classes=("c",), shape=shape)


@pytest.mark.parametrize("channels", [3, 4])
def test_colours_are_flattened_last(tmp_path: Path, channels: int) -> None:
    pixels = np.arange(2 * 3 * channels, dtype=np.uint8).reshape(2, 3, channels)
    fill(tmp_path / "a", {"c/1.png": pixels})
    np.testing.assert_array_equal(load(tmp_path / "a", classes=("c",)).x, pixels.reshape(1, -1))


def test_jpeg_is_read_as_pillow_reads_it(tmp_path: Path) -> None:
    fill(tmp_path / "a", {"c/1.jpg": PIXELS[0], "d/1.jpeg": PIXELS[1]})
    with Image.open(tmp_path / "a/d/1.jpeg") as image:
        np.testing.assert_array_equal(load(tmp_path / "a", classes=("c", "d")).x[1], np.asarray(image).reshape(-1))


def test_bad_folders_are_refused_and_no_image_is_named(tmp_path: Path) -> None:
    fill(tmp_path / "a", {"c/jane-doe-1.png": PIXELS[0], "c/jane-doe-2.png": PIXELS[1]})
    second = tmp_path / "a/c/jane-doe-2.png"
    whole = second.read_bytes()

    def said(words: str) -> None:
        message = refusal(tmp_path / "a", classes=("c",))
        assert words in message
        assert "jane" not in message

    for content in (whole[: len(whole) // 2], b"", b"GIF89a", whole[:20] + b"\xff" * 8 + whole[28:]):
        second.write_bytes(content)
        said("File 2 by name in 'c' cannot be read")
    second.unlink()
    for pixels, words in ((PIXELS[0].T, "4 × 5 L, the first image is 5 × 4 L"), (np.stack([PIXELS[0]] * 3, -1), "RGB")):
        fill(tmp_path / "a", {"c/jane-doe-2.png": np.ascontiguousarray(pixels)})
        said(words)
    Image.fromarray(PIXELS[0]).convert("P").save(second)
    said("mode P")
    Image.fromarray(PIXELS[0]).save(second, format="GIF")
    said("cannot be read")
    second.unlink()
    second.mkdir()
    said("is no image")
    second.rmdir()
    (tmp_path / "a/c/jane.txt").write_text("x")
    said("is no image")
    (tmp_path / "a/c/jane.txt").unlink()
    fill(tmp_path / "a", {"jane.png": PIXELS[0]})
    said("outside its sub-folders")
    (tmp_path / "flat").mkdir()
    assert "without sub-folders" in refusal(tmp_path / "flat")
    (tmp_path / "flat/c").mkdir()
    assert "hold no images" in refusal(tmp_path / "flat", classes=("c",))


@pytest.mark.parametrize("side", [5_000, 12_000, 60_000])
def test_what_would_unpack_to_too_much_is_refused_before_it_is_unpacked(tmp_path: Path, side: int) -> None:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">2I5B", side, side, 8, 0, 0, 0, 0))
    (tmp_path / "a/c").mkdir(parents=True)
    (tmp_path / "a/c/1.png").write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", b"") + chunk(b"IEND", b""))
    assert "pixels" in refusal(tmp_path / "a", classes=("c",))
