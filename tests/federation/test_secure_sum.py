"""A sum over many parties is that of one vault, its noise has the stated law, and nobody sees more than the total."""

from __future__ import annotations

import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from secure_sums import JOB, NoNoise, Room

from privot.errors import DataError, PrivotError, UsageError
from privot.federation.secure_sum import round_memory
from privot.federation.secure_sum.masking import MaskKey, _secret, add_words
from privot.federation.secure_sum.round_memory import RoundMemory
from privot.federation.secure_sum.rounds import ANSWER, OFFER, Attempt, Question, add_up, read_offers, transcript_of
from privot.federation.wire.messages import decode_any, encode
from privot.federation.wire.signing import open_sealed, public_name, seal
from privot.noise import SystemNoise
from privot.noise.adding import add_steps, grid_of
from privot.noise.noisy_counts import add_noise_to_counts, counting_grid
from privot.noise.shared_noise import LEAST_STEPS, MOST_PARTIES, MOST_STEPS, SharedNoise, check_shares, share_sigma

ASKED = Question(0, "ab" * 32, 5)
COMMITTED = "ef" * 32


def words(seed: int, count: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(-(2**40), 2**40, count).astype(np.int64)


def attempts(room: Room, question: Question = ASKED) -> tuple[list[Attempt], list[bytes]]:
    made = [Attempt(room.job, question, key, COMMITTED) for key in room.keys]
    return made, [attempt.offer() for attempt in made]


def sent(message: bytes) -> np.ndarray:
    """The numbers that whoever hears a party's answer sees."""
    files = decode_any(open_sealed(message).payload, ANSWER, {}, ("words",))[2]
    return np.frombuffer(files["words"], dtype="<u8")


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 12), st.integers(1, 40), st.integers(0, 2**32))
def test_masks_cancel_in_the_sum_over_all_parties_and_in_no_other(parties: int, count: int, seed: int) -> None:
    keys = [MaskKey() for _ in range(parties)]
    held = [words(seed + place, count).view(np.uint64) for place in range(parties)]
    publics = {str(place): key.public for place, key in enumerate(keys)}
    masked = [key.mask(own, str(k), publics, b"t" * 32) for k, (key, own) in enumerate(zip(keys, held, strict=True))]
    np.testing.assert_array_equal(add_words(masked), add_words(held))
    for missing in range(parties):
        rest = [own for place, own in enumerate(masked) if place != missing]
        plain = [own for place, own in enumerate(held) if place != missing]
        assert not np.array_equal(add_words(rest), add_words(plain))


def test_what_a_party_sends_is_uniform_whatever_it_holds(tmp_path: Path) -> None:
    room, question = Room(tmp_path), replace(ASKED, count=40_000)

    def looks_uniform(seen: np.ndarray) -> bool:
        counted = np.bincount(seen.view(np.uint8), minlength=256)
        return bool(stats.chisquare(counted).pvalue > 1e-7)

    made, offers = attempts(room, question)
    zeros = np.zeros(question.count, dtype=np.uint64)
    first = sent(made[0].answer(offers, zeros))
    assert looks_uniform(first)
    # the test has power: numbers of a mask used twice, or of one that covers a thousandth less, do not look so
    assert not looks_uniform(first - first)
    short = first.copy()
    short[: question.count // 200] = 7
    assert not looks_uniform(short)
    # another attempt at the same sum shows other numbers
    made, offers = attempts(room, question)
    again = sent(made[0].answer(offers, zeros))
    assert looks_uniform(again - first)


def test_a_mask_key_masks_once(tmp_path: Path) -> None:
    made, offers = attempts(Room(tmp_path))
    made[0].answer(offers, np.zeros(5, dtype=np.uint64))
    with pytest.raises(UsageError, match="masks once"):
        made[0].answer(offers, np.zeros(5, dtype=np.uint64))


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.sampled_from([3, 10, 50]), st.integers(0, 2**32), st.data())
def test_a_sum_over_parties_is_that_of_one_vault_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, parties: int, seed: int, data: st.DataObject
) -> None:
    # spread in any way: records of one party, of none, of all
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(10_000, rng.dirichlet(np.full(parties, data.draw(st.sampled_from([0.01, 0.1, 10.0])))), 30)
    sigma = data.draw(st.floats(2.0**-10, 2.0**30))
    room = Room(tmp_path_factory.mktemp("room"), parties, collusion=data.draw(st.integers(1, parties - 1)))
    results = room.run(lambda place, noise: add_noise_to_counts(counts[:, place], noise, sigma), [NoNoise()] * parties)
    whole = add_noise_to_counts(counts.sum(axis=1), NoNoise(), sigma)
    for result in results:
        assert result.tobytes() == whole.tobytes()


def looks_like(noise: np.ndarray, sigma: float) -> bool:
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], noise.size)
    squares = float(np.sum(np.square(noise / sigma)))
    return bool(low < squares < high and stats.kstest(noise / sigma, "norm").pvalue > 1e-6)


@pytest.mark.parametrize(("parties", "collusion"), [(3, 1), (3, 2), (7, 3)])
def test_the_parties_outside_a_collusion_add_the_stated_noise_and_not_two_thirds_of_it(
    tmp_path: Path, parties: int, collusion: int
) -> None:
    sigma, count = 37.3, 4000
    # the others know their shares, so what hides a party is what is left without them: here they add none
    noises = [SystemNoise()] * (parties - collusion) + [NoNoise()] * collusion
    room = Room(tmp_path, parties, collusion)
    seen = room.run(lambda place, noise: add_noise_to_counts(np.full(count, place), noise, sigma), noises)[0]
    rest = seen - sum(range(parties))
    assert looks_like(rest, sigma)
    assert not looks_like(rest, 1.5 * sigma)
    assert not looks_like(rest * 2.0 / 3.0, sigma)


def test_the_share_of_the_smallest_noise_is_within_the_proof() -> None:
    for sigma in (2.0**-10, 1.0, 1.999, 2.0**20, 2.0**40):
        for grid in (counting_grid(sigma), grid_of(sigma)):
            assert share_sigma(sigma, MOST_PARTIES, 1) / grid >= 2.0**15
            assert LEAST_STEPS <= sigma / grid < MOST_STEPS
    # the total of what is cut and of all noise, which ends at 15 deviations, stays below 2⁶³
    assert 2**62 + MOST_PARTIES * 15 * MOST_STEPS < 2**63


def test_the_shares_outside_a_collusion_add_up_to_sigma_and_rounding_takes_nothing() -> None:
    dice = np.random.default_rng(7)
    for sigma, outside in zip(dice.uniform(1.0, 2.0, 3000), dice.integers(1, MOST_PARTIES, 3000), strict=True):
        share = Fraction(share_sigma(float(sigma), MOST_PARTIES, MOST_PARTIES - int(outside)))
        assert 1 <= share**2 * int(outside) / Fraction(float(sigma)) ** 2 < 1 + Fraction(1, 2**49)


def test_no_sum_wraps_whatever_the_parties_hold(tmp_path: Path) -> None:
    room = Room(tmp_path, 3)
    largest = np.full(3, 2**62, dtype=np.int64)
    for sign in (1, -1):
        seen = Room(tmp_path / str(sign), 3).run(
            lambda place, noise, sign=sign: add_noise_to_counts(sign * largest, noise, 1.0), [SystemNoise()] * 3
        )[0]
        assert (sign * seen > 0).all()
    assert room.job.collusion == 1


def test_a_memory_serves_one_release_one_question_a_round_and_one_set_of_commitments(tmp_path: Path) -> None:
    memory = RoundMemory(tmp_path / "a", JOB)
    for _ in range(2):
        memory.bind("release")
        memory.answer(0, "question", b"numbers")
        memory.hold({"a": "1", "b": "2"})
        memory.close()
        # another process
        memory = RoundMemory(tmp_path / "a", JOB)
    for other, said in (
        (lambda: memory.bind("another"), "another release"),
        (lambda: memory.answer(0, "another", b"numbers"), "another question"),
        (lambda: memory.answer(0, "question", b"others"), "sums that came out otherwise"),
        (lambda: memory.hold({"a": "1", "b": "3"}), "other noise"),
    ):
        with pytest.raises(DataError, match=said):
            other()
    memory.answer(1, "another", b"numbers")
    memory.close()
    with pytest.raises(DataError, match="in another job"):
        RoundMemory(tmp_path / "a", "ef" * 32).bind("release")


def test_a_closed_memory_answers_nothing(tmp_path: Path) -> None:
    # the folder may be another process's by then
    memory = RoundMemory(tmp_path / "a", JOB)
    memory.answer(0, "question", b"numbers")
    memory.close()
    with pytest.raises(UsageError, match="closed"):
        memory.answer(0, "question", b"numbers")
    assert not list((tmp_path / "a").glob("round-1*"))


def test_what_a_killed_process_left_is_on_disk_before_it_is_relied_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = RoundMemory(tmp_path / "a", JOB)
    memory.answer(0, "question", b"numbers")
    memory.close()
    synced: list[Path] = []
    monkeypatch.setattr(round_memory, "sync", synced.append)
    # a process that was killed after it gave the files their names, and before those were on disk
    memory = RoundMemory(tmp_path / "a", JOB)
    assert synced == [tmp_path / "a"]
    memory.answer(0, "question", b"numbers")
    memory.close()
    assert synced == [tmp_path / "a"] * 2


def test_a_lost_salt_ends_the_job(tmp_path: Path) -> None:
    memory = RoundMemory(tmp_path / "a", JOB)
    memory.answer(0, "question", b"numbers")
    memory.close()
    (tmp_path / "a" / "salt").write_bytes(b"short")
    with pytest.raises(DataError, match="damaged"):
        RoundMemory(tmp_path / "a", JOB)
    (tmp_path / "a" / "salt").unlink()
    with pytest.raises(DataError, match="no salt"):
        RoundMemory(tmp_path / "a", JOB)


def test_files_of_a_party_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    # also in a folder that was made by somebody less careful
    (tmp_path / "a").mkdir(mode=0o755)
    memory = RoundMemory(tmp_path / "a", JOB)
    memory.answer(0, "question", b"numbers")
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "a").iterdir())


def translates(public: bytes) -> list[bytes]:
    """Other public keys with which X25519 gives everybody the same secret: `public` moved by points of small order."""
    p, a = 2**255 - 19, 486662

    def root(square: int) -> int:
        found = pow(square, (p + 3) // 8, p)
        return found if found * found % p == square % p else found * pow(2, (p - 1) // 4, p) % p

    def lifted(u: int) -> tuple[int, int]:
        return u, root(u**3 + a * u * u + u)

    def added(x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int] | None:
        (x1, y1), (x2, y2) = x, y
        if x1 == x2:
            if (y1 + y2) % p == 0:
                return None
            slope = (3 * x1 * x1 + 2 * a * x1 + 1) * pow(2 * y1, p - 2, p) % p
        else:
            slope = (y2 - y1) * pow(x2 - x1, p - 2, p) % p
        x3 = (slope * slope - a - x1 - x2) % p
        return x3, (slope * (x1 - x3) - y1) % p

    eighth = lifted(325606250916557431795983626356110631294008115727848805560023387167927233504)
    small, point = [], eighth
    while point is not None:
        small.append(point)
        point = added(point, eighth)  # type: ignore[assignment]
    own = lifted(int.from_bytes(public, "little"))
    return [moved[0].to_bytes(32, "little") for one in small if (moved := added(own, one)) is not None]


def masks(key: MaskKey, names: str, others: list[bytes], transcript: bytes = b"t" * 32) -> int:
    """What `key`, under the first of the names, adds to a zero."""
    again = MaskKey()
    again._key, again.public = key._key, key.public
    keys = dict(zip(names, (key.public, *others), strict=True))
    return int(again.mask(np.zeros(1, dtype=np.uint64), names[0], keys, transcript)[0])


def test_keys_with_the_same_secret_share_no_masks() -> None:
    # a party that offers another one's key, moved by a point of small order, would cancel that one's masks
    victim, mate = MaskKey(), MaskKey()
    others = translates(mate.public)
    assert len(others) >= 6
    held = victim._key
    assert held is not None
    same = {held.exchange(X25519PublicKey.from_public_bytes(other)) for other in (mate.public, *others)}
    assert len(same) == 1
    assert 0 not in {masks(victim, names, [mate.public, other]) for other in others for names in ("abc", "bac", "cab")}


def test_the_masks_follow_from_the_transcript_and_from_names() -> None:
    key, others = MaskKey(), [MaskKey().public for _ in range(2)]
    assert masks(key, "abc", others) == masks(key, "abc", others)
    assert len({masks(key, "abc", others), masks(key, "abc", others, b"u" * 32), masks(key, "abd", others)}) == 3
    with pytest.raises(DataError, match="of its own"):
        masks(key, "abc", [others[0], others[0]])


def test_a_sum_that_misses_a_party_is_refused_and_says_nothing(tmp_path: Path) -> None:
    room = Room(tmp_path)
    made, offers = attempts(room)
    answers = [attempt.answer(offers, np.zeros(5, dtype=np.uint64)) for attempt in made]
    with pytest.raises(DataError, match="misses 1 of 3"):
        add_up(room.job, ASKED, offers, answers[:2], room.coordinator)
    assert sum(sent(answer) for answer in answers[:2]).tolist() != [0] * 5
    assert sum(sent(answer) for answer in answers).tolist() == [0] * 5
    with pytest.raises(DataError, match="misses 1 of 3"):
        attempts(room)[0][0].answer(offers[:2], np.zeros(5, dtype=np.uint64))
    with pytest.raises(DataError, match="answered twice"):
        add_up(room.job, ASKED, offers, [answers[0], answers[0], answers[1]], room.coordinator)


def stream_of(secret: bytes, count: int) -> bytes:
    """The mask under the key of a pair."""
    return Cipher(algorithms.ChaCha20(secret, bytes(16)), mode=None).encryptor().update(bytes(8 * count))


def test_a_coordinator_and_a_party_get_no_sum_of_the_others_by_showing_them_different_keys(tmp_path: Path) -> None:
    # the third party and the coordinator pool what they know: its mask keys, all offers, all answers
    room, held = Room(tmp_path), [words(1).view(np.uint64), words(2).view(np.uint64)]
    names = [public_name(key) for key in room.keys]

    def pooled(different: bool) -> np.ndarray:
        """The sum of what the honest parties send, without the masks that the third party knows."""
        made, offers = attempts(room)
        another = Attempt(room.job, ASKED, room.keys[2], COMMITTED)
        left = []
        for place, bad in enumerate((made[2], another if different else made[2])):
            shown = [*offers[:2], offers[2] if bad is made[2] else another.offer()]
            offered = read_offers(room.job, ASKED, shown)
            transcript, key = transcript_of(room.job, ASKED, offered), bad._mask._key
            assert key is not None
            secret = _secret(
                key, (names[2], offered[names[2]].key), (names[place], offered[names[place]].key), transcript
            )
            pad = np.frombuffer(stream_of(secret, ASKED.count), dtype="<u8")
            answer = sent(made[place].answer(shown, held[place]))
            left.append(answer - pad if names[place] < names[2] else answer + pad)
        return left[0] + left[1]

    # what they get from a run without tricks: the sum of the honest parties, which their noise hides
    np.testing.assert_array_equal(pooled(different=False), held[0] + held[1])
    assert not np.isin(pooled(different=True), held[0] + held[1]).any()


def test_a_coordinator_cannot_fill_the_room_with_keys_of_its_own(tmp_path: Path) -> None:
    room = Room(tmp_path)
    made, offers = attempts(room)
    own = Ed25519PrivateKey.generate()
    fake = replace(room.job, parties=(*room.job.parties[:2], public_name(own)))
    forged = Attempt(fake, ASKED, own, COMMITTED).offer()
    with pytest.raises(DataError, match="not one of the parties"):
        made[0].answer([*offers[:2], forged], np.zeros(5, dtype=np.uint64))
    # nor can it give a party's place another mask key: the party's signature is missing
    body = encode(OFFER, {**ASKED.facts(room.job), "commitment": COMMITTED}, {}, {"key": MaskKey().public})
    with pytest.raises(DataError, match="not one of the parties"):
        made[1].answer([*offers[:2], seal(body, own)], np.zeros(5, dtype=np.uint64))


def test_a_party_sees_when_its_own_key_was_replaced_by_an_older_one(tmp_path: Path) -> None:
    room = Room(tmp_path)
    older = attempts(room)[1]
    made, offers = attempts(room)
    with pytest.raises(DataError, match="another mask key for this party"):
        made[0].answer([older[0], *offers[1:]], np.zeros(5, dtype=np.uint64))


def test_replayed_keys_of_another_party_give_noise_and_no_sum(tmp_path: Path) -> None:
    room = Room(tmp_path)
    older = attempts(room)[1]
    made, offers = attempts(room)
    zeros = np.zeros(5, dtype=np.uint64)
    # party 0 is shown party 2's key of an earlier attempt, the others the right one
    answers = [made[0].answer([*offers[:2], older[2]], zeros), *(a.answer(offers, zeros) for a in made[1:])]
    assert sum(sent(answer) for answer in answers).tolist() != [0] * 5
    with pytest.raises(DataError, match="another attempt"):
        add_up(room.job, ASKED, offers, answers, room.coordinator)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"number": 1}, "another round"), ({"digest": "cd" * 32}, "another question"), ({"count": 6}, "another question")],
)
def test_parties_who_are_asked_different_things_find_out(tmp_path: Path, change: dict[str, object], said: str) -> None:
    room = Room(tmp_path)
    made, offers = attempts(room)
    other = Attempt(room.job, replace(ASKED, **change), room.keys[2], COMMITTED).offer()
    with pytest.raises(DataError, match=said):
        made[0].answer([*offers[:2], other], np.zeros(5, dtype=np.uint64))


@pytest.mark.parametrize("change", [{"job": "cd" * 32}, {"collusion": 2}, {"coordinator": "cd" * 32}])
def test_parties_who_are_shown_different_jobs_find_out(tmp_path: Path, change: dict[str, object]) -> None:
    room = Room(tmp_path)
    made, offers = attempts(room)
    other = Attempt(replace(room.job, **change), ASKED, room.keys[2], COMMITTED).offer()
    with pytest.raises(DataError, match="another job"):
        made[0].answer([*offers[:2], other], np.zeros(5, dtype=np.uint64))


def test_parties_whose_mechanisms_ask_for_different_things_send_nothing(tmp_path: Path) -> None:
    room = Room(tmp_path)

    def work(place: int, noise: SharedNoise) -> np.ndarray:
        first = add_noise_to_counts(np.arange(4), noise, 1.0)
        return add_noise_to_counts(np.arange(4), noise, 2.0 if place == 2 else 1.0) + first

    with pytest.raises(PrivotError, match=r"another question|another party failed"):
        room.run(work, [SystemNoise()] * 3)


def test_a_repeated_job_shows_the_same_total(tmp_path: Path) -> None:
    room = Room(tmp_path)

    def work(place: int, noise: SharedNoise) -> np.ndarray:
        return np.concatenate([add_noise_to_counts(np.arange(4) + place, noise, s) for s in (1.0, 3.0)])

    first = room.run(work, [None] * 3)
    again = room.run(work, [None] * 3)
    np.testing.assert_array_equal(first[0], again[0])
    # the noise of another set of parties, or another t, is another job's
    other = Room(tmp_path, collusion=2)
    with pytest.raises(PrivotError, match=r"in another job|another party failed"):
        other.run(work, [None] * 3)
    # nor is that of a party which lost its salt: the others, who would pay once, do not take part
    shutil.rmtree(tmp_path / "1")
    with pytest.raises(PrivotError, match=r"bring other noise|another party failed"):
        room.run(work, [None] * 3)


def test_noise_made_again_is_that_of_one_question_and_of_one_value(tmp_path: Path) -> None:
    room, held = Room(tmp_path), np.arange(6)

    def noise_of(sigma: float, moved: int) -> np.ndarray:
        """The noise of the sum in steps of σ, where a copy of the parties' folders forgot what was answered."""
        for path in tmp_path.glob("*/*.json"):
            path.unlink()
        counts = [held + moved * (place == 0) for place in range(3)]
        total = room.run(lambda place, noise: add_noise_to_counts(counts[place], noise, sigma), [None] * 3)[0]
        return (total - sum(counts)) / sigma

    first = noise_of(1.0, 0)
    np.testing.assert_array_equal(noise_of(1.0, 0), first)
    # on the same grid: what differs is the question alone, or one number
    assert counting_grid(1.5) == counting_grid(1.0)
    for other in (noise_of(1.5, 0), noise_of(1.0, 1)):
        assert np.abs(other - first).min() > 1e-4


def test_a_total_of_somebody_else_or_of_another_attempt_is_refused(tmp_path: Path) -> None:
    room = Room(tmp_path)
    made, offers = attempts(room)
    answers = [attempt.answer(offers, np.arange(5, dtype=np.uint64)) for attempt in made]
    total, message = add_up(room.job, ASKED, offers, answers, room.coordinator)
    assert total.tolist() == [0, 3, 6, 9, 12]
    np.testing.assert_array_equal(made[0].read_total(message, offers), total)
    with pytest.raises(DataError, match="not signed by this job's coordinator"):
        made[0].read_total(add_up(room.job, ASKED, offers, answers, room.keys[1])[1], offers)
    with pytest.raises(DataError, match="another attempt"):
        made[0].read_total(message, attempts(room)[1])


def test_messages_that_are_no_messages_are_refused_in_one_sentence(tmp_path: Path) -> None:
    room = Room(tmp_path)
    made, offers = attempts(room)
    key, facts = room.keys[2], {**ASKED.facts(room.job), "commitment": COMMITTED}
    for message in (
        b"",
        offers[2][:-3],
        seal(b"", key),
        seal(encode(OFFER, facts, {}, {"key": b"short"}), key),
        seal(encode(OFFER, {**facts, "more": 1}, {}, {"key": MaskKey().public}), key),
        seal(encode(OFFER, {**facts, "number": False}, {}, {"key": MaskKey().public}), key),
        seal(encode(ANSWER, facts, {}, {"words": b""}), key),
        seal(encode(OFFER, {**facts, "commitment": "short"}, {}, {"key": MaskKey().public}), key),
        seal(encode(OFFER, ASKED.facts(room.job), {}, {"key": MaskKey().public}), key),
    ):
        with pytest.raises(DataError):
            read_offers(room.job, ASKED, [*offers[:2], message])
    low_order = seal(encode(OFFER, facts, {}, {"key": bytes(32)}), key)
    with pytest.raises(DataError, match="is not a key"):
        made[0].answer([*offers[:2], low_order], np.zeros(5, dtype=np.uint64))


@pytest.mark.parametrize(("parties", "collusion"), [(2, 1), (3, 0), (3, 3), (MOST_PARTIES + 1, 1)])
def test_numbers_of_parties_without_a_theorem_are_refused(parties: int, collusion: int) -> None:
    with pytest.raises(UsageError):
        check_shares(parties, collusion)


def test_a_release_that_is_no_sum_of_whole_numbers_cannot_be_shared() -> None:
    noise = SharedNoise(SystemNoise(), 3, 1, lambda described, make: make(b""))
    for draw in (
        lambda: noise.normal(3, 1.0),
        lambda: noise.poisson_sample(10, 0.5),
        # on grids for which the law of the sum is not shown
        lambda: noise.total(np.zeros(3, dtype=np.int64), 1.0, 2.0**-19, add_steps),
        lambda: noise.total(np.zeros(3, dtype=np.int64), 1.0, 2.0**-41, add_steps),
    ):
        with pytest.raises(UsageError, match="meets more than sums"):
            draw()
