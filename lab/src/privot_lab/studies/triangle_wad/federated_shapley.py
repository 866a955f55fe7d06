"""Shapley values from the updates of one federated training: MR, OR and GTG, which retrain nothing.

A softmax regression is trained by federated averaging of all parties. Models of coalitions are then put together from
the updates that parties sent: per round (MR: Song, Tong & Wei 2019, "Profit allocation for federated learning"), once
over all rounds (OR, the same), or per round along sampled orders that are cut short (GTG: Liu, Chen, Yu, Liu & Cui
2022, "GTG-Shapley"). GTG-Ti and GTG-Tib are GTG without guided orders: GTG-Ti leaves orders early, GTG-Tib rounds too.
None of them protects a record: an update is a function of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privot.valuation.shapley import CoalitionPlan

Array = NDArray[np.float64]
Pair = tuple[Array, NDArray[np.int64]]
LEARNING_RATE, LOCAL_STEPS = 0.1, 5
ORDERS_PER_LEADER, WITHIN, BETWEEN = 2, 0.005, 0.001
"""GTG: orders that each party leads, and the gains in accuracy below which an order or a round is cut short."""


@dataclass(frozen=True)
class FederatedTraining:
    """The global model before every round, and the update of every party in it, (rounds, parties, columns, classes)."""

    models: Array
    updates: Array

    def of_round(self, number: int, coalition: int) -> Array:
        """The model after a round to which only the parties of `coalition` had contributed."""
        return np.asarray(self.models[number] + self._mean(self.updates[number], coalition))

    def of_all_rounds(self, coalition: int) -> Array:
        """The first model and the sum over rounds of the mean update of `coalition`."""
        return np.asarray(self.models[0] + self._mean(self.updates.sum(0), coalition))

    @staticmethod
    def _mean(updates: Array, coalition: int) -> Array:
        inside = [k for k in range(len(updates)) if coalition >> k & 1]
        return updates[inside].mean(0) if inside else np.zeros_like(updates[0])


def train_federated(parties: Sequence[Pair], classes: int, rounds: int) -> FederatedTraining:
    """Federated averaging with all parties in every round and full gradients at home."""
    held = [(np.c_[x, np.ones(len(x))], np.eye(classes)[y]) for x, y in parties]
    model = np.zeros((held[0][0].shape[1], classes))
    models, updates = [], []
    for _ in range(rounds):
        models.append(model)
        sent = []
        for x, target in held:
            own = model.copy()
            for _ in range(LOCAL_STEPS):
                scores = x @ own
                weights = np.exp(scores - scores.max(1, keepdims=True))
                weights /= weights.sum(1, keepdims=True)
                own -= LEARNING_RATE * x.T @ (weights - target) / len(x)
            sent.append(own - model)
        updates.append(np.stack(sent))
        model = model + updates[-1].mean(0)
    return FederatedTraining(np.stack(models), np.stack(updates))


def accuracy_of(held: Pair) -> Callable[[Array], float]:
    """The accuracy of a model on `held`."""
    x = np.c_[held[0], np.ones(len(held[0]))]
    return lambda model: float(((x @ model).argmax(1) == held[1]).mean())


def multi_round(training: FederatedTraining, accuracy: Callable[[Array], float]) -> Array:
    """MR: the sum over rounds of the Shapley values of the round, of all coalitions."""
    rounds, parties = training.updates.shape[:2]
    plan = CoalitionPlan.of(parties)
    total = np.zeros(parties)
    for number in range(rounds):
        total += plan.values(plan.worths(_cached(lambda s, r=number: accuracy(training.of_round(r, s)))))  # type: ignore[misc]
    return total


def one_round(training: FederatedTraining, accuracy: Callable[[Array], float]) -> Array:
    """OR: Shapley values of models put together once, after the last round."""
    plan = CoalitionPlan.of(training.updates.shape[1])
    return plan.values(plan.worths(_cached(lambda s: accuracy(training.of_all_rounds(s)))))


def truncated_rounds(
    training: FederatedTraining,
    accuracy: Callable[[Array], float],
    seed: int,
    *,
    guided: bool = True,
    orders: int = ORDERS_PER_LEADER,
    within: float = WITHIN,
    between: float = BETWEEN,
) -> Array:
    """GTG: per round the mean over sampled orders, `orders` per party; `guided` orders are led equally often by each.

    An order is left once the rest of it is worth less than `within`; a round is left out if it gains less than
    `between`. GTG-Tib is not guided, GTG-Ti neither guided nor leaves out rounds (`between` 0).
    """
    rounds, parties = training.updates.shape[:2]
    random, total = np.random.default_rng(seed), np.zeros(parties)
    everybody = (1 << parties) - 1
    for number in range(rounds):
        worth = _cached(lambda s, r=number: accuracy(training.of_round(r, s)))  # type: ignore[misc]
        if abs(worth(everybody) - worth(0)) < between:
            continue
        for leader in np.repeat(np.arange(parties), orders):
            order = random.permutation(parties)
            coalition, before = 0, worth(0)
            for party in (leader, *order[order != leader]) if guided else order:
                if abs(worth(everybody) - before) < within:
                    break
                coalition |= 1 << int(party)
                after = worth(coalition)
                total[party] += (after - before) / (parties * orders)
                before = after
    return total


def _cached(worth: Callable[[int], float]) -> Callable[[int], float]:
    """`worth` that evaluates a coalition once."""
    known: dict[int, float] = {}

    def looked_up(coalition: int) -> float:
        if coalition not in known:
            known[coalition] = worth(coalition)
        return known[coalition]

    return looked_up
