"""`Vault.open` holds the records that the commands would hold, and refuse without quoting one."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from privot import Ledger, Schema, Vault, load
from privot.accounting import Gaussian
from privot.errors import BudgetError, DataError, OtherRecordsError, PrivotError, UsageError
from privot.guarantee import Standing
from privot.kinds import Files, Images, Vectors
from privot.mechanisms import Needs, RandomProjection
from privot.tables import Column, TableCodec, encode_file
from privot.vault.budget import account_name

# digits that no shape, budget or address contains
MARKED = "31415926"
STATED = {"adjacency": "replace-one", "budget": (1e6, 1e-5)}
TABLE = {"adjacency": "replace-one", "budget": (1e6, 1e-5)}
SCHEMA = Schema(
    (
        Column("age", "integer", 0, 120, missing=True),
        Column("city", "categorical", categories=("Ulm", "Bonn", "Jena")),
        Column("ill", "boolean", categories=("no", "yes")),
    ),
    label="ill",
)
ROWS = "age,city,ill\n31,Ulm,no\n,Bonn,yes\n54,Jena,no\n"


@dataclass(frozen=True)
class Shown:
    """A mechanism that lets everything out, so that a test sees what the vault holds."""

    kept: dict[str, Any]
    needs: Needs = Needs()  # noqa: RUF009
    steps: int = 1
    standing: Standing = Standing.PROVEN
    seed: int | None = None

    def event(self, facts: Any) -> Gaussian:
        return Gaussian(1.0, facts.adjacency.sensitivity(facts.clip), facts.adjacency)

    def run(self, records: Any, noise: Any, event: Any, step: int) -> tuple[np.ndarray, dict[str, Any]]:
        self.kept["x"] = records.rows()
        self.kept["y"] = records.labels() if records.facts.classes else None
        return np.zeros(1), {}


def held(vault: Vault) -> tuple[np.ndarray, np.ndarray | None]:
    """What a mechanism of this vault is handed."""
    kept: dict[str, Any] = {}
    vault.release(Shown(kept), purpose="test", allow_unproven=True)
    return kept["x"], kept["y"]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(tmp_path / "a.ledger") as made:
        yield made


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).uniform(size=(6, 3))
    np.savez(tmp_path / "six.npz", x=rows, y=np.arange(6) % 2)
    return tmp_path / "six.npz"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text(ROWS)
    return tmp_path / "people.csv"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for name, grey in (("cat", 10), ("dog", 200)):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(2):
            Image.fromarray(np.full((4, 5), grey + i, dtype=np.uint8)).save(tmp_path / "pets" / name / f"{i}.png")
    return tmp_path / "pets"


def refusal(call: Callable[[], Any], kind: type[PrivotError], code: int) -> str:
    """The sentence of a refusal: one line, with its exit code, and without a record in it or in its traceback."""
    with pytest.raises(kind) as refused:
        call()
    message = str(refused.value)
    assert refused.value.exit_code == code
    assert message.endswith(".")
    assert "\n" not in message
    assert MARKED not in "".join(traceback.format_exception(refused.value))
    return message


# --- Vault.open


def test_a_vault_of_a_file_holds_its_records_and_labels(npz: Path) -> None:
    vault = Vault.open(npz, Vectors(classes=2, clip=0.5), **STATED)
    x, y = held(vault)
    expected = load(npz, classes=2)
    np.testing.assert_array_equal(x, expected.x)
    np.testing.assert_array_equal(y, expected.y)
    assert (vault.facts.dim, vault.facts.records, vault.facts.classes, vault.facts.clip) == (3, 6, 2, 0.5)
    assert repr(vault) == "<Vault 'six.npz': 6 records in 3 dimensions, clip 0.5, replace-one>"


def test_a_vault_of_a_file_releases_what_it_was_charged_for(npz: Path) -> None:
    vault = Vault.open(npz, Vectors(classes=0, clip=0.5), adjacency="replace-one", budget=(10.0, 1e-5))
    release = vault.release(RandomProjection(slices=2, sigma=1.0), purpose="a first look")
    assert release.value.shape == (6, 2)
    assert release.guarantee.epsilon() <= 10.0


def test_classes_zero_leaves_labels_out(npz: Path) -> None:
    vault = Vault.open(npz, Vectors(classes=0, clip=0.5), **STATED)
    assert vault.facts.classes is None
    assert held(vault)[1] is None


def test_a_file_without_labels_needs_no_classes(tmp_path: Path) -> None:
    np.save(tmp_path / "plain.npy", np.eye(4))
    assert Vault.open(tmp_path / "plain.npy", Vectors(clip=0.5), **STATED).facts.classes is None


def test_the_part_of_a_file_can_be_chosen(tmp_path: Path) -> None:
    np.savez(tmp_path / "both.npz", x_train=np.eye(4), x_test=np.eye(3))
    assert Vault.open(tmp_path / "both.npz", Vectors(clip=0.5), **STATED).facts.records == 4
    assert Vault.open(Files(tmp_path / "both.npz", part="test"), Vectors(clip=0.5), **STATED).facts.records == 3


def test_a_folder_of_images_is_opened_by_names_and_shape(images: Path) -> None:
    vault = Vault.open(images, Images((4, 5), classes=("cat", "dog"), clip=0.5), **STATED)
    x, y = held(vault)
    assert (vault.facts.classes, vault.facts.dim) == (2, 20)
    np.testing.assert_array_equal(np.sort(x[:, 0]), [10, 11, 200, 201])
    np.testing.assert_array_equal(y, [0, 0, 1, 1])


def test_what_a_folder_of_images_needs_has_to_be_stated(images: Path) -> None:
    needs_names = refusal(lambda: Vault.open(images, Images((4, 5), clip=0.5), **STATED), UsageError, 2)
    needs_shape = refusal(
        lambda: Vault.open(images, Vectors(classes=("cat", "dog"), clip=0.5), **STATED), UsageError, 2
    )
    assert "state them as classes" in needs_names
    assert "state it as shape" in needs_shape


def test_labels_without_a_stated_number_of_classes_are_refused(npz: Path) -> None:
    message = refusal(lambda: Vault.open(npz, Vectors(clip=0.5), **STATED), UsageError, 2)
    assert message.startswith("'six.npz' holds labels")


def test_the_files_name_is_the_ledgers_label_whatever_link_leads_to_it(
    tmp_path: Path, npz: Path, ledger: Ledger
) -> None:
    (tmp_path / "link.npz").symlink_to(npz)
    Vault.open(
        tmp_path / "link.npz", Vectors(classes=2, clip=0.5), adjacency="replace-one", ledger=ledger, budget=(1.0, 1e-5)
    )
    assert [budget.label for budget in ledger.datasets()] == ["six.npz"]


@pytest.mark.slow
def test_a_file_opened_twice_shares_one_budget(npz: Path, ledger: Ledger) -> None:
    stated = {"schema": Vectors(classes=0, clip=0.5), "adjacency": "replace-one", "ledger": ledger}
    mechanism = RandomProjection(slices=2, sigma=2.0)
    Vault.open(npz, budget=(10.0, 1e-5), **stated).release(mechanism, purpose="one")
    again = Vault.open(npz, **stated)
    again.release(mechanism, purpose="two")
    (name,) = [budget.fingerprint for budget in ledger.datasets()]
    assert name == account_name(ledger, load(npz).x)
    assert len(ledger.entries(name)) == 2
    refusal(lambda: again.release(RandomProjection(slices=2, sigma=0.1), purpose="three"), BudgetError, 4)


def test_a_changed_file_is_other_records_to_its_ledger(tmp_path: Path, npz: Path, ledger: Ledger) -> None:
    stated = {
        "schema": Vectors(classes=0, clip=0.5),
        "adjacency": "replace-one",
        "ledger": ledger,
        "budget": (1.0, 1e-5),
    }
    Vault.open(npz, **stated)
    np.savez(npz, x=load(npz).x + 1e-9)
    refusal(lambda: Vault.open(npz, **stated), OtherRecordsError, 4)
    Vault.open(npz, new_records=True, **stated)
    assert len(ledger.datasets()) == 2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("text.csv", f"a,b\n1,{MARKED}\n2,x{MARKED}\n"),
        ("short.csv", f"a,b\n{MARKED}\n"),
        ("empty.csv", ""),
        ("damaged.npz", f"PK{MARKED}"),
        ("odd.docx", MARKED),
        ("labels.csv", f"a,label\n1,0\n2,{MARKED}\n"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence_without_a_record(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    refusal(lambda: Vault.open(tmp_path / name, Vectors(classes=2, clip=0.5), **STATED), DataError, 3)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "missing.npz" in refusal(
        lambda: Vault.open(tmp_path / "missing.npz", Vectors(clip=0.5), **STATED), DataError, 3
    )
    refusal(lambda: Vault.open(tmp_path / "missing.csv", SCHEMA, **TABLE), DataError, 3)


@pytest.mark.parametrize(
    "wrong", [{"clip": 0.0}, {"adjacency": "unknown"}, {"budget": None}, {"classes": "two"}, {"shape": (2, 2)}]
)
def test_wrong_facts_are_refused_as_wrong_usage(npz: Path, wrong: dict[str, Any]) -> None:
    shape = wrong.get("shape")
    held = {"classes": 2, "clip": 0.5} | {name: wrong[name] for name in ("classes", "clip") if name in wrong}
    terms = STATED | {name: wrong[name] for name in ("adjacency", "budget") if name in wrong}
    refusal(lambda: Vault.open(npz, Images(shape, **held) if shape else Vectors(**held), **terms), UsageError, 2)


# --- tables


def test_a_vault_of_a_table_holds_the_compact_rows_of_its_schema(table: Path) -> None:
    vault = Vault.open(table, SCHEMA, **TABLE)
    codec = TableCodec(SCHEMA)
    rows, labels = encode_file(table, codec, compact=True)
    x, y = held(vault)
    np.testing.assert_array_equal(x, rows)
    np.testing.assert_array_equal(y, labels)
    assert (vault.facts.dim, vault.facts.classes) == (2, 2)
    assert vault.facts.clip == codec.bound(compact=True)
    assert repr(vault).startswith("<Vault 'people.csv': 3 rows of a table in 2 dimensions")


def test_no_row_of_a_table_is_clipped(table: Path) -> None:
    vault = Vault.open(table, SCHEMA, **TABLE)
    assert np.linalg.norm(held(vault)[0], axis=1).max() <= vault.facts.clip


@pytest.mark.parametrize("name", ["schema.json", "schema.toml"])
def test_the_schema_may_be_a_file(tmp_path: Path, table: Path, name: str) -> None:
    if name.endswith(".json"):
        SCHEMA.save(tmp_path / name)
    else:
        columns = "".join(
            f"[[columns]]\nname = {c.name!r}\ntype = {c.type!r}\n"
            + (f"low = {c.low}\nhigh = {c.high}\nmissing = true\n" if c.is_number else "")
            + (f"categories = {list(c.categories)!r}\n" if c.categories else "")
            for c in SCHEMA.columns
        )
        (tmp_path / name).write_text("label = 'ill'\n" + columns)
    rows = held(Vault.open(table, tmp_path / name, **TABLE))[0]
    np.testing.assert_array_equal(rows, held(Vault.open(table, SCHEMA, **TABLE))[0])
    np.testing.assert_array_equal(rows, held(Vault.open(str(table), str(tmp_path / name), **TABLE))[0])


def test_a_table_without_a_label_column_has_no_classes(table: Path) -> None:
    vault = Vault.open(table, Schema(SCHEMA.columns), **TABLE)
    assert vault.facts.classes is None
    assert vault.facts.dim == 3


def test_a_table_shares_the_budget_that_the_commands_give_it(table: Path, ledger: Ledger) -> None:
    rows, labels = encode_file(table, TableCodec(SCHEMA), compact=True)
    bound = TableCodec(SCHEMA).bound(compact=True)
    terms = {"adjacency": "replace-one", "ledger": ledger, "budget": (1.0, 1e-5)}
    Vault(rows, labels, clip=bound, classes=2, **terms)
    Vault.open(table, SCHEMA, **terms)
    assert len(ledger.datasets()) == 1


def test_a_parquet_table_is_the_same_table(tmp_path: Path, table: Path, ledger: Ledger) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    from privot.tables import read_table, write_table

    codec = TableCodec(SCHEMA)
    write_table(codec.decode(*codec.encode(read_table(table))), tmp_path / "people.parquet", SCHEMA)
    terms = {"adjacency": "add-remove", "ledger": ledger, "budget": (1.0, 1e-5)}
    Vault.open(table, SCHEMA, **terms)
    Vault.open(tmp_path / "people.parquet", SCHEMA, **terms)
    assert len(ledger.datasets()) == 1


@pytest.mark.parametrize(
    "content",
    [
        f"age,city,ill\n31,{MARKED},no\n",
        f"age,city,ill\n31,Ulm,{MARKED}\n",
        f"age,city,ill\n{MARKED}x,Ulm,no\n",
        f"age,city,ill\n{MARKED}\n",
        f"age,city\n{MARKED},Ulm\n",
        f"age,city,ill,more\n1,Ulm,no,{MARKED}\n",
        "age,city,ill\n",
        "",
    ],
)
def test_a_table_that_its_schema_does_not_fit_is_refused_without_a_record(tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.csv").write_text(content)
    refusal(lambda: Vault.open(tmp_path / "bad.csv", SCHEMA, **TABLE), DataError, 3)


@pytest.mark.parametrize("schema", [{"columns": []}, 3])
def test_what_is_no_schema_is_refused(table: Path, schema: Any) -> None:
    message = refusal(lambda: Vault.open(table, schema, **TABLE), UsageError, 2)
    assert message == f"Expected a Schema or the path of a schema file, got {type(schema).__name__}."


def test_a_schema_file_that_cannot_be_used_is_refused(tmp_path: Path, table: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    refusal(lambda: Vault.open(table, tmp_path / "bad.json", **TABLE), DataError, 3)
    refusal(lambda: Vault.open(table, tmp_path / "missing.json", **TABLE), DataError, 3)


def test_clip_and_adjacency_have_no_default_here_either() -> None:
    assert inspect.signature(Vault.open).parameters["adjacency"].default is inspect.Parameter.empty
    # a schema says the clip; without one, none is taken for granted
    assert Vectors().clip is None
    with pytest.raises(UsageError, match="a kind with its clip"):
        Vault.open("digits", Vectors(classes=10), adjacency="replace-one", budget=(1.0, 1e-5))
