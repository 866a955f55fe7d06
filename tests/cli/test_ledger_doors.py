"""One ledger file guards one data set, at every command and API that opens it: all pairs, in both orders."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot import Ledger, Vault
from privot.accounting import Gaussian, calibrate
from privot.cli import run
from privot.errors import BudgetError, PrivotError
from privot.guarantee import Adjacency
from privot.mechanisms import SketchDesign
from privot.mechanisms.sketching.private_sketch import PrivateSketch

pytest.importorskip("torch")
pytest.importorskip("cryptography")

EPSILON, DELTA = 2.0, 1e-5
TERMS = ["--epsilon", str(EPSILON), "--delta", str(DELTA)]
SAME = ["--adjacency", "replace-one"]
QUICK = ["--range", "0,1", "--seed", "1", "--device", "cpu"]
DESIGN = SketchDesign.plain(4, 2.0, directions=3)


class Place:
    """A folder with private records, their one ledger, and whatever else a door needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data, self.ledger = folder / "data.npz", folder / "data.npz.ledger"
        self.said = ""
        self._number = 0

    def prepare(self) -> None:
        """Write the records, a public source, a request to adapt to them, and a party's folder."""
        from privot.federation.parties.enrolment import make_party
        from privot.federation.wire.signing import make_key, public_name

        dice = np.random.default_rng(0)
        np.savez(self.data, x=dice.uniform(size=(40, 4)))
        np.savez(self.folder / "source.npz", x=dice.uniform(size=(40, 4)), y=np.arange(40) % 2)
        ask = ["--ask", str(self.folder / "request.json"), "--set", "records=40", "--out", str(self.folder / "asked")]
        assert run(["adapt", str(self.folder / "source.npz"), *TERMS, *QUICK, "--set", "fit=1", *ask]) == 0
        make_party(self.folder / "party", "north clinic")
        asker = public_name(make_key(self.folder / "asker.key"))
        (self.folder / "party" / "policy.toml").write_text(
            'version = 1\nname = "north clinic"\n[data]\nfile = "../data.npz"\nledger = "../data.npz.ledger"\n'
            f'adjacency = "replace-one"\nepsilon = {EPSILON}\ndelta = {DELTA}\n'
            f'[[allow]]\nprotocol = "sketch"\naskers = ["{asker}"]\nepsilon = {EPSILON}\ndelta = {DELTA}\n'
            "requests = 99\ndays = 1\n"
        )

    def out(self, ending: str) -> str:
        """A name that nothing has yet."""
        self._number += 1
        return str(self.folder / f"out{self._number}{ending}")

    def change_one_value(self) -> None:
        with np.load(self.data) as held:
            x = held["x"]
        x[0, 0] += 1e-3
        np.savez(self.data, x=x)

    def rename(self) -> None:
        """Give the records another file name, while the ledger stays where it is."""
        moved = self.folder / "renamed.npz"
        self.data.rename(moved)
        self.data = moved
        policy = self.folder / "party" / "policy.toml"
        text = policy.read_text().replace('file = "../data.npz"', 'file = "../renamed.npz"')
        policy.write_text(text.replace("north clinic", "south clinic"))

    def datasets(self) -> list[Any]:
        with Ledger.open(self.ledger) as book:
            book.verify()
            return book.datasets()

    def entries(self) -> int:
        with Ledger.open(self.ledger) as book:
            return len(book.entries())


def command(place: Place, words: list[str], new_records: bool) -> int:
    return run([*words, *(["--new-records"] if new_records else [])])


def init(place: Place, new_records: bool = False) -> int:
    return command(place, ["ledger", "init", str(place.ledger), "--data", str(place.data), *TERMS, *SAME], new_records)


def sketch(place: Place, new_records: bool = False) -> int:
    words = ["sketch", str(place.data), *TERMS, *SAME, "--radius", "2", "--out", place.out(".sketch")]
    # the command opens a ledger that is named, and makes only the one beside the data
    named = ["--ledger", str(place.ledger)] if place.ledger.exists() else []
    return command(place, [*words, *named], new_records)


def synth(place: Place, new_records: bool = False) -> int:
    words = [
        "synth",
        str(place.data),
        *TERMS,
        *SAME,
        *QUICK,
        "--set",
        "steps=2",
        "--samples",
        "4",
        "--out",
        place.out(""),
    ]
    return command(place, [*words, "--ledger", str(place.ledger)], new_records)


def adapt(place: Place, new_records: bool = False) -> int:
    words = ["adapt", str(place.folder / "source.npz"), str(place.data), *TERMS, *QUICK, "--set", "fit=1"]
    words += ["--set", "finish=1", "--out", place.out(""), "--ledger", str(place.ledger)]
    return command(place, words, new_records)


def answer(place: Place, new_records: bool = False) -> int:
    words = ["answer", str(place.folder / "request.json"), str(place.data), *TERMS, "--out", place.out(".release")]
    return command(place, [*words, "--ledger", str(place.ledger)], new_records)


def stated(new_records: bool) -> dict[str, Any]:
    return {"new_records": True} if new_records else {}


def desk(place: Place, new_records: bool = False) -> int:
    from privot.federation.coordination.answers import Answer
    from privot.federation.coordination.requests import Request
    from privot.federation.parties.desk import Desk
    from privot.federation.sketches.sketch_order import Order
    from privot.federation.wire.signing import read_key

    try:
        opened = Desk(place.folder / "party", **stated(new_records))
    except PrivotError as error:
        place.said = str(error)
        return error.exit_code
    try:
        order = Order(DESIGN, EPSILON, DELTA, Adjacency.REPLACE_ONE)
        ask = Request("sketch", "ab" * 16, 0, opened.name, order=order).sealed(read_key(place.folder / "asker.key"))
        found = Answer.opened(opened.handle(ask), opened.name)
    finally:
        opened.close()
    place.said = str(found.refusal)
    return 0 if found.sketch else 4


def python(place: Place, new_records: bool = False) -> int:
    with np.load(place.data) as held:
        x = held["x"]
    sigma = calibrate(
        lambda s: Gaussian(s, DESIGN.sensitivity(Adjacency.REPLACE_ONE), Adjacency.REPLACE_ONE),
        epsilon=EPSILON,
        delta=DELTA,
    )
    with Ledger.open(place.ledger) if place.ledger.exists() else Ledger.create(place.ledger) as book:
        try:
            terms = {"budget": (EPSILON, DELTA), **stated(new_records)}
            vault = Vault(x, clip=1.0, adjacency="replace-one", ledger=book, **terms)
            vault.release(PrivateSketch(DESIGN, sigma), purpose="by hand")
        except PrivotError as error:
            place.said = str(error)
            return error.exit_code
    return 0


Door = Callable[..., int]
DOORS: dict[str, Door] = {d.__name__: d for d in (init, sketch, synth, adapt, answer, desk, python)}
every_door = pytest.mark.parametrize("second", DOORS.values(), ids=DOORS)


@pytest.fixture(scope="module", params=DOORS.values(), ids=DOORS)
def first(request: pytest.FixtureRequest) -> Door:
    """The door that a ledger was first opened through."""
    return request.param


@pytest.fixture(scope="module")
def spent(first: Door, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose ledger was opened, and spent from, through the first door."""
    place = Place(tmp_path_factory.mktemp("first") / "place")
    place.folder.mkdir()
    place.prepare()
    assert first(place) == 0
    assert place.entries() == (0 if first is init else 1)
    return place.folder


@pytest.fixture
def place(spent: Path, tmp_path: Path) -> Place:
    shutil.copytree(spent, tmp_path / "place")
    made = Place(tmp_path / "place")
    made._number = 9
    return made


@pytest.mark.gate(2, each="second")
@every_door
def test_every_door_refuses_a_changed_value_until_new_records_are_stated(
    capsys: Any, place: Place, second: Door
) -> None:
    before = place.entries()
    place.change_one_value()
    capsys.readouterr()
    assert second(place) == 4
    told = capsys.readouterr().err or place.said
    assert "guards other records" in told
    assert told.strip().count("\n") == 0
    # nor is another name for the file, or for the party, a way round
    place.rename()
    assert second(place) == 4
    assert (len(place.datasets()), place.entries()) == (1, before)
    assert second(place, new_records=True) == 0
    first, other = place.datasets()
    assert (first.new_records, other.new_records) == (False, True)
    assert place.entries() == before + (second is not init)


@pytest.mark.gate(2, each="second")
@every_door
def test_every_door_charges_unchanged_records_to_the_same_budget(
    capsys: Any, place: Place, first: Door, second: Door
) -> None:
    # the same request gets the answer that was paid for once more
    again = first is second and second in (answer, desk)
    wanted = 0 if init in (first, second) or again else 4
    capsys.readouterr()
    assert second(place) == wanted
    told = capsys.readouterr().err or place.said
    assert "other records" not in told
    assert ("budget" in told) is (wanted == 4)
    (only,) = place.datasets()
    assert only.new_records is False
    assert place.entries() == (0 if first is second is init else 1)


def test_releases_through_all_doors_add_up_in_one_budget(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.prepare()
    large = ["ledger", "init", str(place.ledger), "--data", str(place.data), "--epsilon", "20", *TERMS[2:], *SAME]
    assert run(large) == 0
    for number, door in enumerate((sketch, synth, adapt, answer), start=1):
        assert door(place) == 0
        assert place.entries() == number
    (only,) = place.datasets()
    with Ledger.open(place.ledger) as book:
        spent = book.spent(only.fingerprint)
    assert spent is not None
    # four releases of ε = 2 each: dearer than one of them by far, cheaper than their sum
    assert 2 * EPSILON < spent.epsilon() < 4 * EPSILON


def test_show_marks_data_sets_that_were_stated_to_be_new(capsys: Any, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.prepare()
    assert init(place) == 0
    place.change_one_value()
    assert init(place, new_records=True) == 0
    capsys.readouterr()
    assert run(["ledger", "show", str(place.ledger), "--json"]) == 0
    assert [d["new_records"] for d in json.loads(capsys.readouterr().out)["datasets"]] == [False, True]
    assert run(["ledger", "show", str(place.ledger)]) == 0
    assert capsys.readouterr().out.count("stated to be new records") == 1


def test_joining_a_federation_with_a_changed_file_needs_new_records(
    capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flower = pytest.importorskip("privot.federation.flower")
    try:
        flower.require()
    except PrivotError:
        pytest.skip("Flower is not installed")
    from privot.federation.flower import supernode

    monkeypatch.setattr(supernode, "serve", lambda *_: None)
    place = Place(tmp_path)
    place.prepare()
    assert sketch(place) == 0
    place.change_one_value()
    (tmp_path / "ca.pem").write_text("none")
    join = [
        "federate",
        "join",
        str(tmp_path / "party"),
        "--link",
        "127.0.0.1:1",
        "--authority",
        str(tmp_path / "ca.pem"),
    ]
    capsys.readouterr()
    assert run(join) == 4
    assert "--new-records" in capsys.readouterr().err
    assert len(place.datasets()) == 1
    assert run([*join, "--new-records"]) == 0
    assert [d.new_records for d in place.datasets()] == [False, True]


def test_vaults_in_python_refuse_other_records_too(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).uniform(size=(9, 3))
    terms: dict[str, Any] = {"clip": 1.0, "adjacency": "add-remove", "budget": (1.0, 1e-5)}
    with Ledger.create(tmp_path / "l") as book:
        Vault(rows, **terms, ledger=book, label="clinic")
        with pytest.raises(BudgetError, match="clinic"):
            Vault(rows[1:], **terms, ledger=book)
        # also where the ledger is only asked for the budget it has
        with pytest.raises(BudgetError, match="guards other records"):
            Vault(rows[1:], clip=1.0, adjacency="add-remove", ledger=book)
        Vault(rows[::-1], **terms, ledger=book)
        # stating it of records that the ledger knows buys nothing
        Vault(rows, **terms, ledger=book, new_records=True)
        assert len(book.datasets()) == 1


def test_an_untrusted_job_folder_sets_no_budget_in_its_own_ledger(capsys: Any, tmp_path: Path) -> None:
    # an attacker hands over a folder whose job.json names his own ledger and much ε: going on with it may not pay there
    place = Place(tmp_path)
    place.prepare()
    gift, own = tmp_path / "gift", tmp_path / "own.ledger"
    Ledger.create(own).close()
    words = ["synth", str(place.data), *SAME, *QUICK, "--epsilon", "50", "--delta", "1e-5", "--set", "steps=2"]
    assert run([*words, "--samples", "4", "--ledger", str(place.ledger), "--out", str(gift)]) == 0
    for made in gift.iterdir():
        if made.name != "job.json":
            made.unlink()
    with Ledger.open(own) as book:
        identity = book.identity
    fields = json.loads((gift / "job.json").read_text())
    fields["job"], fields["settings"]["ledger"] = "ab" * 8, identity
    for words in fields["settings"]["command"]:
        words[:] = [str(own) if str(word).endswith("data.npz.ledger") else word for word in words]
    (gift / "job.json").write_text(json.dumps(fields))
    capsys.readouterr()
    assert run(["synth", "--resume", "--out", str(gift)]) == 2
    assert "knows no budget for these records" in capsys.readouterr().err
    with Ledger.open(own) as book:
        assert (book.datasets(), book.entries()) == ([], [])
