"""Hostile archives of public encoders: one sentence, no code of theirs, no file, no output."""

from __future__ import annotations

import io
import json
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from encoder_networks import SHAPE, honest, saved
from torch import nn

from privot.errors import DataError, UsageError
from privot.synthesis import PublicEncoder
from privot.synthesis.neural.features.encoder_features import EncoderFeatures

Parts = list[tuple[zipfile.ZipInfo, bytes]]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    with zipfile.ZipFile(saved(honest(), tmp_path_factory.mktemp("encoder"))) as archive:
        return [(info, archive.read(info)) for info in archive.infolist()]


def packed(parts: Parts, kind: int = zipfile.ZIP_STORED) -> bytes:
    held = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(held, "w", kind) as archive:
        # of two files of one name
        warnings.simplefilter("ignore")
        for info, content in parts:
            archive.writestr(info, content, kind)
    return held.getvalue()


def part(parts: Parts, ending: str) -> int:
    return next(i for i, (info, _) in enumerate(parts) if info.filename.endswith(ending))


def twice(parts: Parts) -> bytes:
    return packed([*parts, parts[part(parts, "model.json")]])


def two_models(parts: Parts) -> bytes:
    other = zipfile.ZipInfo("another/models/model.json")
    return packed([*parts, (other, parts[part(parts, "model.json")][1])])


def linked(parts: Parts) -> bytes:
    changed, at = list(parts), part(parts, "weight_0")
    link = zipfile.ZipInfo(parts[at][0].filename)
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    changed[at] = (link, b"/dev/zero")
    return packed(changed)


def entries(data: bytes) -> list[int]:
    """Where the entries of an archive's list of files start; another archive may lie inside it."""
    end = data.rfind(b"PK\x05\x06")
    count, _, start = struct.unpack("<HII", data[end + 10 : end + 20])
    found = []
    for _ in range(count):
        found.append(start)
        start += 46 + sum(struct.unpack("<HHH", data[start + 28 : start + 34]))
    return found


def claimed(parts: Parts) -> bytes:
    """The list of files says that a tensor has 2 GiB, in its packed and its unpacked size."""
    data = bytearray(packed(parts))
    at = entries(data)[part(parts, "weight_0")]
    data[at + 20 : at + 28] = struct.pack("<II", 2**31, 2**31)
    return bytes(data)


def overlapping(parts: Parts) -> bytes:
    """Two entries of the list stand for the same bytes."""
    data = bytearray(packed(parts))
    first, second, *_ = entries(data)
    data[second + 42 : second + 46] = data[first + 42 : first + 46]
    return bytes(data)


def swollen(parts: Parts) -> bytes:
    """Half a kilobyte that unpacks to more than the limit, which these tests lower."""
    changed, at = list(parts), part(parts, "weight_0")
    changed[at] = (parts[at][0], bytes(40 << 20))
    return packed(changed, zipfile.ZIP_DEFLATED)


def in_text(old: str, new: str) -> Callable[[Parts], bytes]:
    def change(parts: Parts) -> bytes:
        changed, at = list(parts), part(parts, "model.json")
        text = json.dumps(json.loads(parts[at][1]))
        assert old in text
        changed[at] = (parts[at][0], text.replace(old, new, 1).encode())
        return packed(changed)

    return change


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        twice,
        two_models,
        linked,
        claimed,
        overlapping,
        swollen,
        in_text('"as_float": ', '"as_float": NaN, "other": '),
        in_text('"as_float": ', '"as_float": 1e999, "other": '),
        in_text('"nodes": [', '"nodes": [], "nodes": ['),
        in_text('"nodes": [', '"nodes": ' + "[" * 300 + "]" * 300 + ', "more": ['),
        in_text('"as_int": ', '"as_int": ' + "9" * 60),
        in_text("torch.ops.aten.conv2d.default", "torch.ops.aten.__class__.default"),
        in_text("torch.ops.aten.conv2d.default", "torch.ops.os.system"),
        in_text("torch.ops.aten.conv2d.default", "__import__('os').system('true')"),
        in_text("torch.ops.aten.conv2d.default", "torch.ops.aten.set_.source_Tensor"),
        in_text("torch.ops.aten.conv2d.default", "torch.ops.aten.from_file.default"),
        in_text("torch.ops.aten.conv2d.default", "torch.ops.aten._print.default"),
    ],
)
def test_hostile_archives_end_in_one_sentence(
    change: Callable[[Parts], bytes],
    parts: Parts,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PRIVOT_MAX_UNPACKED", "32MiB")
    path = tmp_path / "hostile.pt2"
    path.write_bytes(change(parts))
    with pytest.raises((DataError, UsageError)) as found:
        EncoderFeatures(PublicEncoder(path), SHAPE, 4, [0.5], 1)
    said = str(found.value)
    assert said.endswith(".")
    assert said.count(". ") == 0
    assert "\n" not in said
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == [path]


def test_the_archive_is_read_unchanged_by_these_helpers(parts: Parts, tmp_path: Path) -> None:
    """Else the refusals above could be of the helpers' own making."""
    path = tmp_path / "same.pt2"
    for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path.write_bytes(packed(parts, kind))
        EncoderFeatures(PublicEncoder(path), SHAPE, 4, [0.5], 1)


def test_tensors_that_overlap_in_their_own_part_are_public_numbers_like_others(tmp_path: Path) -> None:
    """Strides of 0 inside one part, of which the file holds as many numbers as are read."""
    path = saved(nn.Sequential(nn.Flatten(), nn.Linear(192, 2, bias=False)), tmp_path)
    held = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(held, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("model_weights_config.json"):
                fields = json.loads(content)
                (entry,) = fields["config"].values()
                entry["tensor_meta"]["strides"] = [{"as_int": 0}, {"as_int": 1}]
                content = json.dumps(fields).encode()
            new.writestr(name, content)
    path.write_bytes(held.getvalue())
    features = EncoderFeatures(PublicEncoder(path), SHAPE, 4, [0.5], 1)
    x = torch.rand(5, 192, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        codes = features.codes(x)
    # both outputs have the same weights
    assert torch.equal(codes[:, 0], codes[:, 1])
    torch.testing.assert_close(codes.abs(), torch.full_like(codes, 0.5**0.5), atol=1e-9, rtol=0.0)
