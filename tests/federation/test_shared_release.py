"""A release over the records of many parties is the one that a vault of all of them would make, and each pays once."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partition_samples import SCHEMA, arrow_table, exact, people, silent, table_release
from secure_sums import Room

from privot import Ledger, Vault
from privot.errors import BudgetError, ConvergenceError, DataError, PrivotError, UnprovenError, UsageError
from privot.federation.secure_sum.local_sums import LocalSums
from privot.federation.secure_sum.party import SumParty
from privot.federation.secure_sum.round_memory import RoundMemory
from privot.federation.secure_sum.rounds import TOTAL, Question
from privot.federation.wire.messages import decode_any, encode
from privot.federation.wire.signing import open_sealed, seal
from privot.mechanisms import Count, Histogram, Mean, Quantiles, RandomProjection
from privot.mechanisms.summaries.mean import ClampedSum
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.cell_counts import CellCounts
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.noise import SeededNoise, SystemNoise
from privot.release import Release
from privot.vault.shared_records import SharedRecords

COST: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


def together(
    room: Room, vaults: list[Vault], mechanism: Any, sums: type[LocalSums] = LocalSums, **more: Any
) -> list[Release]:
    """What every party's vault releases, all of them at once."""
    channel = sums(room.job, room.coordinator, patience=60.0)

    def play(place: int) -> Release:
        memory = RoundMemory(room.folder / f"memory-{place}", room.job.digest())
        try:
            party = SumParty(room.job, room.keys[place], memory, channel)
            return vaults[place].release_shared(mechanism, party, purpose="together", **more)
        finally:
            memory.close()

    return channel.run(play)


def table_vault(records: list[dict[str, Any]], **more: Any) -> Vault:
    stated = {"budget": (1e6, 1e-5), "noise": silent(), **more}
    return Vault.open(arrow_table(records), SCHEMA, adjacency="add-remove", **stated)


def evenly(records: list[dict[str, Any]], parties: int) -> list[list[dict[str, Any]]]:
    return [records[place::parties] for place in range(parties)]


def by_label(records: list[dict[str, Any]], parties: int) -> list[list[dict[str, Any]]]:
    order = sorted(records, key=lambda record: record["ill"])
    return [order[len(order) * place // parties : len(order) * (place + 1) // parties] for place in range(parties)]


def one_alone(records: list[dict[str, Any]], parties: int) -> list[list[dict[str, Any]]]:
    return [records[:1], *evenly(records[1:], parties - 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spread", "parties"),
    [
        (evenly, 3),
        (by_label, 3),
        (one_alone, 3),
        pytest.param(by_label, 10, marks=pytest.mark.full("three parties, but more")),
    ],
)
def test_a_table_of_many_parties_is_that_of_one_vault_to_the_bit(
    tmp_path: Path, spread: Callable[..., list[list[dict[str, Any]]]], parties: int
) -> None:
    records = people(300)
    one = exact(table_vault(records), table_release())
    vaults = [table_vault(own) for own in spread(records, parties)]
    for release in together(Room(tmp_path, parties), vaults, table_release(), allow_unproven=True):
        value: Any = release.value
        assert one.keys() == value.keys()
        assert all(one[name].tobytes() == np.asarray(value[name]).tobytes() for name in one)


@pytest.mark.parametrize(
    "mechanism",
    [
        Count(**COST),
        Mean("age", **COST),
        Histogram("city", **COST),
        Quantiles("age", **COST),
    ],
)
def test_simple_numbers_of_many_parties_are_those_of_one_vault(tmp_path: Path, mechanism: Any) -> None:
    records = people(60)
    one = exact(table_vault(records), mechanism)
    vaults = [table_vault(own) for own in one_alone(records, 4)]
    for release in together(Room(tmp_path, 4), vaults, mechanism, allow_unproven=True):
        value: Any = release.value
        assert value["estimate"].tobytes() == one["estimate"].tobytes()
        # four parties, one of which may be against the others: the sum carries 4/3 of the noise, and says so
        assert release.public["sigma"] == pytest.approx(mechanism.event(vaults[0].facts).sigma * (4 / 3) ** 0.5)


def charged(books: list[Path]) -> list[int]:
    """How often each ledger was charged for what the parties made together."""
    return [sum("together" in entry.purpose for entry in Ledger.open(book).entries()) for book in books]


def real_vaults(tmp_path: Path, budget: tuple[float, float] = (5.0, 1e-5)) -> tuple[list[Vault], list[Path]]:
    books = [tmp_path / f"{place}.ledger" for place in range(3)]
    vaults = []
    for book, own in zip(books, evenly(people(90), 3), strict=True):
        ledger = Ledger.open(book) if book.exists() else Ledger.create(book)
        vaults.append(table_vault(own, noise=SystemNoise(), ledger=ledger, budget=budget))
    return vaults, books


def test_each_party_pays_once_however_often_the_job_is_run(tmp_path: Path) -> None:
    room = Room(tmp_path)
    vaults, books = real_vaults(tmp_path)
    first = together(room, vaults, Mean("age", **COST))
    again = together(room, real_vaults(tmp_path)[0], Mean("age", **COST))
    # a copy of the folder without what was answered makes the same noise
    for place in range(3):
        for path in (tmp_path / f"memory-{place}").glob("*.json"):
            path.unlink()
    restored = together(room, real_vaults(tmp_path)[0], Mean("age", **COST))
    for one, other, third in zip(first, again, restored, strict=True):
        assert one.value == other.value == third.value == first[0].value
        assert one.guarantee.standing.name == "PROVEN"
        assert any("with at most 1 of the 3 parties" in text for text in one.guarantee.assumptions)
        assert any("with each of them" in text for text in one.guarantee.assumptions)
        # a party's salt stays in its folder, so that it can take part again
        assert not any("destroyed" in text for text in one.guarantee.assumptions)
    assert charged(books) == [1] * 3
    # other parties, or more of them who may collude, are another job
    other = Room(tmp_path / "other", collusion=2)
    together(other, real_vaults(tmp_path)[0], Mean("age", **COST))
    assert charged(books) == [2] * 3


def test_every_party_has_paid_before_it_sends_anything(tmp_path: Path) -> None:
    vaults, books = real_vaults(tmp_path)
    found: list[int] = []

    class Watching(LocalSums):
        def offers(self, question: Question, offer: bytes) -> Any:
            if question.number == 0:
                found.append(sum(charged(books)))
            return super().offers(question, offer)

    together(Room(tmp_path), vaults, Count(**COST), Watching)
    # who comes first has paid, the second finds two charges at least, and so on
    assert all(paid >= place for place, paid in enumerate(sorted(found), 1))


@pytest.mark.parametrize("book", [True, False])
def test_no_frame_of_a_refused_party_holds_what_its_noise_follows_from(tmp_path: Path, book: bool) -> None:
    room = Room(tmp_path)
    vault = real_vaults(tmp_path)[0][0] if book else table_vault(people(30), noise=SystemNoise())
    memory = RoundMemory(tmp_path / "alone", room.job.digest())
    memory.bind("another release")
    party = SumParty(room.job, room.keys[0], memory, LocalSums(room.job, room.coordinator, patience=0.1))
    budget = vault._Vault__budget  # type: ignore[attr-defined]
    secret = budget.secret_of(party.salt)
    with pytest.raises(DataError, match="another release") as raised:
        vault.release_shared(Count(**COST), party, purpose="together")
    frames = [frame.frame.f_locals for frame in raised.traceback]
    assert len(frames) > 3
    assert not [name for held in frames for name, value in held.items() if value == secret and held is not frames[0]]


def test_a_party_that_lost_its_noise_gets_no_sum_of_the_others_under_another(tmp_path: Path) -> None:
    # they would be seen under fresh noise of hers and the same noise of all others, which is less than they paid for
    room = Room(tmp_path)
    together(room, real_vaults(tmp_path)[0], Count(**COST))
    shutil.rmtree(tmp_path / "memory-1")
    with pytest.raises(PrivotError, match=r"bring other noise|another party failed"):
        together(room, real_vaults(tmp_path)[0], Count(**COST))


def test_a_job_serves_one_release(tmp_path: Path) -> None:
    room = Room(tmp_path)
    vaults, books = real_vaults(tmp_path)
    together(room, vaults, Count(**COST))
    # another question under the same job, and the same question about records that have changed
    with pytest.raises(PrivotError, match=r"another release|another party failed"):
        together(room, vaults, Mean("age", **COST))
    changed = [table_vault(own) for own in evenly(people(91), 3)]
    with pytest.raises(PrivotError, match=r"another release|another party failed|allow_unproven"):
        together(room, changed, Count(**COST))
    assert charged(books) == [1] * 3
    # one party object, used in a loop
    memory = RoundMemory(tmp_path / "alone", room.job.digest())
    party = SumParty(room.job, room.keys[0], memory, LocalSums(room.job, room.coordinator, patience=0.1))
    with pytest.raises(ConvergenceError):
        vaults[0].release_shared(Count(**COST), party, purpose="together")
    with pytest.raises(UsageError, match="serves one release"):
        vaults[0].release_shared(Count(**COST), party, purpose="together")


def test_what_cannot_be_made_again_is_another_release(tmp_path: Path) -> None:
    class Own(SystemNoise):
        """Fresh at every run, and as good as the operating system's."""

    room, cut = Room(tmp_path), evenly(people(90), 3)
    with pytest.raises(UsageError, match="from the operating system"):
        together(room, [table_vault(own, noise=Own()) for own in cut], Count(**COST))
    # budgets in memory: another vault has another secret, so a party that comes again is seen
    together(room, [table_vault(own, noise=SystemNoise()) for own in cut], Count(**COST))
    with pytest.raises(PrivotError, match=r"another release|another party failed"):
        together(room, [table_vault(own, noise=SystemNoise()) for own in cut], Count(**COST))


def test_records_that_have_changed_are_another_release(tmp_path: Path) -> None:
    room = Room(tmp_path)
    together(room, real_vaults(tmp_path)[0], Count(**COST))
    vaults, books = real_vaults(tmp_path)
    vaults[1] = table_vault(
        people(31), noise=SystemNoise(), ledger=Ledger.open(books[1]), budget=(5.0, 1e-5), new_records=True
    )
    with pytest.raises(PrivotError, match=r"records that have changed|another party failed"):
        together(room, vaults, Count(**COST))


def test_noise_from_a_seed_is_no_start_of_a_proven_release(tmp_path: Path) -> None:
    room, cut = Room(tmp_path), evenly(people(90), 3)

    def seeded(source: Any) -> list[Vault]:
        return [table_vault(own, noise=source) for own in cut]

    together(room, seeded(SeededNoise(3)), Count(**COST), allow_unproven=True)
    with pytest.raises(PrivotError, match=r"another release|another party failed"):
        together(room, seeded(SystemNoise()), Count(**COST))


def test_parties_who_mean_different_things_by_a_question_find_out(tmp_path: Path) -> None:
    city = next(column for column in SCHEMA.columns if column.name == "city")
    turned = replace(city, categories=tuple(reversed(city.categories)))
    other = replace(SCHEMA, columns=tuple(turned if column is city else column for column in SCHEMA.columns))
    vaults = [table_vault(own) for own in evenly(people(90), 3)]
    vaults[2] = Vault.open(arrow_table(people(30)), other, adjacency="add-remove", budget=(1e6, 1e-5), noise=silent())
    with pytest.raises(PrivotError, match=r"another question|another party failed"):
        together(Room(tmp_path), vaults, Histogram("city", **COST), allow_unproven=True)


def test_what_is_asked_of_the_records_is_bound_before_the_question() -> None:
    bound: list[bytes] = []

    class Records:
        def sums(self, summand: Any) -> str:
            return "sums"

    class Bound:
        about = staticmethod(bound.append)

    class Unsaid:
        """A summand of which nobody can tell what it adds."""

    seen = SharedRecords(Records(), Bound())  # type: ignore[arg-type]
    axes = (Axis(0, 2), Axis(1, 3))
    for summand in (CellCounts(axes, ((0,),)), CellCounts(axes, ((1,),)), CellCounts(axes[::-1], ((0,),))):
        assert seen.sums(summand) == "sums"
    assert len(set(bound)) == 3
    with pytest.raises(UsageError, match="sums alone"):
        seen.rows()
    with pytest.raises(UsageError, match="does not say what it sums"):
        seen.sums(Unsaid())  # type: ignore[arg-type]
    assert len(bound) == 3


def test_parties_whose_processors_make_other_groups_find_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, caller = GroupedMarginals.groups, threading.local()

    def groups(self: GroupedMarginals, counts: np.ndarray) -> np.ndarray:
        made = plain(self, counts)
        if getattr(caller, "turned", True):
            made = made.copy()
            last = int(np.flatnonzero(made)[-1])
            made[[last - 1, last]] = made[[last, last - 1]]
        return made

    vaults = [table_vault(own) for own in evenly(people(200), 3)]
    release = vaults[0].release_shared

    def straight(*given: Any, **more: Any) -> Release:
        caller.turned = False
        return release(*given, **more)

    class First:
        release_shared = staticmethod(straight)

    monkeypatch.setattr(GroupedMarginals, "groups", groups)
    with pytest.raises(PrivotError):
        together(Room(tmp_path), [First(), *vaults[1:]], table_release(), allow_unproven=True)  # type: ignore[list-item]


def test_a_coordinator_that_shows_parties_different_totals_is_found_out(tmp_path: Path) -> None:
    room = Room(tmp_path)

    class Lying(LocalSums):
        def total(self, question: Question, answer: bytes) -> bytes:
            message = super().total(question, answer)
            if question.number or threading.current_thread().name != "party 2":
                return message
            head = decode_any(open_sealed(message).payload, TOTAL, {}, ("words",))[0]
            words = np.full(question.count, 7, dtype="<u8").tobytes()
            return seal(encode(TOTAL, head, {}, {"words": words}), room.coordinator)

    with pytest.raises(PrivotError, match=r"another question|another party failed"):
        together(room, [table_vault(own) for own in evenly(people(60), 3)], Count(**COST), Lying, allow_unproven=True)


def test_sums_that_come_out_otherwise_are_no_repeat_of_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the same records on a computer that rounds otherwise today: her noise would be another, beside that of all others
    room = Room(tmp_path)
    together(room, real_vaults(tmp_path)[0], Mean("age", **COST))
    plain = ClampedSum.add

    def add(self: ClampedSum, totals: Any, *block: Any) -> None:
        plain(self, totals, *block)
        if threading.current_thread().name == "party 1":
            totals[0][1] += 1

    made: list[int] = []

    class Watching(LocalSums):
        def total(self, question: Question, answer: bytes) -> bytes:
            message = super().total(question, answer)
            made.append(question.number)
            return message

    monkeypatch.setattr(ClampedSum, "add", add)
    with pytest.raises(PrivotError, match=r"sums that came out otherwise|another party failed"):
        together(room, real_vaults(tmp_path)[0], Mean("age", **COST), Watching)
    # not even the first sum was made, which would show the noise of the others again
    assert not made


def test_what_many_parties_cannot_make_together_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    room = Room(tmp_path)
    vaults, books = real_vaults(tmp_path)
    rng = np.random.default_rng(0)
    fixed = [Vault(rng.uniform(size=(5, 2)), clip=1.0, adjacency="replace-one", budget=(1.0, 1e-5)) for _ in range(3)]
    for held, mechanism, said in (
        (vaults, RandomProjection(slices=4, sigma=1.0), "not made of sums"),
        (fixed, Count(**COST), "under add-remove"),
    ):
        with pytest.raises(UsageError, match=said):
            together(room, held, mechanism)
    with pytest.raises(UnprovenError):
        together(room, [table_vault(own) for own in evenly(people(9), 3)], Count(**COST))
    assert charged(books) == [0] * 3


def test_one_party_without_budget_ends_the_job_and_says_so(tmp_path: Path) -> None:
    room = Room(tmp_path)
    vaults, _ = real_vaults(tmp_path, budget=(0.01, 1e-5))
    with pytest.raises(PrivotError) as raised:
        together(room, vaults, Mean("age", **COST))
    assert isinstance(raised.value, BudgetError) or "another party failed" in str(raised.value)
    # nothing of a record in what the failure holds
    assert raised.value.__context__ is None or isinstance(raised.value, BudgetError)
