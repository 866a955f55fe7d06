"""One adaptation of a pair of domains, by any method, with or without privacy; scores are on held-out test records."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from privot_lab.studies.product.stand_in_pairs import OFFICE, Pair, pair_of
from privot_lab.studies.study_run import StudyRun

PRIVATE = ("stand-in", "embedding", "sliced", "dp-dann", "published")
OPENLY = ("swd", "dann")
"""Methods that see the target without privacy; besides them "source" sees none of it, "real" adapts to the real target
in place of the stand-in, and "labels" trains on the target's own labels."""
DELTAS = {True: 1e-3, False: 1e-5}
"""δ, for features and for images: domains of Office-Caltech have 157 to 1,123 records."""


def adapted(
    run: StudyRun, pair: str, method: str, epsilon: float | None, seed: int, change: dict[str, Any]
) -> dict[str, Any]:
    """Accuracy in per cent on the target's test records, and what was charged; `change` replaces settings."""
    from privot.adaptation import DomainAdapter
    from privot.adaptation.adaptation_methods import choose
    from privot.adaptation.open_adaptation import adapt_openly
    from privot.kinds import Images, Vectors
    from privot.vault import Vault

    # only MNIST as the target of fonts, and halves of features, depend on the seed
    data = _pair(
        run.study.name, str(run.data_folder), pair, seed if pair == "fonts-mnist" or pair in OFFICE else 0, run
    )
    image, delta = data.shape is not None, DELTAS[pair in OFFICE]
    base = {"labels": "source", "real": "stand-in"}.get(method, "source" if method in OPENLY else method)
    small = data.shape is not None and min(data.shape) < 14
    # the same network everywhere but for the older methods, which keep theirs where images are large enough for it
    network = "images" if image and (base == "source" or small) else None
    settings: Any = choose(base, image, len(data.target), network, run.device == "cuda")
    settings = replace(settings, **{name: value for name, value in change.items() if hasattr(settings, name)})
    public = (data.target, data.target_labels) if method == "labels" else (data.source, data.source_labels)
    how: dict[str, Any] = {"network": network, "device": run.device, "seed": seed}
    if method in OPENLY:
        made: Any = adapt_openly(public, data.target, method, settings=settings, shape=data.shape, **how)
        return {"accuracy": 100.0 * float(made.score(data.test, data.test_labels)), "charged": None, "standing": None}
    # the real target is looked at with next to no noise: a baseline without privacy
    budget = (1000.0 if method == "real" else epsilon or 1.0, delta)
    vault = Vault(data.target.astype(np.float64), clip=1.0, adjacency="replace-one", budget=budget)
    kind = Vectors() if data.shape is None else Images(data.shape)
    made = DomainAdapter(*budget, method=settings, kind=kind, allow_unproven=method == "published", **how)
    if method == "real":
        made = _on_real_records(made, vault, public, data.target, run.device)
    else:
        made.fit(vault, public)
    private = method in PRIVATE and made.guarantee_ is not None
    return {
        "accuracy": 100.0 * float(made.score(data.test, data.test_labels)),
        "charged": float(made.guarantee_.epsilon()) if private else None,
        "standing": str(made.guarantee_.standing) if private else None,
        "checks": None if made.checks_ is None else made.checks_.to_dict(),
    }


_HELD: dict[tuple[str, str, str, int], Pair] = {}


def _pair(study: str, folder: str, name: str, seed: int, run: StudyRun) -> Pair:
    """The arrays of a pair, of which the last few are kept."""
    key = study, folder, name, seed
    if key not in _HELD:
        if len(_HELD) > 2:
            _HELD.clear()
        _HELD[key] = pair_of(run, name, seed)
    return _HELD[key]


@cache
def _real_learner() -> Any:
    """A learner of the stand-in whose generator hands out the real records."""
    from privot.adaptation.stand_in.stand_in_learner import StandInLearner

    class Records:
        losses: tuple[float, ...] = ()

        def __init__(self, rows: Any) -> None:
            self.rows = rows

        def sample(self, n: int, seed: int | None = None) -> tuple[Any, None]:
            return self.rows, None

    class Real(StandInLearner):
        rows: Any = None

        def _train_generator(self, release: Any, progress: Any) -> None:
            self.generator: Any = Records(self.rows)

        def rehearse(self, mechanism: Any) -> None:
            pass

    return Real


def _on_real_records(made: Any, vault: Any, public: Any, rows: Any, device: str) -> Any:
    """The same adaptation with the real records in place of the stand-in."""
    from privot.adaptation.paid_training import PaidTraining
    from privot.jobs.home import Memory
    from privot.jobs.run import Run

    learner = _real_learner()(made.design(vault.facts, public), *public, device)
    learner.rows = rows
    return made._finished(PaidTraining(learner, Run(Memory(), lambda: vault, vault.charges)), None)
