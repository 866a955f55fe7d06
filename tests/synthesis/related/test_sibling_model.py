"""Siblings are drawn as alike as the release says, and each of them as it would be alone."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from privot import Schema, Synthesizer, Vault
from privot.errors import DataError
from privot.kinds.related_records import RelatedTables
from privot.synthesis.tabular.related.related_design import RelatedDesign
from privot.synthesis.tabular.related.related_model import RelatedModel
from privot.synthesis.tabular.related.sibling_model import places_in_laws
from privot.tables import Column, RelatedCodec

PATIENTS = Schema((Column("sex", "categorical", categories=("f", "m")),))
VISITS = Schema((Column("cost", "integer", 0, 19), Column("ward", "categorical", categories=("a", "b", "c", "d"))))
CODEC = RelatedCodec({"patients": PATIENTS, "visits": VISITS}, key="patient_id", per_parent=4)


def test_places_are_even_and_siblings_have_the_correlation() -> None:
    rng = np.random.default_rng(0)
    number = rng.integers(0, 5, 20_000)
    owner = np.repeat(np.arange(len(number)), number)
    made = places_in_laws(owner, np.array([0.6, 0.0, -0.25, -0.9]), rng)
    assert made.shape == (len(owner), 4)
    starts = np.cumsum(number) - number
    for size in (2, 4):
        at = starts[number == size]
        z = ndtri(np.stack([made[at], made[at + size - 1]]))
        for k, rho in enumerate((0.6, 0.0, max(-0.25, -1 / (size - 1)), max(-0.9, -1 / (size - 1)))):
            assert np.corrcoef(z[:, :, k])[0, 1] == pytest.approx(rho, abs=5 / len(at) ** 0.5)
            assert z[:, :, k].std() == pytest.approx(1.0, abs=5 / len(at) ** 0.5)
    # columns are independent of each other
    assert np.abs(np.corrcoef(ndtri(made[number[owner] > 0]).T)[np.triu_indices(4, 1)]).max() < 0.03


def records(parents: int, seed: int = 0) -> RelatedTables:
    """Costs of one patient are alike (correlation about .6), whatever the sex; so is the ward, in 7 of 10 visits."""
    rng = np.random.default_rng(seed)
    number = rng.integers(1, 5, parents)
    owner = np.repeat(np.arange(parents), number)
    level, ward = rng.normal(size=parents), rng.integers(0, 4, parents)
    cost = 9.5 + 4.0 * (0.6**0.5 * level[owner] + 0.4**0.5 * rng.normal(size=len(owner)))
    own = np.where(rng.random(len(owner)) < 0.7, ward[owner], rng.integers(0, 4, len(owner)))
    keys = [f"p{i}" for i in range(parents)]
    visits = np.column_stack([np.clip(np.rint(cost), 0, 19) / 19.0, own])
    sex = rng.integers(0, 2, (parents, 1)).astype(float)
    tables: Any = {"patients": (sex, None, keys), "visits": (visits, None, [keys[i] for i in owner])}
    return RelatedTables(CODEC, tables)


def alike(rows: np.ndarray, owner: np.ndarray) -> tuple[float, float]:
    """The correlation of costs in the first two visits, and how often their wards are the same."""
    first = np.unique(owner, return_index=True)[1]
    two = first[np.bincount(owner)[np.unique(owner)] >= 2]
    both = rows[two], rows[two + 1]
    return float(np.corrcoef(both[0][:, 0], both[1][:, 0])[0, 1]), float((both[0][:, 1] == both[1][:, 1]).mean())


@pytest.fixture(scope="module")
def vault() -> Vault:
    return Vault(records(3000), clip=CODEC.bound(), adjacency="add-remove", budget=(20.0, 1e-6))


@pytest.mark.slow
def test_siblings_are_as_alike_as_real_ones_and_each_as_it_would_be_alone(vault: Vault) -> None:
    made: RelatedModel = Synthesizer(3.0, 1e-6, seed=1, kind=CODEC).fit(vault).model_
    _, visits = made.draw(6000, 2)
    assert visits.parents is not None
    cost, ward = alike(visits.rows, visits.parents)
    # by hand: costs .6; wards the same in .7² + (1 − .7²)/4
    assert cost == pytest.approx(0.6, abs=0.1)
    assert ward == pytest.approx(0.49 + 0.51 / 4, abs=0.1)
    # drawn independently beside their parents they are not alike, and have the same columns
    _, apart = RelatedModel(made.codec, made.parents, made.children).draw(6000, 2)
    assert apart.parents is not None
    assert abs(alike(apart.rows, apart.parents)[0]) < 0.1
    shares = [np.bincount(of.rows[:, 1].astype(int), minlength=4) / len(of.rows) for of in (visits, apart)]
    assert shares[0] == pytest.approx(shares[1], abs=0.03)
    assert np.quantile(visits.rows[:, 0], [0.1, 0.5, 0.9]) == pytest.approx(
        np.quantile(apart.rows[:, 0], [0.1, 0.5, 0.9]), abs=0.06
    )


def test_a_design_is_read_as_it_was_written_and_models_too(vault: Vault) -> None:
    synthesizer = Synthesizer(1.0, 1e-6, seed=1, kind=CODEC)
    design = synthesizer.design(vault.facts)
    fields = json.loads(json.dumps(design.to_dict()))
    again = RelatedDesign.from_dict(fields, CODEC)
    assert again.mechanism == design.mechanism
    release = vault.release(design.mechanism, purpose="test")
    again.check_release(release)
    for odd in (2 / 3, None):
        less = {**fields, "siblings": [None, None if odd is None else fields["siblings"][1] * odd]}
        with pytest.raises(DataError, match="not the one its job paid for"):
            RelatedDesign.from_dict(less, CODEC).check_release(release)
    model = design.fit(release)
    back = RelatedModel.build(CODEC, model.config(), model.arrays())
    assert (back.draw(50, 1)[1].rows == model.draw(50, 1)[1].rows).all()
    for damaged in (np.array([0.1]), np.array([0.1, 1.5]), np.array([0.1, np.nan])):
        with pytest.raises(DataError):
            RelatedModel.build(CODEC, model.config(), {**model.arrays(), "1.likeness": damaged})
    # jobs from before: nothing of siblings is released, and they are drawn as they were
    del fields["siblings"]
    earlier = RelatedDesign.from_dict(fields, CODEC)
    assert earlier.mechanism.siblings == ()
    assert len(earlier.event(vault.facts).to_dict()["event"]["events"]) + 1 == len(
        design.event(vault.facts).to_dict()["event"]["events"]
    )
