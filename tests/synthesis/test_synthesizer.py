"""A synthesizer learns from one release, keeps its guarantee, and comes back from its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from synthesis_samples import rules, toy

from privot.errors import BudgetError, ConvergenceError, DataError, UsageError
from privot.kinds import Vectors
from privot.release import Release
from privot.synthesis import Rules, Synthesizer, train
from privot.synthesis.design import shares
from privot.synthesis.method_configs import Sliced
from privot.synthesis.methods.embedding_training import Target, present
from privot.synthesis.neural.defaults.feature_defaults import choose_features, frequencies
from privot.synthesis.neural.defaults.generator_defaults import choose_rules
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.vault import Vault


@pytest.mark.slow
def test_classes_are_learned_and_the_guarantee_is_the_budget(vault: Vault, small: Any) -> None:
    synthesizer = small(rules=rules(400)).fit(vault)
    assert synthesizer.guarantee_.epsilon() <= 5.0
    assert synthesizer.guarantee_.epsilon() > 4.99
    assert synthesizer.guarantee_.at_delta == 1e-5
    x, y = synthesizer.sample(1000, seed=2)
    assert x.shape == (1000, 2)
    for c, centre in ((0, 0.25), (1, 0.75)):
        np.testing.assert_allclose(x[y == c].mean(0), centre, atol=0.05)
        assert (x[y == c].std(0) < 0.15).all()
    # the loss fell
    assert np.mean(synthesizer.losses_[-20:]) < 0.2 * np.mean(synthesizer.losses_[:5])


def test_one_fit_is_one_charge(vault: Vault, small: Any) -> None:
    small(epsilon=9.0).fit(vault)
    with pytest.raises(BudgetError):
        small(epsilon=9.0).fit(vault)


def test_samples_repeat_with_a_seed_and_follow_labels(vault: Vault, small: Any) -> None:
    synthesizer = small().fit(vault)
    a, b = (synthesizer.sample(50, seed=3) for _ in range(2))
    np.testing.assert_array_equal(a[0], b[0])
    np.testing.assert_array_equal(a[1], b[1])
    assert np.abs(synthesizer.sample(50, seed=4)[0] - a[0]).max() > 0
    wanted = np.array([1, 1, 0])
    np.testing.assert_array_equal(synthesizer.sample(3, labels=wanted)[1], wanted)
    for labels in ([0, 1], [0, 1, 2], [0, 1, -1]):
        with pytest.raises(UsageError):
            synthesizer.sample(3, labels=labels)


def test_a_folder_is_all_that_sampling_needs(vault: Vault, small: Any, tmp_path: Path) -> None:
    synthesizer = small().fit(vault)
    synthesizer.save(tmp_path / "out")
    again = Synthesizer.load(tmp_path / "out")
    for ours, theirs in zip(synthesizer.sample(40, seed=5), again.sample(40, seed=5), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert again.guarantee_.epsilon() == pytest.approx(synthesizer.guarantee_.epsilon())


@pytest.mark.parametrize("name", ["config.json", "generator.safetensors", "guarantee.json"])
def test_a_damaged_folder_is_refused(vault: Vault, small: Any, tmp_path: Path, name: str) -> None:
    small().fit(vault).save(tmp_path)
    held = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(held[: len(held) // 2])
    with pytest.raises(DataError):
        Synthesizer.load(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(DataError):
        Synthesizer.load(tmp_path)


def test_one_flipped_bit_in_the_weights_is_noticed(vault: Vault, small: Any, tmp_path: Path) -> None:
    small().fit(vault).save(tmp_path)
    path = tmp_path / "generator.safetensors"
    held = bytearray(path.read_bytes())
    held[-3] ^= 1
    path.write_bytes(held)
    with pytest.raises(DataError, match="damaged"):
        Synthesizer.load(tmp_path)


def test_a_guarantee_that_says_less_than_it_cost_is_refused(vault: Vault, small: Any, tmp_path: Path) -> None:
    small().fit(vault).save(tmp_path)
    fields = json.loads((tmp_path / "guarantee.json").read_text())
    fields["epsilon"] = 0.1
    fields["curve"] = [{"delta": p["delta"], "epsilon": 0.1} for p in fields["curve"]]
    (tmp_path / "guarantee.json").write_text(json.dumps(fields))
    with pytest.raises(DataError):
        Synthesizer.load(tmp_path)


def test_without_labels_there_is_one_class(small: Any) -> None:
    x, _ = toy()
    vault = Vault(x, clip=1.0, adjacency="replace-one", budget=(10.0, 1e-5))
    made, y = small(rules=rules(30, classes=1)).fit(vault).sample(10, seed=1)
    assert made.shape == (10, 2)
    assert y is None


def test_a_missing_class_is_not_sampled(small: Any) -> None:
    x, _ = toy(2000)
    vault = Vault(x, np.arange(2000) % 2, classes=3, clip=1.0, adjacency="add-remove", budget=(10.0, 1e-5))
    synthesizer = small(rules=rules(60, classes=3)).fit(vault)
    _, y = synthesizer.sample(1000, seed=1)
    assert set(np.unique(y)) <= {0, 1, 2}
    assert np.bincount(y, minlength=3)[2] <= 20


@pytest.mark.slow
def test_a_constant_column_stays_constant(small: Any) -> None:
    x, y = toy(1000)
    x[:, 1] = 0.5
    vault = Vault(x, y, classes=2, clip=1.0, adjacency="add-remove", budget=(10.0, 1e-5))
    made, _ = small(rules=rules(300)).fit(vault).sample(500, seed=1)
    assert abs(made[:, 1].mean() - 0.5) < 0.05
    assert made[:, 1].std() < 0.1


def test_values_outside_the_stated_range_cannot_push_samples_out(small: Any) -> None:
    x, y = toy()
    vault = Vault(1e6 * (x - 0.5), y, classes=2, clip=1.0, adjacency="add-remove", budget=(10.0, 1e-5))
    made, _ = small(low=-3.0, high=5.0).fit(vault).sample(100, seed=1)
    assert made.min() >= -3.0
    assert made.max() <= 5.0


@pytest.mark.gate(3)
@pytest.mark.parametrize(
    "changes",
    [
        {"method": "magic"},
        {"device": "abacus"},
        {"low": 1.0, "high": 0.0},
        {"shape": (3, 3)},
        {"shape": (2,)},
        {"epsilon": 0.0},
        {"delta": 1.0},
        {"seed": -1},
        {"records": 0},
    ],
)
def test_impossible_settings_cost_nothing(vault: Vault, small: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        small(**changes).fit(vault)
    small(epsilon=9.9).fit(vault)


@pytest.mark.gate(each="change")
@pytest.mark.parametrize(
    "change",
    [
        {"kind": "nothing"},
        {"classes": 3},
        {"dim": 4, "segments": [[0, 4, "interval"]]},
        {"segments": [[0, 1, "interval"]]},
        {"hidden": [0]},
        {"latent": -3},
    ],
)
@pytest.mark.parametrize("folder", [None, "out"])
def test_a_generator_that_cannot_be_trained_costs_nothing(
    vault: Vault, small: Any, tmp_path: Path, change: dict[str, Any], folder: str | None
) -> None:
    good = rules()
    bad = Rules({**good.generator, **change}, good.steps, good.batch, good.learning_rate)
    with pytest.raises((UsageError, DataError)):
        small(rules=bad).fit(vault, folder=folder and tmp_path / folder)
    small(epsilon=9.9).fit(vault)


@pytest.mark.gate(2)
@pytest.mark.parametrize(("steps", "batch", "rate"), [(0, 16, 1e-2), (60, 0, 1e-2), (60, 16, 0.0), (60, 16, np.nan)])
def test_a_training_that_cannot_be_costs_nothing(vault: Vault, small: Any, steps: int, batch: int, rate: float) -> None:
    with pytest.raises(UsageError, match="training needs"):
        small(rules=Rules(rules().generator, steps, batch, rate)).fit(vault)
    small(epsilon=9.9).fit(vault)


def test_the_release_is_kept_where_training_fails(vault: Vault, small: Any, monkeypatch: Any) -> None:
    synthesizer = small(epsilon=4.0).fit(vault)
    first = synthesizer.release_

    def lost(*arguments: Any, **named: Any) -> Any:
        raise ConvergenceError("The loss became non-finite.")

    with monkeypatch.context() as patch:
        patch.setattr("privot.synthesis.methods.embedding_method.train", lost)
        with pytest.raises(ConvergenceError):
            synthesizer.fit(vault)
    assert synthesizer.release_ is not first
    assert train(synthesizer.release_, rules()).step == 60
    # the generator of the first release may not pass for one of the second
    with pytest.raises(UsageError, match="fit"):
        synthesizer.sample(3)


def test_a_release_of_another_kind_is_refused(vault: Vault, small: Any) -> None:
    release = small().fit(vault).release_
    for value in (np.zeros(3), {"sums": np.zeros((2, 3)), "counts": np.zeros(2)}):
        with pytest.raises(DataError):
            Target.of(Release(value, release.guarantee, release.public))
    with pytest.raises(DataError):
        Target.of(Release(release.value, release.guarantee, {}))


def test_means_are_sums_over_counts_and_empty_classes_weigh_nothing(vault: Vault, small: Any) -> None:
    release = small().fit(vault).release_
    sums = np.array(release.value["sums"])
    target = Target.of(Release({"sums": sums, "counts": np.array([100.0, -50.0])}, release.guarantee, release.public))
    np.testing.assert_allclose(target.means[0], sums[0] / 100.0)
    assert np.isfinite(target.means).all()
    assert target.weights[1] < 0.1 * target.weights[0]
    assert target.counts.tolist() == [100.0, 0.0]


def test_counts_below_three_deviations_are_zero() -> None:
    np.testing.assert_array_equal(present(np.array([10.0, 2.9, -4.0, 3.1]), 1.0), [10.0, 0.0, 0.0, 3.1])
    np.testing.assert_array_equal(present(np.array([1.0, -4.0]), 1.0), [1.0, 1.0])


def test_shares_are_proportional_and_add_up() -> None:
    for n in (1, 7, 100):
        y = shares(np.array([1.0, 2.0, 0.0, 4.0]), n)
        assert len(y) == n
        held = np.bincount(y, minlength=4)
        assert held[2] == 0
        assert np.abs(held - n * np.array([1, 2, 0, 4]) / 7).max() < 1.0


def test_rules_follow_the_noise() -> None:
    counts = [frequencies(Problem(784, 10, sigma, 60_000, device="cuda")) for sigma in (0.5, 17.0, 500.0)]
    assert counts[0] == 20_000
    assert 3_000 < counts[1] < 7_000
    assert counts[2] == 500


def test_where_noise_is_the_limit_less_is_asked_and_more_is_known_beforehand() -> None:
    clear, noisy = (Problem(784, 10, sigma, 60_000, (28, 28), "cuda") for sigma in (0.5, 17.0))
    between = Problem(784, 10, 4.0, 60_000, (28, 28), "cuda")
    thens = [[m.get("then") for m in choose_features(p, 1, 0.0, 1.0).to_dict()["maps"]] for p in (clear, between)]
    assert thens == 2 * [[None, None, [128, 3, 2, 2], [256, 3, 8, 2]]]
    features = choose_features(noisy, 1, 0.0, 1.0).to_dict()
    assert features["kind"] == "fourier"
    assert min(features["bandwidths"]) > 0.14 * 28
    assert "warp" not in choose_rules(clear).generator
    assert 0.06 < choose_rules(noisy).generator["warp"] < 0.08
    # pictures alone are warped
    assert "warp" not in choose_rules(Problem(784, 10, 17.0, 60_000, None, "cuda")).generator
    assert "warp" not in choose_rules(Problem(64, 10, 17.0, 60_000, (8, 8), "cpu")).generator
    # on a processor, too
    slow = choose_rules(Problem(784, 10, 17.0, 60_000, (28, 28), "cpu"))
    assert (slow.generator["kind"], slow.generator["warp"]) == ("mapped", choose_rules(noisy).generator["warp"])
    assert slow.batch * 10 == 160
    longest = [choose_rules(Problem(784, 10, 1.0, 60_000, shape, "cpu")).steps for shape in ((28, 28), None)]
    assert longest == [3_000, 2_000]
    paced = [choose_rules(Problem(784, 10, 3.75, 10_000, shape, "cpu")).steps for shape in ((28, 28), None)]
    assert paced[0] == pytest.approx(3 * paced[1], abs=3)


def test_a_generator_is_sampled_from_at_its_full_warp(vault: Vault, small: Any) -> None:
    """Even after a training too short for it to grow."""
    segments = [[0, 2, "interval"]]
    config = {"kind": "mapped", "shape": [1, 2], "dim": 2, "classes": 2, "segments": segments, "latent": 8}
    plan = Rules({**config, "hidden": 4, "doublings": 1, "channels": 4, "warp": 0.5}, 1, 16, 1e-3)
    made = small(rules=plan).fit(vault)
    np.testing.assert_allclose(made.generator_.spread.numpy(), [0.5, 0.5, 0.3])


@pytest.mark.parametrize("shape", [None, (8, 8), (20, 20), (30, 26), (20, 20, 3), (3, 20, 20)])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_generator_the_rules_choose_fills_a_record(shape: Any, device: str) -> None:
    import torch

    from privot.synthesis.neural.generators.generator import build

    dim = 5 if shape is None else int(np.prod(shape))
    chosen = choose_rules(Problem(dim, 3, 1.0, None, shape, device))
    assert Rules.from_dict(json.loads(json.dumps(chosen.to_dict()))) == chosen
    made = build(chosen.generator)(torch.randn(4, chosen.generator["latent"]), torch.tensor([0, 1, 2, 0]))
    assert made.shape == (4, dim)
    assert float(made.detach().min()) >= 0.0
    assert float(made.detach().max()) <= 1.0


def test_features_chosen_by_rule_need_no_data() -> None:
    problem = Problem(4, 2, 1.0, 1000)
    assert choose_features(problem, 3, 0.0, 1.0).to_dict() == choose_features(problem, 3, 0.0, 1.0).to_dict()


def test_categories_come_out_as_shares() -> None:
    import torch

    from privot.synthesis.neural.generators.generator import apply_head, checked_segments

    segments = checked_segments([[0, 1, "interval"], [1, 4, "categorical"]], 4)
    out = apply_head(torch.randn(5, 4), segments)
    np.testing.assert_allclose(out[:, 1:].sum(1).numpy(), 1.0, rtol=1e-6)
    for bad in ([[0, 3, "interval"]], [[0, 2, "interval"], [3, 4, "interval"]], [[0, 4, "other"]], []):
        with pytest.raises(UsageError):
            checked_segments(bad, 4)


def test_bare_records_are_not_learned_from() -> None:
    with pytest.raises(UsageError, match="Expected a Vault, got ndarray"):
        Synthesizer(1.0, 1e-5).fit(np.ones((9, 3)))  # type: ignore[arg-type]


def test_estimators_say_what_they_cost_even_by_default() -> None:
    from privot.adaptation import DomainAdapter

    assert repr(Synthesizer()) == "Synthesizer(epsilon=1.0, delta=1e-05)"
    assert repr(DomainAdapter(seed=3)) == "DomainAdapter(epsilon=1.0, delta=1e-05, seed=3)"
    asked = Synthesizer(2.0, kind=Vectors(low=np.zeros(500), high=[1.0] * 500), method=Sliced(options={"steps": 3}))
    assert repr(asked).startswith("Synthesizer(epsilon=2.0, delta=1e-05, method=Sliced(")
    assert len(repr(asked)) < 400
    for estimator in (asked, DomainAdapter(0.5, kind=Vectors(low=-1.0))):
        again = clone(estimator)
        assert repr(again) == repr(estimator)
        assert str(again.get_params()) == str(estimator.get_params())
