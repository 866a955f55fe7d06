"""Whose an image of a folder is: read from one CSV file, by that image's line alone; what is unclear is refused."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from privot import Vault
from privot.accounting.events import event_from_dict, leaves
from privot.audit.simulation.noiseless import NoNoise
from privot.cli import run
from privot.common.privacy_unit import Unit
from privot.data.loading import load
from privot.errors import DataError, UsageError
from privot.kinds import Files, Images, Vectors
from privot.ledger import Ledger
from privot.mechanisms import MeanEmbedding
from privot.noise import SystemNoise
from privot.opening.limits import UNPACKED_VARIABLE
from privot.synthesis.neural.features.fourier import Fourier

NAMES, SHAPE = ("healthy", "ill"), (4, 4)
STATED: dict[str, Any] = {"classes": NAMES, "shape": SHAPE}
TOLD: dict[str, Any] = {"schema": Images(SHAPE, NAMES, clip=1.0), "adjacency": "add-remove", "budget": (9.0, 1e-6)}
SECRET = "CHILD-"


def folder(place: Path, owned: list[tuple[str, str, np.ndarray]]) -> Path:
    """A folder of (class, unit, pixels) and the file of their units; images are numbered in this order, by class."""
    place.mkdir()
    lines, numbers = ["file_name,age,child"], dict.fromkeys(NAMES, 0)
    for name, whose, pixels in owned:
        (place / name).mkdir(exist_ok=True)
        Image.fromarray(pixels).save(place / name / f"{numbers[name]}.png")
        lines.append(f"{name}/{numbers[name]}.png,7,{whose}")
        numbers[name] += 1
    (place / "units.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


def images(count: int, units: int = 5, seed: int = 0) -> list[tuple[str, str, np.ndarray]]:
    dice = np.random.default_rng(seed)
    pixels = dice.integers(0, 256, (count, *SHAPE), dtype=np.uint8)
    return [(NAMES[n % 2], f"{SECRET}{n % units}", one) for n, one in enumerate(pixels)]


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    return folder(tmp_path / "scans", images(12))


def read(scans: Path, name: str = "units.csv", **more: Any) -> Any:
    return load(scans, unit="child", unit_file=scans / name, **{**STATED, **more})


def test_each_image_has_the_unit_of_its_own_line(scans: Path) -> None:
    plain, owned = load(scans, **STATED), read(scans)
    np.testing.assert_array_equal(plain.x, owned.x)
    np.testing.assert_array_equal(plain.y, owned.y)
    wanted = {one.tobytes(): whose for _, whose, one in images(12)}
    assert [wanted[row.astype(np.uint8).tobytes()] for row in owned.x] == owned.units
    # without labels the sub-folders are no classes, and the paths stay the same
    assert sorted(read(scans, classes=0).units) == sorted(owned.units)


def test_neither_the_order_of_lines_nor_other_lines_and_columns_have_a_say(scans: Path) -> None:
    first, *lines = (scans / "units.csv").read_text().splitlines()
    moved = [f"child,{first.split(',')[0]}"] + [f"{line.split(',')[2]},{line.split(',')[0]}" for line in lines[::-1]]
    others = ["healthy/gone.png,a", "elsewhere/1.png,", "healthy/sub/1.png,b"]
    (scans / "more.csv").write_text(
        "\r\n".join([moved[0], *[",".join(o.split(",")[::-1]) for o in others], *moved[1:]])
    )
    (scans / "more.csv.gz").write_bytes(gzip.compress((scans / "more.csv").read_bytes()))
    for name in ("more.csv", "more.csv.gz"):
        assert read(scans, name).units == read(scans).units


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("file_name,child\nhealthy/0.png,a\n", "has no line in the file of units"),
        ("file_name,child\n{all}healthy/0.png,a\n", "for the second time"),
        ("file_name,child\n{all}/etc/1.png,a\n", "names no file in the folder"),
        ("file_name,child\n{all}../scans/1.png,a\n", "names no file in the folder"),
        ("file_name,child\n{all}./healthy/9.png,a\n", "names no file in the folder"),
        ("file_name,child\n{all}healthy\\9.png,a\n", "names no file in the folder"),
        ("file_name,child\n{all},a\n", "names no file in the folder"),
        ("file_name,child\n{all}healthy/9.png\n", "has 1 cells, and the first has 2"),
        ('file_name,child\n{all}"healthy/9.png","a\nb"\n', "line break inside a cell"),
        ("path,child\n{all}", "no column 'file_name'"),
        ("file_name;child\n{all}", "no column 'file_name'"),
        ("file_name,child,child\n", "2 columns 'child'"),
        ("", "is empty"),
        ("file_name,child\n{all}\udcff", "not text in UTF-8"),
        ("\x1f\x8b", "cannot be read|no column"),
    ],
)
def test_what_is_unclear_is_refused_and_nothing_is_quoted(scans: Path, text: str, words: str) -> None:
    lines = [line.split(",") for line in (scans / "units.csv").read_text().splitlines()[1:]]
    whole = "".join(f"{path},{SECRET}7\n" for path, _, _ in lines)
    (scans / "bad.csv").write_bytes(text.replace("{all}", whole).encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=words) as refused:
        read(scans, "bad.csv")
    assert SECRET not in str(refused.value)
    assert ".png" not in str(refused.value).replace("healthy/17.png", "")


@pytest.mark.parametrize("fault", ["no line", "another shape", "no image", "a link", "closed"])
def test_a_sub_folder_that_is_no_stated_class_is_not_named(
    scans: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without labels a sub-folder may be called after the child whose images lie there."""
    place = scans / f"{SECRET}7"
    (scans / "healthy").rename(place)
    text = (scans / "units.csv").read_text().replace("healthy/", f"{SECRET}7/")
    (scans / "units.csv").write_text(text.replace("7/0.png", "7/gone.png") if fault == "no line" else text)
    if fault == "another shape":
        Image.fromarray(np.zeros((5, 4), dtype=np.uint8)).save(place / "0.png")
    elif fault == "no image":
        (place / "0.png").unlink()
        (place / "0.png").mkdir()
    elif fault == "a link":
        (place / "0.png").unlink()
        (place / "0.png").symlink_to("1.png")
    elif fault == "closed":
        closed, plain = place, Path.iterdir

        def iterdir(self: Path) -> Any:
            if self == closed:
                raise PermissionError
            return plain(self)

        monkeypatch.setattr(Path, "iterdir", iterdir)
    with pytest.raises(DataError, match="sub-folder 1") as refused:
        read(scans, classes=0)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("value", ["", " ", "NA", "none", "?"])
def test_an_image_that_is_nobodys_is_refused_as_a_row_of_a_table_is(scans: Path, value: str) -> None:
    text = (scans / "units.csv").read_text().replace(f",{SECRET}3\n", f",{value}\n")
    (scans / "bad.csv").write_text(text)
    with pytest.raises(DataError, match="'child' has a missing value"):
        Vault.open(Files(scans, unit_file=scans / "bad.csv"), unit="child", **TOLD)


def test_a_link_may_be_the_image_of_another_unit_so_it_is_refused(scans: Path) -> None:
    text = (scans / "units.csv").read_text()
    (scans / "units.csv").write_text(text + "healthy/link.png,7,b\n")
    for link in (os.symlink, os.link):
        link(scans / "healthy" / "0.png", scans / "healthy" / "link.png")
        with pytest.raises(DataError, match="is a link, so it may be an image of two units"):
            read(scans)
        (scans / "healthy" / "link.png").unlink()
    # a whole class that lies elsewhere in the folder
    (scans / "ill").rename(scans / ".ill")
    (scans / "ill").symlink_to(".ill")
    with pytest.raises(DataError, match="may be an image of two units"):
        read(scans)


def test_a_file_of_units_is_opened_like_every_foreign_file(scans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"'gone\.csv' is not there"):
        read(scans, "gone.csv")
    with pytest.raises(DataError, match="a folder, a device or a pipe"):
        read(scans, "healthy")
    monkeypatch.setenv(UNPACKED_VARIABLE, "3000")
    with pytest.raises(DataError, match=r"'units\.csv' unpacks to more than"):
        read(scans)


def test_a_unit_that_the_data_cannot_have_is_wrong_usage(scans: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(4), child=np.arange(4))
    file = scans / "units.csv"
    for path, given in (
        (scans, {"unit": "child", **STATED}),
        (scans, {"unit_file": file, **STATED}),
        (scans, {"unit": "file_name", "unit_file": file, **STATED}),
        (tmp_path / "a.npz", {"unit": "child", "unit_file": file}),
    ):
        with pytest.raises(UsageError):
            load(path, **given)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            Vault.open(
                Files(path, unit_file=given.get("unit_file")),
                Images(SHAPE, NAMES, clip=1.0) if path == scans else Vectors(clip=1.0),
                unit=given.get("unit"), adjacency="add-remove", budget=(1.0, 1e-6),
            )  # fmt: skip


@pytest.mark.parametrize("planted", [1, 5, 500])
@pytest.mark.parametrize("per_unit", [1, 5])
def test_a_child_moves_sums_by_at_most_what_is_charged(tmp_path: Path, planted: int, per_unit: int) -> None:
    """Folders with and without one child of equal images, whose files are numbered in other orders."""
    dice, child = np.random.default_rng(planted), ("ill", "planted", np.full(SHAPE, 200, dtype=np.uint8))
    mechanism = MeanEmbedding(Fourier(16, 40, [200.0], 1, 0.0, 255.0), 1.0, labels=True)

    def joint(place: Path, owned: list[Any]) -> tuple[np.ndarray, float]:
        scans = folder(place, [owned[number] for number in dice.permutation(len(owned))])
        told = {**TOLD, "budget": (1e300, 0.5), "unit": Unit("child", per_unit)}
        release = Vault.open(Files(scans, unit_file=scans / "units.csv"), noise=NoNoise(SystemNoise()), **told).release(
            mechanism, purpose="test", allow_unproven=True
        )
        assert release.guarantee.unit == Unit("child", per_unit)
        value: Any = release.value
        a, b = (release.public["sigma"] / release.public[name] for name in ("sums_sigma", "counts_sigma"))
        ((event, _),) = leaves(event_from_dict(dict(release.guarantee.events[0])))
        return np.append(a * value["sums"], b * value["counts"]), float(event.sensitivity)  # type: ignore[attr-defined]

    # others have more images than take part, so that a choice by file order would show
    others = images(60, units=6)
    whole, charged = joint(tmp_path / "with", others + [child] * planted)
    rest, _ = joint(tmp_path / "without", others)
    moved = float(np.linalg.norm(whole - rest))
    assert moved <= charged == pytest.approx(per_unit)
    assert moved == pytest.approx(min(planted, per_unit), rel=1e-2)


def test_one_ledger_has_one_unit_and_one_file_of_units(scans: Path, tmp_path: Path) -> None:
    owned = Files(scans, unit_file=scans / "units.csv")
    with Ledger.create(tmp_path / "a.ledger") as book:
        Vault.open(owned, ledger=book, unit="child", **TOLD)
        Vault.open(owned, ledger=book, unit=Unit("child", 3), **TOLD)
        with pytest.raises(UsageError, match="protects one child"):
            Vault.open(scans, ledger=book, **TOLD)
        text = (scans / "units.csv").read_text()
        (scans / "units.csv").write_text(text.replace(f"{SECRET}3", f"{SECRET}4"))
        with pytest.raises(UsageError, match="grouped otherwise"):
            Vault.open(owned, ledger=book, unit="child", **TOLD)


def test_a_budget_set_beforehand_is_for_records_with_or_without_labels(scans: Path) -> None:
    owned = Files(scans, unit_file=scans / "units.csv")
    asked = ["--data", str(scans), "--epsilon", "9", "--delta", "1e-6", "--adjacency", "add-remove", "--shape", "4,4"]
    asked += ["--unit", "child", "--set", f"unit_file={scans / 'units.csv'}"]
    for name, classes in (("with", ["--classes", ",".join(NAMES)]), ("without", [])):
        assert run(["ledger", "init", str(scans / f"{name}.ledger"), *asked, *classes]) == 0
        with Ledger.open(scans / f"{name}.ledger") as book:
            for stated in (NAMES, 0):
                told = {**TOLD, "schema": Images(SHAPE, stated, clip=1.0), "unit": "child"}
                if (stated == 0) == (classes == []):
                    Vault.open(owned, ledger=book, **told)
                    continue
                with pytest.raises(UsageError, match="or other labels"):
                    Vault.open(owned, ledger=book, **told)
    # without a unit labels do not matter, so there is nothing to state
    assert run(["ledger", "init", str(scans / "c.ledger"), *asked[:-4], "--classes", "healthy,ill"]) == 2


@pytest.mark.slow
def test_the_commands_protect_the_unit_of_a_folder(scans: Path, capsys: pytest.CaptureFixture[str]) -> None:
    public = ["--shape", "4,4"]
    terms = "--epsilon 4 --delta 1e-6 --adjacency add-remove".split()
    unit = ["--unit", "child", "--set", f"unit_file={scans / 'units.csv'}"]
    ledger = ["ledger", "init", f"{scans}.ledger", "--data", str(scans), "--epsilon", "9", *terms[2:], *public]
    assert run([*ledger, "--set", unit[3]]) == 2
    assert run([*ledger, *unit]) == 0
    quick = "--classes 0 --range 0,255 --set steps=5 --samples 30 --seed 1 --device cpu --json".split()
    made = ["synth", str(scans), *terms, *public, *quick, "--out", str(scans.parent / "made")]
    capsys.readouterr()
    for wrong in ([], unit[:2], unit[2:], [*unit, "--adjacency", "replace-one"], [*unit, "--method", "sinkhorn"]):
        assert run([*made, *wrong]) == 2
        assert SECRET not in capsys.readouterr().err
    assert run([*made, *unit, "--per-unit", "2"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["guarantee"]["unit"] == {"column": "child", "rows": 2}
    page = (scans.parent / "made" / "report.html").read_text(encoding="utf-8")
    assert "one child, at most 2 rows" in page
    assert "--unit child --per-unit 2" in page
    for file in (scans.parent / "made").rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes()
    (scans.parent / "made" / "report.html").unlink()
    assert run(["synth", "--resume", "--out", str(scans.parent / "made")]) == 0
    capsys.readouterr()
    count = ["release", "count", str(scans), "--epsilon", "1", *terms[2:], *public, *unit, "--json"]
    assert run(count) == 0
    assert json.loads(capsys.readouterr().out)["guarantee"]["unit"] == {"column": "child", "rows": 1}
    (scans / "units.csv").write_text("file_name,child\n")
    assert run(count) == 3
    assert SECRET not in capsys.readouterr().err
