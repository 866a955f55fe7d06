"""`Synthesizer` and `DomainAdapter` keep scikit-learn's rules, as far as an estimator that is given a vault can.

scikit-learn's own checks run where they need no `fit(X, y)`: ours takes a vault, because records lie in nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import exceptions
from sklearn.base import clone
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

from privot.adaptation import DomainAdapter
from privot.adaptation.adaptation_methods.source_alone import Source
from privot.errors import BudgetError, UsageError
from privot.jobs.estimator import NotFittedError
from privot.synthesis import Embedding, Rules, Synthesizer
from privot.vault import Vault

ESTIMATORS = [Synthesizer, DomainAdapter]
CHECKS = [
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
]
X, Y = np.random.default_rng(0).uniform(size=(60, 2)), np.arange(60) % 2


def small(kind: type[Any], **changes: Any) -> Any:
    if kind is Synthesizer:
        network = {"kind": "mlp", "dim": 2, "classes": 2, "segments": [[0, 2, "interval"]], "latent": 4, "hidden": [8]}
        own: dict[str, Any] = {"method": Embedding(Rules(network, steps=5, batch=16, learning_rate=1e-3))}
    else:
        own = {"method": Source(batch=8, finish=5, augment=False)}
    return kind(**{"epsilon": 1.0, "device": "cpu", "seed": 1, **own, **changes})


def fitted(estimator: Any) -> Any:
    vault = Vault(X, Y, classes=2, clip=2.0, adjacency="replace-one", budget=(1.0, 1e-5))
    return estimator.fit(vault) if isinstance(estimator, Synthesizer) else estimator.fit(vault, (X, Y))


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_checks_of_scikit_learn_pass(kind: type[Any], check: str) -> None:
    getattr(estimator_checks, check)(kind.__name__, small(kind))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_fit_returns_the_estimator_keeps_its_parameters_and_adds_only_underscored_attributes(kind: type[Any]) -> None:
    estimator = small(kind)
    before = dict(estimator.get_params(deep=False))
    assert fitted(estimator) is estimator
    after = estimator.get_params(deep=False)
    assert after.keys() == before.keys()
    for name, value in before.items():
        assert after[name] is value, name
    added = set(vars(estimator)) - set(before)
    assert added
    assert all(name.endswith("_") and not name.startswith("_") for name in added), added
    check_is_fitted(estimator)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_clone_of_a_fitted_estimator_has_its_parameters_and_nothing_learned(kind: type[Any]) -> None:
    estimator = fitted(small(kind))
    again = clone(estimator)
    assert repr(again) == repr(estimator)
    assert set(vars(again)) == set(estimator.get_params(deep=False))
    assert not hasattr(again, "guarantee_")
    with pytest.raises(exceptions.NotFittedError):
        check_is_fitted(again)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_set_params_sets_one_parameter_and_refuses_an_unknown_one(kind: type[Any]) -> None:
    estimator = small(kind)
    assert estimator.set_params(epsilon=2.0) is estimator
    assert estimator.get_params()["epsilon"] == 2.0
    with pytest.raises(ValueError, match="Invalid parameter"):
        estimator.set_params(sigma=1.0)


@pytest.mark.parametrize(
    ("kind", "use"),
    [
        (Synthesizer, lambda e, folder: e.sample(3)),
        (Synthesizer, lambda e, folder: e.save(folder)),
        (Synthesizer, lambda e, folder: e.guarantee_),
        (Synthesizer, lambda e, folder: e.generator_),
        (DomainAdapter, lambda e, folder: e.predict(X)),
        (DomainAdapter, lambda e, folder: e.predict_proba(X)),
        (DomainAdapter, lambda e, folder: e.score(X, Y)),
        (DomainAdapter, lambda e, folder: e.save(folder)),
    ],
)
def test_an_estimator_that_is_not_fitted_says_so_in_scikit_learns_way(tmp_path: Path, kind: Any, use: Any) -> None:
    estimator, folder = small(kind), tmp_path / "out"
    with pytest.raises(exceptions.NotFittedError, match=f"{kind.__name__} .*call fit") as caught:
        use(estimator, folder)
    assert isinstance(caught.value, UsageError)
    assert caught.value.exit_code == 2
    assert not folder.exists()


def test_a_synthesizer_whose_budget_was_refused_is_not_fitted() -> None:
    estimator = small(Synthesizer, epsilon=9.0)
    with pytest.raises(BudgetError):
        fitted(estimator)
    assert not estimator.__sklearn_is_fitted__()
    with pytest.raises(NotFittedError):
        estimator.sample(3)


def test_a_synthesizer_that_was_only_paid_for_is_not_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The release stays, so that training can be tried again for nothing; there is no generator to sample from."""

    def fail(*args: Any, **more: Any) -> Any:
        raise RuntimeError("stopped after the release")

    estimator = small(Synthesizer)
    with monkeypatch.context() as patch:
        patch.setattr("privot.synthesis.methods.embedding_method.train", fail)
        with pytest.raises(RuntimeError, match="stopped after the release"):
            fitted(estimator)
    assert estimator.release_.guarantee.epsilon() <= 1.0
    with pytest.raises(exceptions.NotFittedError):
        check_is_fitted(estimator)
    with pytest.raises(NotFittedError):
        estimator.sample(3)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_an_estimator_read_from_a_folder_is_fitted(tmp_path: Path, kind: type[Any]) -> None:
    estimator = fitted(small(kind))
    estimator.save(tmp_path)
    check_is_fitted(kind.load(tmp_path))
