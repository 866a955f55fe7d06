"""A job that is killed between its charge and its release is ended with that one charge, by whoever goes on with it.

One begun from Python is ended by the command line and the other way round; what is released is what was paid for.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from record_jobs import charges, write_data

from privot.adaptation import DomainAdapter, Embedding
from privot.cli import run
from privot.errors import BudgetError, LostReleaseError
from privot.jobs.job import Job
from privot.jobs.paid_file import PaidFile
from privot.kinds import Vectors
from privot.ledger import Ledger
from privot.release import Release
from privot.synthesis import Synthesizer
from privot.synthesis.methods import embedding_method
from privot.synthesis.neural.defaults.generator_defaults import choose_rules
from privot.tables import Schema
from privot.vault import Vault

pytestmark = pytest.mark.slow

BOOK = "book.ledger"
COMMANDS = {
    "table": "synth table.csv --schema table.json --epsilon 2 --delta 1e-5 --adjacency add-remove --samples 20",
    "embedding": (
        "synth points.npz --classes 2 --range 0,1 --set steps=6 --epsilon 2 --delta 1e-5 --adjacency add-remove "
        "--samples 20"
    ),
    "adapt": "adapt source.npz target.npz --range 0,1 --set fit=3 --set finish=10 --epsilon 2 --delta 1e-5",
}


class Killed(BaseException):
    """Stands for a kill: nothing after it runs."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_data()
    return tmp_path


def typed(kind: str, *more: str) -> int:
    words = f"{COMMANDS[kind]} --device cpu --seed 1 --ledger {BOOK} --out out --json"
    return run([*shlex.split(words), *more])


def fitted(kind: str, **more: Any) -> Any:
    """The same job from Python."""
    book = Ledger.open(Path(BOOK)) if Path(BOOK).exists() else Ledger.create(Path(BOOK))
    paid: dict[str, Any] = {"ledger": book, "budget": None if book.datasets() else (2.0, 1e-5)}
    if kind == "table":
        schema = Schema.load(Path("table.json"))
        vault = Vault.open("table.csv", schema, adjacency="add-remove", **paid)
        made = Synthesizer(2.0, 1e-5, device="cpu", seed=1)
        return made.fit(vault, folder="out", **more)
    if kind == "embedding":
        held = np.load("points.npz")
        vault = Vault(held["x"], held["y"], classes=2, clip=1.0, adjacency="add-remove", **paid)
        return Synthesizer(2.0, 1e-5, device="cpu", seed=1).fit(vault, folder="out", **more)
    held, source = np.load("target.npz"), np.load("source.npz")
    vault = Vault(held["x_train"], clip=1.0, adjacency="replace-one", **paid)
    return DomainAdapter(2.0, 1e-5, method="embedding", device="cpu", seed=1).fit(
        vault, (source["x_train"], source["y_train"]), folder="out", **more
    )


def killed(work: Callable[[], object], after: bool = True) -> None:
    """Do `work`, killed after its first charge; or before it."""
    charge = Ledger.charge

    def struck(self: Ledger, *given: Any, **named: Any) -> Any:
        if after:
            charge(self, *given, **named)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "charge", struck)
        with pytest.raises(Killed):
            work()
    assert sum(charges().values()) == int(after)


def kept() -> set[str]:
    return {path.suffix for path in Path("out").iterdir()}


def value() -> dict[str, Any]:
    found = next(path for path in (Path("out/release.npz"), Path("out/block-1.npz")) if path.exists())
    made: Any = Release.load(found).value
    return {name: np.asarray(part) for name, part in made.items()}


@pytest.mark.parametrize("kind", ["table", "adapt"])
def test_begun_by_the_command_and_ended_from_python(place: Path, kind: str) -> None:
    killed(lambda: typed(kind))
    assert ".salt" in kept()
    assert ".npz" not in kept()
    if kind == "adapt":
        source, held = np.load("source.npz"), np.load("target.npz")
        with Ledger.open(Path(BOOK)) as book:
            vault = Vault(held["x_train"], clip=1.0, adjacency="replace-one", ledger=book)
            DomainAdapter(2.0, 1e-5, method=Embedding(fit=3, finish=10), device="cpu", seed=1).fit(
                vault, (source["x_train"], source["y_train"]), folder="out"
            )
    else:
        fitted(kind)
    assert charges() == {BOOK: 1}
    assert ".salt" not in kept()
    # and the command finishes what Python left
    assert typed(kind, "--resume") == 0
    assert charges() == {BOOK: 1}


@pytest.mark.parametrize("kind", ["table", "adapt"])
def test_begun_from_python_and_ended_by_the_command(place: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "adapt", "adapt source.npz target.npz --range 0,1 --epsilon 2 --delta 1e-5")
    killed(lambda: fitted(kind))
    assert ".salt" in kept()
    assert typed(kind, "--resume") == 0
    assert charges() == {BOOK: 1}
    assert ".salt" not in kept()
    with Ledger.open(Path(BOOK)) as book:
        (entry,) = book.entries()
        assert Job.open(Path("out")).name in entry.purpose


@pytest.mark.parametrize("kind", ["table", "embedding"])
def test_the_release_after_a_kill_is_the_one_that_was_paid_for(
    place: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    save = Release.save

    def struck(self: Release, path: Path, **named: Any) -> None:
        seen.append({name: np.array(part) for name, part in self.value.items()})  # type: ignore[union-attr]
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Release, "save", struck)
        with pytest.raises(Killed):
            typed(kind)
    assert charges() == {BOOK: 1}
    assert Release.save is save
    assert typed(kind, "--resume") == 0
    found = value()
    assert set(found) == set(seen[0])
    for name, part in found.items():
        np.testing.assert_array_equal(part, seen[0][name])
    assert charges() == {BOOK: 1}
    stated = json.loads(Path("out/guarantee.json").read_text())["assumptions"]
    assert any("the secret that lets the noise be made again" in line for line in stated)


def test_another_ledger_key_or_salt_makes_no_release(place: Path, capsys: Any) -> None:
    """What lies in the folder alone tells nothing of the noise, and pays for nothing."""
    killed(lambda: typed("table"))
    (salt,) = Path("out").glob("*.salt")
    assert salt.stat().st_mode & 0o077 == 0
    held = salt.read_bytes()
    salt.write_bytes(bytes(32))
    assert typed("table", "--resume") == 4
    assert "allow a second charge" in capsys.readouterr().err
    salt.write_bytes(held)
    assert typed("table", "--resume") == 0
    assert charges() == {BOOK: 1}


def test_other_versions_refuse_and_a_refused_second_charge_keeps_the_salt(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise that this machine would not make again is not paid for anew in silence; the first machine can still."""
    killed(lambda: typed("table"))
    with monkeypatch.context() as patch:
        patch.setattr("privot.vault.release_steps.arithmetic_mark", lambda *_: "another processor")
        assert typed("table", "--resume") == 4
        assert charges() == {BOOK: 1}
        with pytest.raises(LostReleaseError):
            fitted("table")
        with pytest.raises(BudgetError):
            fitted("table", pay_again=True)
        assert charges() == {BOOK: 1}
    assert ".salt" in kept()
    assert typed("table", "--resume") == 0
    assert charges() == {BOOK: 1}


def test_a_salt_is_on_disk_before_the_charge(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []
    charge = Ledger.charge

    def looking(self: Ledger, *given: Any, **named: Any) -> Any:
        seen.append(kept())
        return charge(self, *given, **named)

    monkeypatch.setattr(Ledger, "charge", looking)
    assert typed("table") == 0
    assert seen == [{".json", ".salt"}]
    assert not PaidFile.salted(Path("out/release.npz")).again.exists()


@pytest.mark.parametrize("kind", ["table", "adapt"])
def test_a_job_of_which_nothing_was_paid_is_begun_again(place: Path, kind: str, capsys: Any) -> None:
    killed(lambda: typed(kind), after=False)
    first = Job.open(Path("out")).name
    assert typed(kind) == 0
    assert Job.open(Path("out")).name != first
    assert charges() == {BOOK: 1}
    capsys.readouterr()
    # paid: it is not
    assert typed(kind) == 2
    assert "is not empty" in capsys.readouterr().err


def test_a_job_that_may_have_paid_is_not_begun_again(place: Path, capsys: Any) -> None:
    killed(lambda: typed("table"))
    assert typed("table") == 2
    killed_job = Job.open(Path("out"))
    # nor one that pays from another ledger, which alone knows
    other = Path("other.ledger")
    Ledger.create(other).close()
    words = [*shlex.split(COMMANDS["table"]), "--ledger", "other.ledger"]
    assert run([*words, "--device", "cpu", "--out", "out"]) == 2
    assert Job.open(Path("out")) == killed_job
    # nor one whose folder holds more than what lies there before a charge
    assert typed("table", "--resume") == 0
    with Ledger.open(Path(BOOK)) as book:
        from privot.jobs.charges import discard_unpaid

        assert not discard_unpaid(Path("out"), book)


def test_a_refused_job_begins_when_the_budget_is_raised(place: Path, capsys: Any) -> None:
    assert typed("table") == 0
    words = COMMANDS["table"] + f" --device cpu --ledger {BOOK} --out second"
    assert run(shlex.split(words)) == 4
    with Ledger.open(Path(BOOK)) as book:
        (data,) = book.datasets()
        book.raise_budget(data.fingerprint, 6.0, "a second year", i_am_the_steward=True)
    assert run(shlex.split(words)) == 0
    assert charges() == {BOOK: 2}


NUMBER = "--epsilon 0.5 --delta 1e-6"
ADDED = "--epsilon 2 --delta 1e-5 --adjacency add-remove --samples 20"
SORTS = {
    "related": (f"synth patients.csv visits.csv --schema patients.json --schema visits.json --unit id {ADDED}", 1),
    "images": (f"synth images.npz --classes 2 --shape 4,4 --range 0,1 --set labelled=0 {ADDED}", 1),
    "blocks": (
        "synth points.npz --method sinkhorn --classes 2 --range 0,1 --set records=400 --set steps=8 --set blocks=4 "
        f"--set batch=20 {ADDED}",
        4,
    ),
    "mean": (f"release mean a.csv --column u --range 0,9 {NUMBER} --adjacency add-remove", 1),
    "sketch": (f"sketch a.csv {NUMBER} --adjacency add-remove --range 0,9 --out s.sketch", 1),
    "distance": (f"compare a.csv b.csv --method dp-swd {NUMBER} --adjacency replace-one --clip 9", 2),
    "answer": ("answer request.json target.npz --epsilon 5 --delta 1e-5 --out answer.release", 1),
}
"""What is typed for a job of each sort, and how often it is charged in all."""
ASK = (
    "adapt source.npz --epsilon 5 --delta 1e-5 --seed 1 --device cpu --range 0,1 --set fit=3 --set finish=10 "
    "--ask request.json --set records=80 --out asked"
)


def by_command(sort: str) -> None:
    """As a person types it; a job in a folder is resumed where there is one."""
    words = SORTS[sort][0]
    if words.startswith("synth"):
        words += f" --device cpu --seed 1 --ledger {BOOK} --out out" + (" --resume" if Path("out").exists() else "")
    assert run(shlex.split(words)) == 0


def by_python(sort: str) -> None:
    """The same as a program asks for it."""
    from privot.adaptation.adaptation_answer import answer_once
    from privot.adaptation.adaptation_request import AdaptationRequest
    from privot.data.record_digest import row_digests
    from privot.federation import private_sliced, sketch
    from privot.jobs.paid_question import release_once
    from privot.kinds import Images
    from privot.mechanisms import Mean, SketchDesign
    from privot.synthesis import Embedding, Sinkhorn
    from privot.tables import RelatedCodec

    def paying(data: str, epsilon: float, delta: float) -> dict[str, Any]:
        place = Path(BOOK if data == BOOK else f"{data}.ledger")
        book = Ledger.open(place) if place.exists() else Ledger.create(place)
        return {"ledger": book, "budget": None if book.datasets() else (epsilon, delta)}

    def rows(name: str, adjacency: str, clip: float) -> Vault:
        x = np.loadtxt(name, delimiter=",", skiprows=1)
        return Vault(x, clip=clip, adjacency=adjacency, kind=Vectors(columns=("u", "v")), **paying(name, 0.5, 1e-6))

    terms: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-6}
    if sort == "mean":
        mean = Mean(column="u", range=(0.0, 9.0), **terms)
        with release_once(rows("a.csv", "add-remove", 1.0), mean, purpose="the mean of u", delta=1e-6):
            return
    if sort == "sketch":
        sketch(rows("a.csv", "add-remove", 1.0), design=SketchDesign.box(2, 0.0, 9.0, seed=0), **terms)
        return
    if sort == "distance":
        private_sliced(rows("a.csv", "replace-one", 9.0), rows("b.csv", "replace-one", 9.0), **terms)
        return
    if sort == "answer":
        x = np.load("target.npz")["x_train"]
        paid = paying("target.npz", 5.0, 1e-5)
        vault = Vault(x, clip=1.0, adjacency="replace-one", **paid)
        data = paid["ledger"].fingerprint({"x": row_digests(x)})
        answer_once(AdaptationRequest.read(Path("request.json")), vault, Path("target.npz.ledger.answers"), data)
        return
    more: dict[str, Any] = {"adjacency": "add-remove", **paying(BOOK, 2.0, 1e-5)}
    asked: dict[str, Any] = {"device": "cpu", "seed": 1}
    if sort == "related":
        files = {name: Path(f"{name}.csv") for name in ("patients", "visits")}
        vault = Vault.open(files, RelatedCodec({n: Schema.load(f"{n}.json") for n in files}, key="id"), **more)
    elif sort == "images":
        held = np.load("images.npz")
        vault = Vault(held["x"], held["y"], clip=1.0, kind=Images((4, 4), 2), **more)
        asked["method"] = Embedding(options={"labelled": 0.0})
    else:
        held = np.load("points.npz")
        vault = Vault(held["x"], held["y"], classes=2, clip=1.0, **more)
        asked |= {"method": Sinkhorn(options={"steps": 8, "blocks": 4, "batch": 20}), "records": 400}
    Synthesizer(2.0, 1e-5, **asked).fit(vault, folder="out")


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("begins", [by_command, by_python])
def test_every_sort_that_one_begins_the_other_ends_with_the_same_charges(
    place: Path, sort: str, begins: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if sort == "answer":
        assert run(shlex.split(ASK)) == 0
    if sort == "images":
        dice = np.random.default_rng(0)
        np.savez("images.npz", x=dice.random((60, 16)), y=np.arange(60) % 2)
        # what is trained afterwards does not matter
        monkeypatch.setattr(embedding_method, "choose_rules", lambda problem: replace(choose_rules(problem), steps=3))
    killed(lambda: begins(sort))
    ends = by_python if begins is by_command else by_command
    ends(sort)
    assert sum(charges().values()) == SORTS[sort][1]
    left = [path.name for path in Path().rglob("*") if path.suffix in (".secret", ".salt", ".paid")]
    assert left == []
