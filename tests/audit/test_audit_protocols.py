"""Attacks on published protocols: their messages reveal the records, and a sketch does not."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from privot.audit.attacks.reconstruction import (
    distance,
    from_counts,
    identically_distributional,
    invert_constant,
    invert_fedwad,
    invert_shared,
    learn_inverse,
    match_candidates,
    nearest_words,
)
from privot.audit.statistics.one_to_one import assignment
from privot.audit.statistics.recovery import draw_recoveries, judge, psnr
from privot.errors import DataError, UsageError
from privot.transport import exact, interpolate

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def digits() -> np.ndarray:
    return load_digits().data / 8.0 - 1.0


def sent(x: np.ndarray, gamma: np.ndarray, t: float) -> np.ndarray:
    """What a party sends, by the transport library."""
    return np.asarray(interpolate(x, gamma, t).value)


def test_assignment_and_distance_are_those_of_the_transport_library(digits: np.ndarray) -> None:
    x, y = digits[:60], digits[60:120]
    assert distance(x, y) == pytest.approx(float(exact(x, y).value), rel=1e-9)
    with pytest.raises(DataError, match="two arrays of one shape"):
        assignment(x, y[:5])


@pytest.mark.parametrize("t", [0.1, 0.5, 0.99])
def test_constant_and_shared_defences_give_every_record_back(digits: np.ndarray, t: float) -> None:
    x = digits[:150]
    constant = np.ones((1, 64))
    assert judge("constant", invert_constant(sent(x, constant, t), constant, t), x, 2.0).exact == 1.0
    gamma = np.random.default_rng(0).standard_normal(x.shape)
    found = judge("shared", invert_shared(sent(x, gamma, t), gamma, t), x, 2.0)
    assert found.exact == 1.0
    assert found.exact_interval[0] > 0.97
    # the published remark's "simple attack", without the plan, does not
    naive = (sent(x, gamma, t) - t * gamma) / (1.0 - t)
    assert judge("without the plan", naive, x, 2.0).exact < 0.1


def test_fedwad_at_equality_gives_every_record_back_by_both_attacks(digits: np.ndarray) -> None:
    mu, nu = digits[:80], digits[80:160]
    gamma = sent(mu, nu, 0.4)  # on the geodesic: equality holds
    far, near = distance(mu, gamma), distance(gamma, nu)
    assert far + near == pytest.approx(distance(mu, nu), rel=1e-9)
    assert judge("closed form", invert_fedwad(gamma, nu, far, near), mu, 2.0, ordered=False).exact == 1.0
    guessed = judge("eq. 5", identically_distributional(gamma, nu, far, near), mu, 2.0, ordered=False)
    assert guessed.psnr > 40.0
    assert guessed.psnr > judge("γ itself", gamma, mu, 2.0, ordered=False).psnr + 10.0


def test_private_defence_data_is_denoised_and_linked(digits: np.ndarray) -> None:
    x, public = digits[:200], digits[400:1400]
    gamma = np.random.default_rng(1).standard_normal(x.shape)
    eta = sent(x, gamma, 0.5)
    inverse = learn_inverse(public, 0.5, np.random.default_rng(2).standard_normal)
    prior = judge("prior", np.broadcast_to(public.mean(0), x.shape), x, 2.0)
    assert judge("denoised", inverse(eta), x, 2.0).psnr > prior.psnr + 3.0
    linked = match_candidates(eta, np.vstack([x, public])) == np.arange(len(x))
    assert linked.mean() > 0.9
    # independent noise of the same size links fewer: the plan helps the attacker
    blind = 0.5 * x + 0.5 * gamma
    assert (match_candidates(blind, np.vstack([x, public])) == np.arange(len(x))).mean() < linked.mean() - 0.1


def test_words_are_recovered(digits: np.ndarray) -> None:
    generator = np.random.default_rng(3)
    vectors = generator.standard_normal((5000, 50))
    words = generator.choice(5000, 120, replace=False)
    gamma = generator.standard_normal((120, 50))
    eta = sent(vectors[words], gamma, 0.5)
    assert (nearest_words(invert_shared(eta, gamma, 0.5), vectors) == words).all()


def test_a_sketch_gives_no_more_than_its_public_prototypes(digits: np.ndarray) -> None:
    x, prototypes = digits[:200], digits[1000:1030]
    cells = ((x[:, None] - prototypes[None]) ** 2).sum(-1).argmin(1)
    noisy = np.bincount(cells, minlength=30) + 5.0 * np.random.default_rng(4).standard_normal(30)
    guess = from_counts(noisy, prototypes, 200)
    assert guess.shape == x.shape
    found = judge("sketch", guess, x, 2.0, ordered=False)
    prior = judge("prior", from_counts(np.ones(30), prototypes, 200), x, 2.0, ordered=False)
    assert found.exact == prior.exact == 0.0
    assert found.psnr < prior.psnr + 2.0


def test_psnr_and_pictures() -> None:
    truth = np.zeros((1, 4))
    assert psnr(truth + 0.02, truth, 2.0)[0] == pytest.approx(40.0)
    assert psnr(truth, truth, 2.0)[0] == 400.0
    picture = draw_recoveries([("a", np.zeros((3, 4))), ("b", np.ones((12, 4)))], (2, 2), 0.0, 1.0)
    assert picture.startswith(b"\x89PNG")
    for t in (1.0, -0.1):
        with pytest.raises(UsageError, match="t must lie"):
            invert_constant(truth, truth, t)
    with pytest.raises(UsageError, match="must be greater than 0"):
        invert_fedwad(truth, truth, 1.0, 0.0)
