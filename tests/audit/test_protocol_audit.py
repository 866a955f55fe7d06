"""`privot audit protocol`: records and words come back from messages of FedWad and TriangleWad; open data only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from privot.audit.protocol_attacks import record_recovery as attacks
from privot.audit.protocol_attacks.exchanges import play_fedwad, play_triangle
from privot.audit.protocol_attacks.normality import BINS, draw_histograms, normality
from privot.audit.protocol_attacks.sketch_recovery import recover_from_sketches
from privot.audit.protocol_attacks.word_recovery import CLOSED, ETA, GAMMA, INVERTED, matching_rate, word_rates
from privot.cli import run
from privot.errors import DataError, UsageError
from privot.federation.protocols.word_vectors import WordVectors
from privot.transport import exact

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def digits() -> np.ndarray:
    return np.asarray(load_digits().data / 8.0 - 1.0)


def test_every_attack_on_an_exchange_does_what_it_is_said_to_do(digits: np.ndarray) -> None:
    x, y, public, others = digits[:60], digits[60:120], digits[400:900], digits[900:1200]
    found = attacks.recover_records(x, y, public, others, rounds=8)
    for name in (attacks.CONSTANT, attacks.SHARED, attacks.ASKED):
        assert found.of(name).exact == 1.0
    for name in (attacks.CLOSED, attacks.OPTIMISED):
        assert found.of(name).clear > 0.9
    # the published "simple attack" needs the plan, and the priors know no record
    for name in (attacks.NAIVE, attacks.PRIOR_MEAN, attacks.PRIOR_MATCH):
        assert found.of(name).clear < 0.2
    assert found.of(attacks.DENOISED).psnr > found.of(attacks.PRIOR_MEAN).psnr + 3.0
    assert found.candidates == 360
    assert found.linked > 0.8
    assert found.true_distance == pytest.approx(float(exact(x, y).value), rel=1e-9)
    assert found.true_distance <= found.fedwad_distance < 1.2 * found.true_distance
    broken = [check.name for check in found.findings() if not check.passed]
    assert {attacks.CONSTANT, attacks.SHARED, attacks.CLOSED, attacks.LINKED} <= set(broken)
    assert attacks.NAIVE not in broken
    assert len(found.findings()) == 10


def test_messages_are_those_of_the_first_side_and_in_the_order_of_its_records(digits: np.ndarray) -> None:
    x, y = digits[:30], digits[30:60]
    gamma = np.random.default_rng(0).standard_normal(x.shape)
    shared = play_triangle(x, y, gamma, t=0.3)
    ((question, sent),) = shared.of_first
    plan = np.asarray(exact(x, gamma).plan).argmax(1)
    np.testing.assert_allclose(sent.points, 0.7 * x + 0.3 * gamma[plan], atol=1e-9)
    assert question.t == 0.3
    secret = play_triangle(x, y, secret=True)
    assert not np.allclose(secret.of_first[0][0].towards, secret.of_second[0][0].towards)
    federated = play_fedwad(x, y, 3)
    assert len(federated.of_first) == len(federated.of_second) == 4
    with pytest.raises(UsageError, match="one shape"):
        play_fedwad(x, y[:10])


def test_a_normality_check_tells_a_gaussian_from_others() -> None:
    dice = np.random.default_rng(1)
    gaussian, uniform = (normality("z", z) for z in (dice.normal(3.0, 7.0, (200, 50)), dice.uniform(size=(200, 50))))
    assert gaussian.distance < 0.02
    assert gaussian.p_value > 0.01
    # Kolmogorov's distance of a uniform law from the normal one of its mean and deviation is 0.0572
    assert uniform.distance == pytest.approx(0.0572, abs=0.01)
    assert uniform.p_value < 1e-6
    assert uniform.excess_kurtosis == pytest.approx(-1.2, abs=0.05)
    assert sum(gaussian.histogram) == pytest.approx(10_000, rel=0.001)
    assert normality("all the same", np.ones((5, 5))).histogram == (0,) * BINS
    assert draw_histograms([gaussian, uniform]).startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def vocabulary() -> WordVectors:
    dice = np.random.default_rng(70)
    letters = "bcdfghjklm"
    words = [a + b + c for a in letters for b in letters for c in letters[:5]]
    return WordVectors(words, dice.standard_normal((len(words), 8)))


def test_words_come_back_from_messages_that_hide_nothing(vocabulary: WordVectors) -> None:
    one, two = vocabulary.words[:30], vocabulary.words[100:130]
    rates = word_rates(one, two, vocabulary, rounds=15)
    # interpolants towards a γ that is known are inverted to the last digit (McCann)
    assert rates[INVERTED] == 1.0
    assert rates[CLOSED] > 0.9
    assert rates[GAMMA] < rates[CLOSED]
    # a wide γ hides the words from a reader, and from nobody else
    wide = word_rates(one, two, vocabulary, rounds=15, deviation=20.0)
    assert wide[ETA] < 0.3 < rates[ETA]
    assert wide[INVERTED] == 1.0
    # of two identical texts γ itself tends to the records
    assert word_rates(one, one, vocabulary, rounds=15)[GAMMA] > 0.95
    assert matching_rate([], one) == 0.0
    with pytest.raises(DataError, match="at least two words"):
        word_rates(one[:1], two, vocabulary)


def test_a_sketch_adds_no_record_and_the_control_gives_all_back(digits: np.ndarray) -> None:
    order = np.random.default_rng(3).permutation(len(digits))
    x, y, public, own = (digits[order[i * 60 : (i + 1) * 60 if i < 2 else i * 60 + 400]] for i in range(4))
    found = recover_from_sketches(x, y, public, own, epsilon=1.0, delta=1e-5, halvings=3)
    control, *attacked = found.gains
    assert control.exact.inside == 1.0
    assert [gain.name for gain in attacked] == ["counts and features", "equation 5"]
    assert all(gain.exact.inside == 0.0 for gain in attacked)
    assert all(check.passed for check in found.findings())
    assert 0.35 < found.area.value < 0.65
    told = found.to_dict()
    assert (told["standing"], told["adjacency"], told["epsilon"]) == ("proven", "replace-one", 1.0)
    json.dumps(told)


def answer(capsys: Any, *words: str, code: int = 7) -> Any:
    assert run(["audit", "protocol", *words]) == code
    return capsys.readouterr()


def test_the_command_says_that_nothing_is_protected_and_draws(capsys: Any, tmp_path: Path) -> None:
    few = ["--records", "30", "--rounds", "3", "--open"]
    said = answer(capsys, "digits", "digits", *few, "--shape", "8,8", "--out", str(tmp_path / "drawn"), "--json")
    found = json.loads(said.out)
    assert "nothing is protected" in found["privacy"]
    assert "epsilon" not in json.dumps(found)
    assert [Path(path).name for path in found["pictures"]] == ["histograms.png", "records.png"]
    assert all(Path(path).read_bytes().startswith(b"\x89PNG") for path in found["pictures"])
    assert attacks.SHARED in found["refuted"]
    assert found["records"] == 30
    plain = answer(capsys, "digits", "digits", *few)
    assert "nothing is protected" in plain.out
    assert "GIVEN AWAY" in plain.out
    assert plain.err.splitlines()[-1].startswith("privot: ")


def test_two_files_and_two_texts_are_audited(capsys: Any, tmp_path: Path, vocabulary: WordVectors) -> None:
    dice = np.random.default_rng(5)
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", dice.uniform(0.0, 255.0, (50, 6)))
        (tmp_path / f"{name}.txt").write_text(" ".join(dice.choice(vocabulary.words, 20, replace=False)))
    sides = [str(tmp_path / "a.npy"), str(tmp_path / "b.npy")]
    assert json.loads(answer(capsys, *sides, "--open", "--rounds", "2", "--json").out)["records"] == 25
    np.savez(tmp_path / "v.npz", words=np.array(vocabulary.words), vectors=vocabulary.vectors)
    texts = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), "--words", str(tmp_path / "v.npz")]
    found = json.loads(answer(capsys, *texts, "--open", "--json").out)
    assert found["matching_rates"][INVERTED] == 1.0
    assert found["words"] == 20


def test_records_are_read_of_open_data_only_and_wrong_options_are_refused(capsys: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.ones((40, 3)))
    same = str(tmp_path / "one.npy")
    for words, code, why in (
        (["digits", "digits"], 2, "add --open"),
        (["digits", "--open"], 2, "two data sets"),
        (["--open"], 2, "two data sets"),
        (["digits", "digits", "--open", "--records", "3"], 2, "at least 10"),
        (["digits", "digits", "--open", "--range", "1,1"], 2, "LOW below HIGH"),
        ([same, same, "--open"], 3, "nothing to recover"),
        ([same, "digits", "--open"], 3, "3 columns"),
        (["digits", "digits", "--open", "--epsilon", "0"], 2, "ε"),
        (["a.txt", "b.txt", "--open", "--words", "v.npz", "--epsilon", "1"], 2, "cannot be combined with --words"),
    ):
        assert why in answer(capsys, *words, code=code).err, words
    for words, why in (
        (["embedding", "--epsilon", "1", "--adjacency", "add-remove", "--open"], "--open works with"),
        (["embedding", "digits"], "A second argument"),
    ):
        assert run(["audit", *words]) == 2
        assert why in capsys.readouterr().err
