"""`privot schema dictionary`: the names of a table's columns, and nothing else of it, for a person to fill in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from privot.cli import run

SECRET = "Ulm-7731"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text(f'age,"home, city",ill\n41,{SECRET},no\n')
    return "people.csv"


def test_the_dictionary_has_every_column_and_no_value(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "dictionary", table, "--out", "dictionary.json"]) == 0
    text = Path("dictionary.json").read_text()
    asked = {"use": "keep, drop or unit?"}
    assert json.loads(text) == {"age": asked, "home, city": asked, "ill": asked}
    assert list(json.loads(text)) == ["age", "home, city", "ill"]
    said = capsys.readouterr().out
    assert SECRET not in text + said
    # as it is, it says nothing public, and nothing is taken from the records instead
    assert run(["schema", "propose", "--dictionary", "dictionary.json", "--out", "schema.json"]) == 2
    assert "Nothing public is known about the values" in capsys.readouterr().err


def test_the_lines_it_prints_are_what_a_schema_is_proposed_from(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "dictionary", table, "--out", "dictionary.json"]) == 0
    said = capsys.readouterr().out
    shown = [json.loads("{" + part.partition("}")[0] + "}") for part in said.split("{")[1:]]
    assert len(shown) == 7
    for hints in shown:
        about = hints if "use" in hints else hints | {"missing": True}
        Path("one.json").write_text(json.dumps({"age": about, "ill": {"categories": ["no", "yes"]}}))
        Path("schema.json").unlink(missing_ok=True)
        assert run(["schema", "propose", "--dictionary", "one.json", "--out", "schema.json"]) == 0, hints


def propose(hints: object, *more: str) -> int:
    Path("mine.json").write_text(json.dumps(hints))
    Path("schema.json").unlink(missing_ok=True)
    return run(["schema", "propose", "--dictionary", "mine.json", "--out", "schema.json", *more])


def test_columns_are_kept_dropped_or_the_unit(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "dictionary", table, "--out", "dictionary.json"]) == 0
    begun = json.loads(Path("dictionary.json").read_text())
    begun["ill"] |= {"categories": ["no", "yes"]}
    assert propose(begun) == 2
    assert "column 'age', 'home, city'" in capsys.readouterr().err
    for unsaid in ({"drop": True}, {"use": "drop"}, {"use": "keep, drop or unit?", "drop": True, "low": 0}):
        assert propose(begun | {"age": unsaid, "home, city": {"use": "unit"}}) == 0, unsaid
        said = capsys.readouterr().out
        assert "1 columns, 2 dropped" in said
        assert "--unit 'home, city'" in said
        columns = json.loads(Path("schema.json").read_text())["columns"]
        assert columns[1:] == [{"name": "age", "drop": True}, {"name": "home, city", "drop": True}]
    # the same by header
    assert propose(begun | {"age": {"drop": True}, "home, city": {"drop": True}}, "--header", table) == 0
    capsys.readouterr()
    # and in a dictionary with a line per column
    Path("mine.csv").write_text("name,use,drop,values\nage,drop,,\nhome,,yes,\nill,keep,no,no|yes\n")
    assert run(["schema", "propose", "--dictionary", "mine.csv", "--out", "from-csv.json", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["dropped"], answer["unit"]) == (["age", "home"], None)


def test_the_words_of_booleans_are_asked_for(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert propose({"age": {"low": 0, "high": 120}, "ill": {"type": "boolean"}}) == 0
    assert "Written as false and true: ill." in capsys.readouterr().out
    assert propose({"age": {"low": 0, "high": 120}, "ill": {"type": "boolean", "categories": [0, 1]}}) == 0
    assert "Written as" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("age", "home", "code", "said"),
    [
        ({"use": "drop"}, {"use": "keep"}, 2, "Nothing public is known about the values of column 'home'"),
        ({"use": "unit"}, {"use": "unit"}, 2, "two units, 'age' and 'home'"),
        ({"use": "unit", "drop": True}, {"use": "drop"}, 3, "drops column 'age' and uses it otherwise"),
        ({"use": "loose"}, {"use": "drop"}, 3, "say keep, drop or unit"),
        ({"use": ["drop"]}, {"use": "drop"}, 3, "say keep, drop or unit"),
        ({"drop": "yes"}, {"use": "drop"}, 3, "true or false"),
    ],
)
def test_contradictory_uses_are_one_sentence(
    table: str, age: object, home: object, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert propose({"age": age, "home": home, "ill": {"categories": ["no", "yes"]}}) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--unit", "home, city"], ["--unit", "home, city", "--dry-run"]])
def test_a_column_that_the_schema_lacks_is_refused_before_a_record_is_read(
    table: str, more: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privot.tables.table_files.csv_chunks", None)
    monkeypatch.setattr("privot.tables.unit_column.csv_chunks", None)
    assert propose({"age": {"low": 0, "high": 120}, "home, city": {"use": "drop"}}) == 0
    terms = ["--schema", "schema.json", "--epsilon", "1", "--delta", "1e-5", "--adjacency", "add-remove"]
    capsys.readouterr()
    assert run(["synth", table, *terms, "--out", "made", *more]) == 3
    said = capsys.readouterr().err
    assert "The table has column 'ill', which the schema lacks" in said
    assert SECRET not in said
    assert not Path("made").exists()


def test_files_of_partitions_and_related_tables_are_checked_too(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert propose({"age": {"low": 0, "high": 120}, "home, city": {"use": "unit"}}) == 0
    terms = ["--schema", "schema.json", "--epsilon", "1", "--delta", "1e-5", "--adjacency", "add-remove", "--dry-run"]
    terms += ["--out", "made"]
    assert run(["synth", "peop*.csv", *terms, "--unit", "home, city", "--ledger", "l"]) == 3
    assert "column 'ill', which the schema lacks" in capsys.readouterr().err
    Path("stays.csv").write_text('"home, city",age\nUlm,4\n')
    related = ["--schema", "schema.json", "--unit", "home, city"]
    assert run(["synth", table, "stays.csv", *terms, *related]) == 3
    assert "people.csv: The table has column 'ill'" in capsys.readouterr().err


def test_a_dictionary_that_may_be_filled_in_is_not_overwritten(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("dictionary.json").write_text("mine")
    assert run(["schema", "dictionary", table, "--out", "dictionary.json"]) == 2
    assert Path("dictionary.json").read_text() == "mine"
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize("first", [f"{SECRET},{SECRET},3", f"{SECRET},,3"])
def test_a_first_line_that_cannot_be_names_is_refused_and_not_quoted(
    table: str, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(table).write_text(f"{first}\n1,2,3\n")
    assert run(["schema", "dictionary", table, "--out", "dictionary.json"]) == 3
    printed = capsys.readouterr()
    assert "must name every column" in printed.err
    assert SECRET not in printed.err + printed.out
    assert not Path("dictionary.json").exists()


def test_a_table_without_a_schema_is_told_where_to_begin(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    terms = ["--epsilon", "1", "--delta", "1e-5", "--adjacency", "add-remove", "--out", "made"]
    assert run(["synth", table, *terms]) == 2
    assert "privot schema dictionary" in capsys.readouterr().err
    assert run(["synth", "images.npz", *terms]) == 2
    assert "schema" not in capsys.readouterr().err
    assert run(["schema", "propose", "--header", table, "--out", "schema.json"]) == 2
    assert "privot schema dictionary" in capsys.readouterr().err


def test_marks_in_names_are_written_out_in_every_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "grade\u202e(ega)\x1b\U000e0001"
    (tmp_path / "d.json").write_text(json.dumps({name: {"categories": ["a", "b"]}, "age": {"low": 0, "high": 9}}))
    propose = ["schema", "propose", "--dictionary", str(tmp_path / "d.json"), "--label", name]
    assert run([*propose, "--out", str(tmp_path / "s.json")]) == 0
    assert "grade\\u202e(ega)\\u001b\\udb40\\udc01" in capsys.readouterr().out
    # JSON means the same
    assert run([*propose, "--out", str(tmp_path / "t.json"), "--json"]) == 0
    said = capsys.readouterr().out
    assert "\u202e" not in said
    assert json.loads(said)["label"] == name
    assert run([*propose, "--table", name, "--out", str(tmp_path / name)]) == 2
    assert run(["sample", f"nowhere\u202e{name}", "--out", str(tmp_path / "x.csv")]) == 3
    said = capsys.readouterr().err
    assert not any(mark in said for mark in "\u202e\x1b\U000e0001")
