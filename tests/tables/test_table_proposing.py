"""A schema is proposed from a sample that was declared public, and from no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from privot.errors import DataError, UsageError
from privot.tables import Schema, TableCodec, encode_file, propose_from_sample

SAMPLE = """day,code,amount,age,empty_sometimes,ill
2020-01-05,A,10.5,20,,no
2021-03-04,B,0.25,30,7,yes
2022-12-31,A,3,70,?,no
"""


def sample(folder: Path, text: str = SAMPLE) -> Path:
    path = folder / "public.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_types_ranges_and_categories_follow_from_the_sample(tmp_path: Path) -> None:
    schema = propose_from_sample(sample(tmp_path), "ill", public=True)
    assert [column.type for column in schema.columns] == [
        "date", "categorical", "continuous", "integer", "integer", "categorical",
    ]  # fmt: skip
    assert schema["code"].words == ("A", "B", "other")
    assert schema["ill"].words == ("no", "yes")
    assert schema["age"].range == (15.0, 75.0)
    # a tenth of the span would reach below 0, where the sample has nothing
    assert schema["amount"].range == pytest.approx((0.0, 11.525))
    assert [column.missing for column in schema.columns] == [False] * 4 + [True, False]


def test_what_is_proposed_reads_its_sample_and_survives_its_file(tmp_path: Path) -> None:
    path = sample(tmp_path)
    schema = propose_from_sample(path, "ill", public=True)
    schema.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == schema
    x, y = encode_file(path, TableCodec(schema), compact=True)
    assert x.shape == (3, 5)
    assert y is not None
    assert y.tolist() == [0, 1, 0]


def test_numbers_can_be_labels(tmp_path: Path) -> None:
    schema = propose_from_sample(sample(tmp_path, "a,k\n1,3\n2,1\n5,3\n"), "k", public=True)
    assert schema["k"].words == ("1", "3")


def test_nothing_is_read_unless_it_is_public(tmp_path: Path) -> None:
    for said in (False, None, "yes", 1):
        with pytest.raises(UsageError, match="public"):
            propose_from_sample(tmp_path / "does-not-exist.csv", public=said)  # type: ignore[arg-type]


def test_what_cannot_be_told_is_refused(tmp_path: Path) -> None:
    for text in ("a,b\n1,\n2,?\n", "a,b\n" + "".join(f"1,word {i}\n" for i in range(201))):
        with pytest.raises(DataError):
            propose_from_sample(sample(tmp_path, text), public=True)
    with pytest.raises(UsageError):
        propose_from_sample(sample(tmp_path), "nobody", public=True)


WORDS = [(0, 1), ("no", "yes"), ("No", "Yes"), ("false", "true"), ("False", "True"), ("n", "y"), ("f", "t")]


@pytest.mark.parametrize("words", WORDS)
def test_a_public_sample_says_how_booleans_are_written(words: tuple[str | int, str | int], tmp_path: Path) -> None:
    (tmp_path / "sample.csv").write_text(f"b,n\n{words[1]},1\n{words[0]},2\n{words[1]},7\n")
    column = propose_from_sample(tmp_path / "sample.csv", public=True)["b"]
    assert (column.type, column.categories) == ("boolean", words)
