"""`privot synth`, `sample`, `evaluate`, `schema` on tables: answers and exit codes; a refusal costs nothing."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot.accounting import Gaussian, account
from privot.cli import run
from privot.guarantee import Adjacency
from privot.jobs.tensor_files import read_tensors
from privot.release import Release
from privot.tables import Schema, TableCodec, encode_file, read_table, write_table

pytestmark = pytest.mark.slow

TERMS = "--epsilon 2 --delta 1e-6 --adjacency add-remove".split()
QUICK = "--samples 80 --seed 1 --device cpu".split()
PLAIN: dict[str, Any] = {
    "label": "ill",
    "columns": [
        {"name": "age", "type": "integer", "low": 0, "high": 99},
        {"name": "city", "type": "categorical", "categories": ["Ulm", "Bonn"], "missing": True},
        {"name": "ill", "type": "boolean", "categories": ["no", "yes"]},
    ],
}
ODD: dict[str, Any] = {
    "label": "outcome",
    "columns": [
        {"name": "admitted", "type": "date", "low": "2015-01-01", "high": "2024-12-31", "missing": True},
        {"name": "code", "type": "categorical", "categories": [f"D{i:02d}" for i in range(55)], "unknown": "other"},
        {"name": "cost", "type": "continuous", "low": 0, "high": 1e6, "scale": "log", "missing": True, "decimals": 2},
        {"name": "empty", "type": "continuous", "low": 0, "high": 1, "missing": True},
        {"name": "constant", "type": "integer", "low": 7, "high": 7},
        {"name": "stuck", "type": "integer", "low": 0, "high": 60},
        {"name": "outcome", "type": "categorical", "categories": ["home", "ward", "nobody"]},
    ],
}


class Place:
    """A folder with a table and its schema."""

    def __init__(self, folder: Path, schema: dict[str, Any], lines: list[str]) -> None:
        self.folder, self.data, self.schema = folder, folder / "data.csv", folder / "schema.json"
        self.data.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.schema.write_text(json.dumps(schema), encoding="utf-8")

    @property
    def codec(self) -> TableCodec:
        return TableCodec(Schema.load(self.schema))

    def synth(self, out: str, *more: str, data: Path | None = None, schema: Path | None = None) -> int:
        public = ["--schema", str(schema or self.schema)]
        return run(["synth", str(data or self.data), *TERMS, *QUICK, *public, "--out", str(self.folder / out), *more])

    def charges(self) -> int:
        """How often the ledger beside the data was charged; none without one."""
        from privot.ledger import Ledger

        path = self.folder / "data.csv.ledger"
        if not path.exists():
            return 0
        with Ledger.open(path) as book:
            return len(book.entries())


def plain_lines(count: int = 300) -> list[str]:
    dice = random.Random(0)
    lines = ["age,city,ill"]
    for _ in range(count):
        age = dice.randrange(100)
        lines.append(f"{age},{dice.choice(['Ulm', 'Bonn', ''])},{'yes' if age > dice.gauss(60, 15) else 'no'}")
    return lines


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, PLAIN, plain_lines())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """One synthesis that several tests look at, and none changes."""
    place = Place(tmp_path_factory.mktemp("made"), PLAIN, plain_lines())
    assert place.synth("out") == 0
    return place


def sentence(capsys: Any) -> str:
    # besides what the budget carries, which is said whatever becomes of the job
    lines = capsys.readouterr().err.splitlines(keepends=True)
    said = "".join(line for line in lines if "is private under add-remove" not in line)
    assert said.count("\n") == 1, said
    assert "Traceback" not in said
    return str(said)


def test_synth_writes_its_folder_and_sampling_needs_only_the_folder(capsys: Any, place: Place) -> None:
    assert place.synth("out", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert 1.98 < answer["guarantee"]["epsilon"] <= 2.0
    assert (answer["guarantee"]["adjacency"], answer["guarantee"]["standing"]) == ("add-remove", "proven")
    out = place.folder / "out"
    left = {p.name for p in out.iterdir()}
    assert {"generator.safetensors", "config.json", "guarantee.json", "synthetic.csv", "report.html"} <= left
    assert {c["name"] for c in json.loads((out / "figures.json").read_text())["columns"]} == {"age", "city", "ill"}
    assert not {"grid.png", "report-private.html"} & left
    page = (out / "report.html").read_text()
    assert "Synthetic columns" in page
    assert "How columns go together" in page
    assert "A moderate promise" in page
    assert "nothing else of the records was looked at" in page
    assert "http" not in page.replace("http-equiv", "")
    table = read_table(out / "synthetic.csv")
    assert list(table) == ["age", "city", "ill"]
    assert table.rows == 80
    place.codec.encode(table)
    # the pictures are of these rows, and of no others
    shown = {c["name"]: c for c in json.loads((out / "figures.json").read_text())["columns"]}
    for name in ("city", "ill"):
        counted = Counter("missing" if v in (None, "") else str(v) for v in table[name])
        assert dict(zip(shown[name]["words"], shown[name]["shares"], strict=True)) == {
            word: counted[word] / 80 for word in shown[name]["words"]
        }
    # resuming what is finished pays nothing and reads no data; neither does sampling
    place.data.unlink()
    before = (out / "synthetic.csv").read_bytes()
    assert place.synth("out", "--resume") == 0
    assert (out / "synthetic.csv").read_bytes() == before
    assert place.charges() == 1
    for name in ("a.csv", "b.csv", "c.csv.gz", "d.parquet"):
        assert run(["sample", str(out), "--count", "70", "--out", str(place.folder / name), "--seed", "3"]) == 0
    rows = [encode_file(place.folder / name, place.codec)[0] for name in ("a.csv", "b.csv", "c.csv.gz", "d.parquet")]
    for other in rows[1:]:
        np.testing.assert_array_equal(rows[0], other)
    assert run(["sample", str(out), "-n", "5", "--out", str(place.folder / "e.npz")]) == 3


def test_parquet_data_gives_synthetic_parquet_of_the_same_types(place: Place) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    write_table(
        place.codec.decode(*encode_file(place.data, place.codec)), place.folder / "p.parquet", place.codec.schema
    )
    assert place.synth("out", data=place.folder / "p.parquet") == 0
    ours, theirs = (
        parquet.read_schema(p) for p in (place.folder / "out/synthetic.parquet", place.folder / "p.parquet")
    )
    assert ours.equals(theirs)


def test_one_data_set_has_one_budget_in_any_file_and_schema(capsys: Any, made: Place) -> None:
    book = str(made.folder / "data.csv.ledger")
    capsys.readouterr()
    # the same records, as Parquet and in another order
    table = made.codec.decode(*encode_file(made.data, made.codec))
    turned = type(table)({name: table[name][::-1] for name in table})
    write_table(turned, made.folder / "turned.csv", made.codec.schema)
    assert made.synth("again", data=made.folder / "turned.csv", schema=made.schema) == 0
    assert "guards these very records" in capsys.readouterr().err
    assert made.synth("again2", "--ledger", book, data=made.folder / "turned.csv") == 4
    assert "above its budget" in sentence(capsys)
    # a wider range makes other numbers of the same file, and buys nothing
    wider = made.folder / "wider.json"
    wider.write_text(json.dumps(PLAIN).replace("99", "199"), encoding="utf-8")
    assert made.synth("again3", schema=wider) == 4
    assert "--new-records" in sentence(capsys)
    assert made.charges() == 1
    assert not (made.folder / "again3" / "job.json").exists()


def test_another_schema_gives_no_second_budget(capsys: Any, made: Place) -> None:
    wider = made.folder / "wider-still.json"
    wider.write_text(json.dumps(PLAIN).replace("99", "299"), encoding="utf-8")
    terms = "--epsilon 30 --delta 1e-6 --adjacency add-remove".split()
    book = str(made.folder / "data.csv.ledger")
    capsys.readouterr()
    link = made.folder / "link.csv"
    link.symlink_to(made.data)
    for data in (made.data, link):
        assert run(["ledger", "init", book, "--data", str(data), "--schema", str(wider), *terms]) == 4
        assert "--new-records" in sentence(capsys)
        assert made.synth("linked", data=data, schema=wider) == 4
        assert "--new-records" in sentence(capsys)


def test_a_schema_with_dates_beyond_the_calendar_sets_no_budget(capsys: Any, place: Place) -> None:
    for low, high in ((0, 3_000_000), (-(10**6), 0), (0, 10**15), (-700_000, 0)):
        columns = [{"name": "age", "type": "date", "low": low, "high": high}, *PLAIN["columns"][1:]]
        place.schema.write_text(json.dumps({**PLAIN, "columns": columns}), encoding="utf-8")
        assert place.synth("out") == 2
        assert "calendar" in sentence(capsys)
    assert not (place.folder / "data.csv.ledger").exists()


def test_a_budget_set_beforehand_refuses_a_larger_synthesis(capsys: Any, place: Place) -> None:
    book, schema = str(place.folder / "data.csv.ledger"), str(place.schema)
    terms = "--epsilon 1 --delta 1e-6 --adjacency add-remove".split()
    assert run(["ledger", "init", book, "--data", str(place.data), "--schema", schema, *terms]) == 0
    capsys.readouterr()
    assert place.synth("out") == 4
    assert "budget" in sentence(capsys)
    assert place.charges() == 0
    assert not (place.folder / "out" / "release.npz").exists()


def test_dates_missing_values_many_categories_and_constant_columns_are_synthesised(tmp_path: Path) -> None:
    dice = random.Random(1)
    lines = ["admitted,code,cost,empty,constant,stuck,outcome"]
    for _ in range(800):
        ill = dice.random()
        day = "" if dice.random() < 0.2 else str(date(2015, 1, 1) + timedelta(days=dice.randrange(3000)))
        cost = "NA" if dice.random() < 0.2 else f"{10 ** (1 + 4 * ill):.2f}"
        # D55 to D59 are not in the schema
        lines.append(f"{day},D{int(60 * ill):02d},{cost},,7,42,{'ward' if ill > 0.6 else 'home'}")
    place = Place(tmp_path, ODD, lines)
    # enough budget that noise moves no share by a hundredth, so that the bounds below hold whatever is drawn
    assert place.synth("out", "--samples", "800", "--epsilon", "20") == 0
    rows, labels = encode_file(tmp_path / "out" / "synthetic.csv", place.codec, compact=True)
    gone = (rows < 0).mean(axis=0)
    assert 0.1 < gone[0] < 0.3
    assert 0.1 < gone[2] < 0.3
    assert gone[3] > 0.9
    assert np.unique(rows[:, 4]).tolist() == [0.0]
    assert np.mean(rows[:, 5] == 0.7) > 0.8
    assert len(np.unique(rows[:, 1])) > 15
    assert (np.bincount(labels, minlength=3)[2] / 800) < 0.1, "the class that nobody has"
    # judged on the very records, with a column and a class that tell nothing
    arguments = ["evaluate", str(tmp_path / "out"), "--real", str(place.data), "--private", str(place.data)]
    assert run(arguments) == 0


def test_a_table_without_a_label_is_synthesised_and_evaluated(capsys: Any, tmp_path: Path) -> None:
    place = Place(tmp_path, {"columns": PLAIN["columns"]}, plain_lines())
    assert place.synth("out") == 0
    assert run(["evaluate", str(tmp_path / "out"), "--test", str(place.data)]) == 0
    capsys.readouterr()
    assert run(["evaluate", str(tmp_path / "out"), "--test", str(place.data), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["scores"] == {}
    assert set(answer["marginals"]) == {"age", "city", "ill"}
    assert run(["report", str(tmp_path / "out")]) == 0


def test_evaluation_marks_what_is_private(capsys: Any, made: Place) -> None:
    out, data = str(made.folder / "out"), str(made.data)
    capsys.readouterr()
    assert run(["evaluate", out, "--real", data, "--private", data, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer["scores"]) == set(answer["auc"]) == set(answer["real"]) == {"boosting", "logistic"}
    assert answer["real_auc"]["logistic"] > 0.8
    assert answer["nearest"]["marked"] == "private, do not publish"
    assert "not private" in answer["privacy"]
    page, private = ((made.folder / "out" / name).read_text() for name in ("report.html", "report-private.html"))
    figures = (
        "Total-variation",
        "logistic, ROC-AUC",
        "What a query gets wrong by",
        "Columns: synthetic over real",
        "pair ",
    )
    for words in ("private, do not publish", "not private", "ROC curve, boosting", "Do not publish", *figures):
        assert words in private, words
    for words in ("Do not publish", *figures):
        assert words not in page, words
    assert "nothing else of the records was looked at" in page
    assert run(["evaluate", out, "--test", data]) == 0
    said = capsys.readouterr().out
    assert "private, do not publish" in said
    assert "boosting" in said
    # a file by itself is judged with its schema
    file = str(made.folder / "out" / "synthetic.csv")
    assert run(["evaluate", file, "--test", data, "--schema", str(made.schema), "--json"]) == 0
    (made.folder / "out" / "evaluation.json").unlink()
    assert run(["report", out]) == 0
    assert "do not publish" not in (made.folder / "out" / "report.html").read_text()
    assert not (made.folder / "out" / "report-private.html").exists()


def test_figures_on_public_test_records_may_be_shown_and_those_on_private_ones_may_not(
    capsys: Any, made: Place
) -> None:
    out, data = str(made.folder / "out"), str(made.data)
    assert run(["evaluate", out, "--test", data, "--private", data, "--public-test"]) == 0
    page, private = ((made.folder / "out" / name).read_text() for name in ("report.html", "report-private.html"))
    for words in ("Total-variation", "Columns: synthetic over real", "ROC curve, boosting", "stated to be public"):
        assert words in page, words
    # a model that was trained on the private records is not shown, not even by its curve
    for words in ("Nearest real neighbours", "one trained on the real records", ">on real<"):
        assert words in private, words
        assert words not in page, words
    (made.folder / "out" / "evaluation.json").unlink()
    assert run(["report", out]) == 0


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (["--test", "DATA", "--shape", "2,2"], 2),
        (["--test", "DATA", "--schema", "SCHEMA"], 2),
        (["--test", "nothing.csv"], 3),
        (["--test", "SCHEMA"], 3),
    ],
)
def test_wrong_evaluations_are_refused_in_one_sentence(capsys: Any, made: Place, more: list[str], code: int) -> None:
    named = {"DATA": str(made.data), "SCHEMA": str(made.schema)}
    assert run(["evaluate", str(made.folder / "out"), *[named.get(word, word) for word in more]]) == code
    sentence(capsys)


def test_a_table_of_one_record_is_released_like_one_of_two(tmp_path: Path) -> None:
    for name, rows in (("one", ["30,Ulm,yes"]), ("two", ["30,Ulm,yes", "31,Bonn,no"])):
        (tmp_path / name).mkdir()
        place = Place(tmp_path / name, PLAIN, ["age,city,ill", *rows])
        assert place.synth("out") == 0
        assert place.charges() == 1


@pytest.mark.parametrize(
    ("lines", "code", "word"),
    [
        (["age,city,ill", "30,Paris,yes", "31,Ulm,no"], 3, "'city'"),
        (["age,city,ill", "30,Ulm,yes", ",Ulm,no"], 3, "'age'"),
        (["age,city,ill", "ancient,Ulm,yes", "3,Ulm,no"], 3, "'age'"),
        (["age,city,ill", "30,Ulm", "3,Ulm,no"], 3, "Line 2"),
        (["age,ill", "30,yes", "3,no"], 3, "lacks column 'city'"),
        (["age,city,ill,more", "30,Ulm,yes,1", "3,Ulm,no,1"], 3, "'more'"),
        (["age,city,ill"], 3, "no records"),
        ([""], 3, "empty"),
    ],
)
def test_unusable_tables_are_refused_and_cost_nothing(
    capsys: Any, tmp_path: Path, lines: list[str], code: int, word: str
) -> None:
    place = Place(tmp_path, PLAIN, lines)
    assert place.synth("out") == code
    said = sentence(capsys)
    assert word in said
    assert "Paris" not in said
    assert "ancient" not in said
    assert place.charges() == 0


@pytest.mark.parametrize(
    ("more", "code", "word"),
    [
        (["--classes", "2"], 2, "--classes"),
        (["--range", "0,1"], 2, "--range"),
        (["--set", "steps=5"], 2, "--set steps"),
        (["--method", "magic"], 2, "magic"),
        (["--samples", "0"], 2, "--samples"),
    ],
)
def test_wrong_options_are_refused_and_cost_nothing(
    capsys: Any, place: Place, more: list[str], code: int, word: str
) -> None:
    assert place.synth("out", *more) == code
    assert word in sentence(capsys)
    assert place.charges() == 0


@pytest.mark.parametrize("text", ["{", "[]", '{"columns": []}', '{"columns": [{"name": "age", "type": "integer"}]}'])
def test_an_incomplete_schema_is_refused(capsys: Any, place: Place, text: str) -> None:
    place.schema.write_text(text, encoding="utf-8")
    assert place.synth("out") in (2, 3)
    sentence(capsys)
    place.schema.unlink()
    assert place.synth("out") == 3
    sentence(capsys)
    assert not (place.folder / "data.csv.ledger").exists()


def test_parquet_without_a_schema_or_damaged_is_refused(capsys: Any, place: Place) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    bad = place.folder / "bad.parquet"
    bad.write_bytes(b"PAR1 nothing")
    assert run(["synth", str(bad), *TERMS, "--out", str(place.folder / "out"), "--range", "0,1"]) == 2
    assert "--schema" in sentence(capsys)
    assert place.synth("out", data=bad) == 3
    sentence(capsys)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_output_folder_without_write_permission_costs_nothing(capsys: Any, place: Place) -> None:
    (place.folder / "closed").mkdir(mode=0o500)
    assert place.synth("closed/out") == 3
    sentence(capsys)
    assert place.charges() == 0


def test_an_output_folder_that_is_a_file_costs_nothing(capsys: Any, place: Place) -> None:
    (place.folder / "out").write_text("mine")
    assert place.synth("out") == 3
    sentence(capsys)
    assert place.charges() == 0


def damage(path: Path, part: bytes) -> None:
    """Change one bit of `part`, which stands somewhere in the file."""
    whole = bytearray(path.read_bytes())
    whole[whole.index(part)] ^= 1
    path.write_bytes(bytes(whole))


@pytest.mark.gate(1)
@pytest.mark.parametrize("how", ["cut", "changed"])
def test_a_damaged_release_is_refused_and_not_paid_again(capsys: Any, place: Place, how: str) -> None:
    assert place.synth("out") == 0
    release = place.folder / "out" / "release.npz"
    if how == "cut":
        release.write_bytes(release.read_bytes()[: release.stat().st_size // 2])
    else:
        held: Any = Release.load(release).value
        damage(release, held["pairs"].tobytes())
    capsys.readouterr()
    assert place.synth("out", "--resume") == 3
    sentence(capsys)
    # one that is gone is said to be lost, and the budget does not cover a second
    release.unlink()
    assert place.synth("out", "--resume") == 4
    assert "--pay-again" in sentence(capsys)
    assert place.synth("out", "--resume", "--pay-again") == 4
    assert place.charges() == 1


def test_damaged_models_and_guarantees_are_refused(capsys: Any, place: Place) -> None:
    assert place.synth("out") == 0
    out = place.folder / "out"
    capsys.readouterr()

    def sample() -> int:
        return run(["sample", str(out), "-n", "3", "--out", str(place.folder / "more.csv")])

    for name, change in {
        "generator.safetensors": lambda text: text[:-9],
        "config.json": lambda text: text.replace(b'"factors"', b'"fabtors"'),
        "guarantee.json": lambda text: text.replace(b'"epsilon": 1.9', b'"epsilon": 0.9'),
    }.items():
        whole = (out / name).read_bytes()
        assert change(whole) != whole
        (out / name).write_bytes(change(whole))
        assert sample() == 3, name
        sentence(capsys)
        (out / name).write_bytes(whole)
    weights, _ = read_tensors(out / "generator.safetensors")
    damage(out / "generator.safetensors", weights["fine.0"].numpy().tobytes())
    assert sample() == 3
    sentence(capsys)


def test_another_release_of_the_same_cost_is_refused(capsys: Any, place: Place) -> None:
    assert place.synth("out") == 0
    path = place.folder / "out" / "release.npz"
    held = Release.load(path)
    guarantee = account(Gaussian(2.0, 1.0, Adjacency.ADD_REMOVE), 1e-6)
    Release(held.value, guarantee, held.public).save(path)
    capsys.readouterr()
    assert place.synth("out", "--resume") == 3
    assert "not the one its job paid for" in sentence(capsys)


def test_resuming_with_another_schema_is_refused(capsys: Any, place: Place) -> None:
    assert place.synth("out") == 0
    other = place.folder / "other.json"
    other.write_text(json.dumps(PLAIN).replace("99", "98"), encoding="utf-8")
    capsys.readouterr()
    assert place.synth("out", "--resume", schema=other) == 2
    assert "codec" in sentence(capsys)
    assert place.charges() == 1


# --- schemas


def test_a_schema_is_proposed_from_public_hints_only(capsys: Any, place: Place) -> None:
    hints = {
        "ill": {"categories": ["no", "yes"]},
        "age": {"low": 0, "high": 120},
        "city": {"categories": ["Ulm", "Bonn"], "missing": True},
        "unused": {"low": 0, "high": 1},
    }
    dictionary, out = place.folder / "dictionary.json", place.folder / "proposed.json"
    dictionary.write_text(json.dumps(hints), encoding="utf-8")
    base = ["schema", "propose", "--out", str(out)]
    assert run([*base, "--header", str(place.data), "--dictionary", str(dictionary), "--label", "ill", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "schema": str(out), "columns": 3, "label": "ill", "labels": ["ill"], "dropped": [], "unit": None,
    }  # fmt: skip
    schema = Schema.load(out)
    assert schema.names == ("age", "city", "ill")
    assert schema["age"].range == (0.0, 120.0)
    assert place.synth("out", schema=out) == 0
    # what is there, a schema that was corrected or the table itself, stays
    for there in (out, place.data):
        kept = there.read_bytes()
        capsys.readouterr()
        assert run(["schema", "propose", "--out", str(there), "--dictionary", str(dictionary)]) == 2
        assert "exists already" in sentence(capsys)
        assert there.read_bytes() == kept
    out.unlink()
    assert run([*base, "--dictionary", str(dictionary)]) == 0
    assert len(Schema.load(out).columns) == 4
    capsys.readouterr()
    for wrong in (
        [],
        ["--sample", str(place.data)],
        ["--sample", str(place.data), "--public", "--dictionary", str(dictionary)],
        ["--sample", str(place.data), "--public", "--header", str(place.data)],
        ["--dictionary", str(dictionary), "--label", "income"],
    ):
        assert run([*base, *wrong]) == 2
        sentence(capsys)
    dictionary.write_text(json.dumps({"age": hints["age"]}))
    assert run([*base, "--header", str(place.data), "--dictionary", str(dictionary)]) == 2
    assert "Nothing public" in sentence(capsys)


def test_a_schema_is_proposed_from_a_sample_that_is_stated_to_be_public(capsys: Any, place: Place) -> None:
    out = place.folder / "proposed.json"
    assert run(["schema", "propose", "--sample", str(place.data), "--public", "--label", "ill", "--out", str(out)]) == 0
    assert "3 columns" in capsys.readouterr().out
    assert place.synth("out", schema=out) == 0


def test_help_shows_examples_with_tables(capsys: Any) -> None:
    for command in (["synth"], ["sample"], ["evaluate"], ["schema", "propose"]):
        assert run([*command, "--help"]) == 0
        said = capsys.readouterr().out
        assert "Example" in said
        assert ".csv" in said


def test_sample_escapes_formulas_only_with_spreadsheet_safe(tmp_path: Path, capsys) -> None:
    schema = {"columns": [{"name": "city", "type": "categorical", "categories": ["=Ulm()", "Bonn"]}]}
    place = Place(tmp_path, schema, ["city", *["=Ulm()", "Bonn"] * 100])
    assert place.synth("plain") == 0
    plain = (tmp_path / "plain" / "synthetic.csv").read_text().split()
    assert set(plain) == {"city", "=Ulm()", "Bonn"}
    folder, more = str(tmp_path / "plain"), tmp_path / "more.csv"
    assert run(["sample", folder, "-n", "50", "--out", str(more), "--set", "spreadsheet_safe=yes"]) == 0
    assert set(more.read_text().split()) == {"city", "'=Ulm()", "Bonn"}
    # where it has no meaning it is refused, before anything is paid or drawn
    assert (
        run(["sample", folder, "-n", "50", "--out", str(tmp_path / "m.parquet"), "--set", "spreadsheet_safe=yes"]) == 2
    )
    assert not (tmp_path / "m.parquet").exists()
    before = place.charges()
    assert run(["synth", "digits", *TERMS, *QUICK, "--out", str(tmp_path / "d"), "--set", "spreadsheet_safe=yes"]) == 2
    assert place.charges() == before
    assert not (tmp_path / "d").exists()


def test_synth_escapes_formulas_with_spreadsheet_safe(tmp_path: Path) -> None:
    schema = {"columns": [{"name": "city", "type": "categorical", "categories": ["=Ulm()", "Bonn"]}]}
    place = Place(tmp_path, schema, ["city", *["=Ulm()", "Bonn"] * 100])
    assert place.synth("safe", "--set", "spreadsheet_safe=yes") == 0
    assert set((tmp_path / "safe" / "synthetic.csv").read_text().split()) == {"city", "'=Ulm()", "Bonn"}
