"""The peers' inference by plans: the marginals of the whole joint table, one descent in NumPy and C, and dpmm's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot_lab.bench.tables import table_peer, table_peer_inference, table_peer_kernel, table_peer_plan
from privot_lab.bench.tables.table_peer_plan import Names, Plan, ranks

PEERS = os.environ.get("PRIVOT_PEERS")
"""An interpreter with dpmm, where there is one."""
SIZES = {"a": 3, "b": 2, "c": 5, "d": 4, "e": 2}
CLIQUES: list[Names] = [("a", "b", "c"), ("b", "c", "d"), ("b", "e")]
PARENTS = [-1, 0, 1]
DESCENTS = [
    table_peer_plan.descend,
    pytest.param(
        table_peer_kernel.descend,
        marks=pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler"),
    ),
]


def made(depth: float, spread: float = 0.3) -> Plan:
    """Three cliques with random potentials as low as −`depth`, four measurements, weights of 10^±`spread`."""
    dice, order = np.random.default_rng(0), ranks(SIZES)
    measured = {}
    for names, place in ((("a", "c"), 0), (("c", "d"), 1), (("c",), 1), (("b", "e"), 2)):
        key = tuple(sorted(names, key=order.__getitem__))
        cells = int(np.prod([SIZES[name] for name in names]))
        measured[key] = (10.0 ** dice.uniform(-spread, spread, cells), dice.uniform(-1.0, 20.0, cells), place)
    plan = Plan(SIZES, CLIQUES, PARENTS, measured, 100.0)
    for clique in plan.cliques:
        clique.theta[...] = -depth * dice.random(clique.shape)
    return plan


@pytest.mark.parametrize("descend", DESCENTS)
@pytest.mark.parametrize("depth", [3.0, 4000.0])
def test_marginals_are_those_of_the_whole_joint_table(descend: Any, depth: float) -> None:
    """At the greater depth exponentials vanish for whole cells of a separator, unless each has its highest value."""
    plan = made(depth)
    whole = np.zeros(list(SIZES.values()))
    for clique in plan.cliques:
        axes = sorted(range(len(clique.names)), key=lambda i, c=clique: c.names[i])
        shape = [SIZES[name] if name in clique.names else 1 for name in SIZES]
        whole = whole + np.transpose(clique.theta, axes).reshape(shape)
    joint = np.exp(whole - whole.max())
    joint *= plan.total / joint.sum()
    descend(plan, 0, 0.0)
    for clique in plan.cliques:
        held = joint.sum(axis=tuple(i for i, name in enumerate(SIZES) if name not in clique.names))
        axes = sorted(range(len(clique.names)), key=lambda i, c=clique: c.names[i])
        np.testing.assert_allclose(np.transpose(clique.belief, axes), held, rtol=1e-10, atol=1e-250)


@pytest.mark.parametrize("descend", DESCENTS)
def test_descent_finds_marginals_that_agree_with_each_other(descend: Any) -> None:
    """Measured without noise, they are found, and the potentials are those that have them."""
    plan = made(2.0)
    descend(plan, 0, 0.0)
    plan.means[:] = plan.answers
    for clique in plan.cliques:
        clique.theta[...] = 0.0
    assert descend(plan, 400, 0.0) < 1e-6
    np.testing.assert_allclose(plan.answers, plan.means, atol=1e-3)
    found = [clique.belief.copy() for clique in plan.cliques]
    descend(plan, 0, 0.0)
    for clique, before in zip(plan.cliques, found, strict=True):
        np.testing.assert_allclose(clique.belief, before, rtol=1e-9)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler")
def test_descent_is_the_same_in_c() -> None:
    plans = [made(3.0, spread=2.0), made(3.0, spread=2.0)]
    losses = [table_peer_plan.descend(plans[0], 400, 1.5), table_peer_kernel.descend(plans[1], 400, 1.5)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    assert plans[0].evaluations == plans[1].evaluations
    for ours, other in zip(plans[0].cliques, plans[1].cliques, strict=True):
        np.testing.assert_allclose(ours.theta, other.theta, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours.belief, other.belief, rtol=1e-9)


def test_measurements_of_one_marginal_are_one_with_a_constant() -> None:
    dice = np.random.default_rng(1)
    found = [(dice.uniform(0.5, 1.0, 6), dice.normal(size=6), scale) for scale in (0.5, 1.0, 3.0)]
    weights, means, rest = table_peer_inference.merged(found)
    for x in dice.normal(size=(3, 6)):
        loss = sum(0.5 * np.sum(((q * x - y) / scale) ** 2) for q, y, scale in found)
        assert 0.5 * np.sum(weights * (x - means) ** 2) + rest == pytest.approx(loss)


def test_a_ring_of_columns_needs_a_chord() -> None:
    ring = [*pairwise("abcd"), ("d", "a")]
    sizes = {"a": 2, "b": 3, "c": 5, "d": 7}
    # b is eliminated first, which joins a and c; then a, c and d are left
    least = min(
        sizes[first] * sizes[left] * sizes[right] + sizes[other] * sizes[left] * sizes[right]
        for first, left, other, right in permutations("abcd")
        if {first, other} in ({"a", "c"}, {"b", "d"})
    )
    assert table_peer_inference.model_cells(sizes, ring) == least == 100


SCRIPT = """
import json, sys
from itertools import combinations
sys.path.insert(0, sys.argv[1])
import numpy as np
from scipy import sparse
import table_peer, table_peer_inference as fast
table_peer.repair()
from dpmm.models import aim
from dpmm.models.base.matrix import Identity
from dpmm.models.base.mbi import Domain, FactoredInference, GraphicalModel
own = {"descent": FactoredInference.mirror_descent, "project": GraphicalModel.project, "filter": aim.filter_candidates}
fast.install()
new = {"descent": FactoredInference.mirror_descent, "project": GraphicalModel.project, "filter": aim.filter_candidates}
sizes = [3, 5, 4, 2, 6, 3, 4]
names = [f"c{i}" for i in range(len(sizes))]
domain = Domain(names, sizes)
dice = np.random.default_rng(0)
def measured(columns, matrix=Identity):
    cells = domain.size(columns)
    return matrix(cells), dice.gamma(0.5, 2000 / cells, cells) + dice.normal(0, 5, cells), 5.0, columns
one = [measured((name,)) for name in names[:-1]]
one.append(measured((names[-1],), lambda n: sparse.diags(np.append(np.ones(n - 1), 0.5))))
two = [measured(pair) for pair in [("c0", "c1"), ("c1", "c2"), ("c0", "c2"), ("c3", "c4"), ("c2", "c3"), ("c0", "c1")]]
models = []
for kind in (own, new):
    FactoredInference.mirror_descent = kind["descent"]
    engine = FactoredInference(domain, iters=150, warm_start=True)
    for count in (0, 3, 6):
        engine.estimate(one + two[:count])
    models.append(engine.model)
def gap(kind):
    first, second = (getattr(model, kind) for model in models)
    assert list(first) == list(second)
    return max(float(np.max(np.abs(first[c].values - second[c].values) / (1 + np.abs(first[c].values)))) for c in first)
pairs = list(combinations(names, 2))
apart = [np.max(np.abs(own["project"](models[0], p).datavector() - new["project"](models[0], p).datavector()))
         for p in pairs]
limits = [0.0, 0.0005, 0.001, 0.002, 0.01]
kept = [[list(kind["filter"](dict.fromkeys(pairs, 1), models[0], limit).items()) for limit in limits]
        for kind in (own, new)]
print(json.dumps({"potentials": gap("potentials"), "marginals": gap("marginals"), "pairs": float(max(apart)),
                  "filter": kept[0] == kept[1], "kept": [len(held) for held in kept[0]]}))
"""


@pytest.mark.skipif(PEERS is None, reason="PRIVOT_PEERS names no interpreter with dpmm")
@pytest.mark.parametrize("numpy_only", ["", "1"])
def test_estimates_are_those_of_dpmm(numpy_only: str) -> None:
    command = [str(PEERS), "-c", SCRIPT, str(Path(str(table_peer.__file__)).parent)]
    env = {**os.environ, "PYTHONHASHSEED": "0", "PRIVOT_PEER_NUMPY": numpy_only}
    found = json.loads(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout)
    assert max(found["potentials"], found["marginals"]) < 1e-9
    assert found["pairs"] < 1e-8
    assert found["filter"]
    # the limits part the candidates
    assert found["kept"][0] < found["kept"][2] < found["kept"][-1] == 21


WHOLE = """
import json, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import dpmm.models.aim as aim
import table_peer
aim.gaussian_noise = lambda sigma, size=None: np.random.default_rng((int(sigma * 1e6), int(np.prod(size)))).normal(
    0, sigma, size)
plain, chosen = aim.AIM.exponential_mechanism, []
def choose(*words, **more):
    chosen.append(plain(*words, **more))
    return chosen[-1]
aim.AIM.exponential_mechanism = choose
sys.argv = sys.argv[1:]
table_peer.main()
print(json.dumps(chosen))
"""


@pytest.mark.skipif(PEERS is None, reason="PRIVOT_PEERS names no interpreter with dpmm")
def test_a_whole_fit_of_aim_chooses_the_same_columns_and_draws_the_same_rows(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)
    cells = np.minimum(dice.integers(0, 3, (2000, 1)) + dice.integers(0, 2, (2000, 6)), 3)
    np.savez(tmp_path / "cells.npz", cells=cells, sizes=np.full(6, 4))
    found = []
    kinds = {"own.npz": ["--as-it-comes"], "fast.npz": [], "timed.npz": ["--own-seconds"]}
    for name, more in kinds.items():
        command = [str(PEERS), "-c", WHOLE, str(Path(str(table_peer.__file__)).parent), str(tmp_path / "cells.npz")]
        command += [str(tmp_path / name), "--method", "aim", "--epsilon", "3", "--delta", "1e-6", "--limit", "300"]
        env = {**os.environ, "PYTHONHASHSEED": "0"}
        ended = subprocess.run(
            [*command, "--iterations", "60", *more], env=env, check=True, capture_output=True, text=True
        )
        found.append(json.loads(ended.stdout.splitlines()[-1]))
    assert len(found[0]) > 12
    assert found[0] == found[1] == found[2]
    samples = [np.load(tmp_path / name) for name in kinds]
    np.testing.assert_array_equal(samples[0]["cells"], samples[1]["cells"])
    np.testing.assert_array_equal(samples[0]["cells"], samples[2]["cells"])
    # processor time varies with whatever else runs
    assert 0.5 < float(samples[2]["own_seconds"]) / float(samples[0]["seconds"]) < 2.0
