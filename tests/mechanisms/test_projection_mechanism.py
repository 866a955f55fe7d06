"""A random projection runs what it says it costs: same σ, same sampler, same bounds, one changed row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privot.accounting import FixedSize, Sampled
from privot.accounting.events import Projection
from privot.errors import NoTheoremError, UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms import Facts, Needs, RandomProjection
from privot.mechanisms.clipping import MARGIN, clip_rows
from privot.mechanisms.directions import directions_of, draw_directions
from privot.noise import SeededNoise, SystemNoise

R = Adjacency.REPLACE_ONE


class Plain:
    """Records without a vault around them."""

    def __init__(self, x: np.ndarray, clip: float) -> None:
        self.x, self.count = x, len(x)
        self.facts = Facts(x.shape[1], len(x), clip, R)

    def rows(self, indices: np.ndarray | None = None) -> np.ndarray:
        return self.x if indices is None else self.x[indices]

    def clipped(self, indices: np.ndarray | None = None) -> np.ndarray:
        return clip_rows(self.rows(indices), self.facts.clip)

    def labels(self, indices: np.ndarray | None = None) -> np.ndarray:
        raise AssertionError("a projection has no business with labels")


class Stub:
    """Noise that is always the same and writes down what it was asked."""

    standing = Standing.PROVEN
    assumptions = ()

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale
        self.asked: list[Any] = []

    def normal(self, shape: tuple[int, ...], sigma: float) -> np.ndarray:
        self.asked.append(("normal", shape, sigma))
        return self.scale * sigma * np.random.default_rng(0).standard_normal(shape)

    def sample_without_replacement(self, records: int, batch: int) -> np.ndarray:
        self.asked.append(("sample", records, batch))
        return np.random.default_rng(1).permutation(records)[:batch]


def test_event_says_what_runs() -> None:
    x = np.random.default_rng(2).normal(size=(20, 6))
    mechanism = RandomProjection(slices=9, sigma=3.0, batch=7)
    records, noise = Plain(x, 0.5), Stub()
    event = mechanism.event(records.facts)
    assert event == Sampled(Projection(6, 9, 3.0, 1.0, R, "orthogonal"), FixedSize(7, 20))
    value, public = mechanism.run(records, noise, event, 0)
    assert noise.asked == [("sample", 20, 7), ("normal", (7, 9), 3.0)]
    assert value.shape == (7, 9)
    assert (public["sigma"], public["batch"], public["clip"], public["records"]) == (3.0, 7, 0.5, 20)


def test_without_a_batch_every_record_takes_part_in_order() -> None:
    x = np.random.default_rng(3).normal(size=(5, 4))
    mechanism, noise = RandomProjection(slices=3, sigma=2.0, frame="independent"), Stub(scale=0.0)
    records = Plain(x, 0.5)
    event = mechanism.event(records.facts)
    assert event == Projection(4, 3, 2.0, 1.0, R, "independent")
    value, public = mechanism.run(records, noise, event, 0)
    np.testing.assert_allclose(value, clip_rows(x, 0.5) @ directions_of(public), atol=1e-15)


def test_it_draws_through_the_very_object_that_is_charged() -> None:
    drawn = []

    class Watched(FixedSize):
        def draw(self, source: Any, records: int) -> np.ndarray:
            drawn.append(self)
            return super().draw(source, records)

    records = Plain(np.ones((10, 3)), 0.5)
    mechanism = RandomProjection(slices=2, sigma=1.0, batch=4)
    watched = Watched(4, 10)
    event = Sampled(mechanism.event(records.facts).event, watched)
    mechanism.run(records, Stub(), event, 0)
    assert drawn == [watched]
    assert drawn[0] is watched


@settings(max_examples=100, deadline=None)
@given(
    arrays(np.float64, (6, 4), elements=st.floats(-1e6, 1e6)),
    arrays(np.float64, 4, elements=st.floats(-1e6, 1e6)),
    st.integers(0, 5),
    st.sampled_from([1, 3, 4, 9]),
    st.sampled_from(["orthogonal", "independent"]),
    st.sampled_from([0.5, 3.0]),
)
def test_neighbours_differ_in_one_row_by_no_more_than_is_counted(
    x: np.ndarray, other: np.ndarray, changed: int, slices: int, frame: str, clip: float
) -> None:
    neighbour = x.copy()
    neighbour[changed] = other
    mechanism = RandomProjection(slices=slices, sigma=1.0, frame=frame, seed=4)
    values = []
    for data in (x, neighbour):
        records = Plain(data, clip)
        values.append(mechanism.run(records, Stub(), mechanism.event(records.facts), 0)[0])
    moved = values[0] - values[1]
    assert (np.delete(moved, changed, axis=0) == 0.0).all()
    z = clip_rows(x, clip)[changed] - clip_rows(neighbour, clip)[changed]
    assert np.linalg.norm(z) <= 2 * clip
    U = draw_directions(4, slices, frame, 4)
    H = np.sum((z @ U) ** 2) / max(z @ z, 1e-300)
    # the sum value + noise is rounded to the grain of numbers of size |value| + |noise|
    assert np.linalg.norm(moved) <= 2 * clip * np.sqrt(H) + 1e-13 * (1 + clip)


def test_the_furthest_neighbours_reach_the_bound() -> None:
    mechanism = RandomProjection(slices=8, sigma=1.0, seed=5)
    values = []
    for sign in (1.0, -1.0):
        records = Plain(np.array([[sign * 99.0, 0, 0, 0], [0, 1, 0, 0]]), 0.5)
        values.append(mechanism.run(records, Stub(), mechanism.event(records.facts), 0)[0])
    # two whole frames: H = 2
    assert np.linalg.norm(values[0] - values[1]) == pytest.approx(np.sqrt(2.0) * (1 - MARGIN), rel=1e-10)


def test_every_step_draws_new_directions_sample_and_noise() -> None:
    records = Plain(np.random.default_rng(6).normal(size=(50, 5)), 0.5)
    for seed in (None, 7):
        mechanism = RandomProjection(slices=3, sigma=1.0, batch=10, steps=2, seed=seed)
        event, noise = mechanism.event(records.facts), SystemNoise()
        (a, first), (b, second) = (mechanism.run(records, noise, event, step) for step in range(2))
        assert np.abs(directions_of(first) - directions_of(second)).max() > 0.01
        assert np.abs(a - b).max() > 0.01
        assert (first["seed"] == second["seed"]) is (seed is not None)


def test_rows_of_a_batch_come_in_random_order() -> None:
    # record i is i in one dimension, so the rows show the order they were drawn in
    x = np.arange(1.0, 101.0)[:, None] / 1000.0
    noise = SeededNoise(8)
    noise.normal = lambda shape, sigma: np.zeros(shape)  # type: ignore[method-assign]
    mechanism = RandomProjection(slices=1, sigma=1.0, batch=50, seed=9)
    records = Plain(x, 0.5)
    event = mechanism.event(records.facts)
    orders = []
    for _ in range(200):
        value, _ = mechanism.run(records, noise, event, 0)
        order = np.round(np.abs(value[:, 0]) * 1000).astype(int)
        assert len(set(order)) == 50
        assert order.min() >= 1
        assert order.max() <= 100
        orders.append(order)
    firsts = np.array([order[0] for order in orders])
    # mean 50.5, sd 28.9: sorted rows would have a first row near 2
    assert abs(firsts.mean() - 50.5) < 5 * 28.9 / np.sqrt(200)
    rises = np.mean([np.mean(np.diff(order) > 0) for order in orders])
    assert abs(rises - 0.5) < 0.02


@pytest.mark.statistical
def test_noise_has_the_variance_that_is_counted() -> None:
    records = Plain(np.zeros((400, 3)), 0.5)
    mechanism = RandomProjection(slices=100, sigma=2.5)
    value, _ = mechanism.run(records, SystemNoise(), mechanism.event(records.facts), 0)
    # 40,000 variates: the sample sd is within 1.8 % with probability 1 − 1e-6; 2σ/3 is far outside
    assert value.std() == pytest.approx(2.5, rel=0.018)


def test_add_remove_has_no_theorem() -> None:
    facts = Facts(4, None, 0.5, Adjacency.ADD_REMOVE)
    for mechanism in (RandomProjection(slices=2, sigma=1.0), RandomProjection(slices=2, sigma=1.0, batch=3)):
        with pytest.raises(NoTheoremError):
            mechanism.event(facts)


@pytest.mark.parametrize(
    "arguments",
    [
        {"slices": 0, "sigma": 1.0},
        {"slices": 2.5, "sigma": 1.0},
        {"slices": 2, "sigma": 0.0},
        {"slices": 2, "sigma": -1.0},
        {"slices": 2, "sigma": float("nan")},
        {"slices": 2, "sigma": 1.0, "frame": "oblique"},
        {"slices": 2, "sigma": 1.0, "batch": 0},
        {"slices": 2, "sigma": 1.0, "steps": 0},
        {"slices": 2, "sigma": 1.0, "seed": -1},
    ],
)
def test_impossible_settings_are_refused_when_they_are_made(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        RandomProjection(**arguments)


@pytest.mark.parametrize(
    ("needs", "facts"),
    [
        (Needs(dim=3), Facts(4, 10, 0.5, R)),
        (Needs(clip=0.4), Facts(4, 10, 0.5, R)),
        (Needs(least_records=11), Facts(4, 10, 0.5, R)),
        (Needs(least_records=2), Facts(4, None, 0.5, Adjacency.ADD_REMOVE)),
        (Needs(labels=True), Facts(4, 10, 0.5, R)),
    ],
)
def test_needs_are_checked_against_public_facts(needs: Needs, facts: Facts) -> None:
    with pytest.raises(UsageError):
        needs.check(facts)
    Needs(dim=4, clip=0.5, least_records=10, labels=True).check(Facts(4, 10, 0.5, R, classes=2))


class Labelled(Plain):
    """Three classes beside the rows."""

    def __init__(self, x: np.ndarray, y: np.ndarray, clip: float) -> None:
        super().__init__(x, clip)
        self.y, self.facts = y, Facts(x.shape[1], len(x), clip, R, 3)

    def labels(self, indices: np.ndarray | None = None) -> np.ndarray:
        return self.y if indices is None else self.y[indices]


@pytest.mark.parametrize(
    ("columns", "seen", "coarser"), [(3, 3, {}), (16, 4, {"shape": (4, 4), "pool": 2})], ids=["as they are", "coarser"]
)
@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(0, 2), st.booleans())
def test_neighbours_with_labels_differ_by_no_more_than_is_counted(
    columns: int, seen: int, coarser: dict[str, Any], data: st.DataObject, label: int, outer: bool
) -> None:
    """Whole frames, so that the directions keep lengths: the changed row moves by at most 2C, its label included.

    Every other row stays as it is, to the last bit, and nothing overflows.
    """
    numbers = st.floats(-1e308, 1e308)
    x = data.draw(arrays(np.float64, (5, columns), elements=numbers))
    y, neighbour, labels = np.arange(5) % 3, x.copy(), np.arange(5) % 3
    neighbour[2], labels[2] = data.draw(arrays(np.float64, columns, elements=numbers)), label
    dim = 3 * seen if outer else seen + 3
    mechanism = RandomProjection(dim, 1.0, seed=4, outer=outer, label_weight=None if outer else 2.0, **coarser)
    values = []
    for rows, marks in ((x, y), (neighbour, labels)):
        records = Labelled(rows, marks, 0.5)
        event = mechanism.event(records.facts)
        assert event.dim == dim
        values.append(mechanism.run(records, Stub(), event, 0)[0])
    moved = values[0] - values[1]
    assert np.isfinite(values).all()
    assert (np.delete(moved, 2, axis=0) == 0.0).all()
    assert np.linalg.norm(moved) <= event.sensitivity == 1.0


@pytest.mark.parametrize("outer", [False, True])
def test_labels_are_projected_with_their_records(outer: bool) -> None:
    x, y = np.random.default_rng(8).normal(size=(4, 2)), np.array([2, 0, 1, 2])
    mechanism = RandomProjection(slices=5, sigma=1.0, outer=outer, label_weight=None if outer else 0.25)
    records = Labelled(x, y, 0.5)
    value, public = mechanism.run(records, Stub(scale=0.0), mechanism.event(records.facts), 0)
    hot = np.eye(3)[y]
    if outer:
        whole = np.einsum("nc,nd->ncd", hot, clip_rows(x, 0.5)).reshape(4, 6)
    else:
        whole = clip_rows(np.concatenate([x, 0.25 * hot], axis=1), 0.5)
    np.testing.assert_allclose(value, whole @ directions_of(public), atol=1e-11)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([0, 2]), min_size=2, max_size=30), st.sampled_from([1, 7]), st.booleans())
def test_outer_projections_are_those_of_rows_with_zeros_in_them(labels: list[int], slices: int, sampled: bool) -> None:
    """One-hot ⊗ x written out, one class of three always absent, of all records and of those that were drawn."""
    y = np.array(labels)
    x = np.random.default_rng(len(y)).normal(size=(len(y), 4))
    mechanism = RandomProjection(slices, 1e-3, outer=True, batch=len(y) // 2 if sampled else None)
    records, noise = Labelled(x, y, 0.5), Stub(scale=0.0)
    value, public = mechanism.run(records, noise, mechanism.event(records.facts), 0)
    drawn = noise.sample_without_replacement(len(y), len(y) // 2) if sampled else np.arange(len(y))
    whole = np.zeros((len(drawn), 3, 4))
    whole[np.arange(len(drawn)), y[drawn]] = clip_rows(x[drawn], 0.5)
    np.testing.assert_allclose(value, whole.reshape(len(drawn), -1) @ directions_of(public), atol=1e-14)


def test_no_row_depends_on_another_records_label_to_the_last_bit() -> None:
    """With noise so small that its grid shows every bit: a product of one row and one of two round differently."""
    x, y = np.random.default_rng(9).normal(size=(6, 700)), np.array([0, 0, 1, 1, 1, 2])
    for slices in (1, 8):
        mechanism = RandomProjection(slices, 1e-6, outer=True, seed=3)
        values = []
        for label in range(3):
            records = Labelled(x, np.array([label, *y[1:]]), 0.5)
            values.append(mechanism.run(records, Stub(scale=0.0), mechanism.event(records.facts), 0)[0])
        assert np.abs(values[0][0] - values[1][0]).max() > 1e-3
        for other in values[1:]:
            np.testing.assert_array_equal(other[1:], values[0][1:])


def test_a_label_that_no_vault_lets_in_shows_nothing() -> None:
    """Its row is noise alone, not whatever lay in memory."""
    x, y = np.ones((4, 2)), np.array([0, 3, -1, 2])
    mechanism, records = RandomProjection(5, 1.0, outer=True), Labelled(x, y, 0.5)
    for _ in range(20):
        np.full((4, 5), 7.0)
        value, _ = mechanism.run(records, Stub(scale=0.0), mechanism.event(records.facts), 0)
        assert not value[[1, 2]].any()
        assert value[[0, 3]].any()


def test_labels_are_asked_for_before_paying() -> None:
    for mechanism in (RandomProjection(2, 1.0, outer=True), RandomProjection(2, 1.0, label_weight=1.0)):
        assert mechanism.needs.labels
    for changes in ({"label_weight": 0.0}, {"label_weight": 1.0, "outer": True}):
        with pytest.raises(UsageError):
            RandomProjection(2, 1.0, **changes)


@pytest.mark.parametrize(("shape", "pool"), [((4, 6), 2), ((6, 9, 3), 3), ((3, 4, 6), 2), ((1, 8, 12), 4)])
@pytest.mark.parametrize("labels", ["none", "outer", "append"])
def test_images_made_coarser_are_what_is_projected_and_counted(shape: tuple[int, ...], pool: int, labels: str) -> None:
    """Against sums of squares of pixels, taken one by one; what is clipped is their image, not the record."""
    x, y = np.random.default_rng(3).normal(size=(5, math.prod(shape))), np.arange(5) % 3
    outer, weight = labels == "outer", 0.25 if labels == "append" else None
    mechanism = RandomProjection(7, 1.0, outer=outer, label_weight=weight, shape=shape, pool=pool)
    records = Labelled(x, y, 0.5)
    event = mechanism.event(records.facts)
    value, public = mechanism.run(records, Stub(scale=0.0), event, 0)
    images, first = x.reshape(5, *shape), shape[0] in (1, 3)
    images = images[..., None] if len(shape) == 2 else images.transpose(0, 2, 3, 1) if first else images
    squares = [images[:, pool * a :, pool * b :][:, :pool, :pool] for a in (0, 1) for b in (0, 1, 2)]
    coarse = np.stack([square.sum(axis=(1, 2)) / pool for square in squares], axis=1)
    rows = (coarse.transpose(0, 2, 1) if first else coarse).reshape(5, -1)
    assert pool**2 * rows.shape[1] == x.shape[1]
    hot = np.eye(3)[y]
    if outer:
        whole = np.einsum("nc,nd->ncd", hot, clip_rows(rows, 0.5)).reshape(5, -1)
    else:
        whole = clip_rows(rows if weight is None else np.concatenate([rows, weight * hot], axis=1), 0.5)
    assert event.dim == whole.shape[1] == public["dim"]
    assert (public["shape"], public["pool"]) == (list(shape), pool)
    np.testing.assert_allclose(value, whole @ directions_of(public), atol=1e-11)


@pytest.mark.parametrize("held", [1, 250, 2**15])
def test_in_pieces_or_at_once_every_row_meets_the_directions_of_its_class(
    monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    """A piece has one direction, three, or all; a row's product is the same to the last bit beside other rows."""
    monkeypatch.setattr("privot.mechanisms.projection._CACHED", held)
    dice = np.random.default_rng(6)
    x, y = dice.normal(size=(40, 83)), dice.integers(0, 3, size=40)
    mechanism = RandomProjection(50, 1e-3, seed=4, outer=True)

    def seen(labels: np.ndarray) -> np.ndarray:
        records = Labelled(x, labels, 90.0)
        return mechanism.run(records, Stub(scale=0.0), mechanism.event(records.facts), 0)[0]

    value, directions = seen(y), draw_directions(3 * 83, 50, "orthogonal", 4).reshape(3, 83, 50)
    np.testing.assert_allclose(value, np.einsum("nd,ndk->nk", clip_rows(x, 90.0), directions[y]), atol=1e-12)
    for changed in range(40):
        others = np.arange(40) != changed
        assert (seen(np.where(others, y, (y + 1) % 3))[others] == value[others]).all()
    # alone in its class
    assert (seen(np.where(np.arange(40) == 7, y, (y[7] + 1) % 3))[7] == value[7]).all()


def test_what_cannot_be_made_coarser_is_refused_before_paying() -> None:
    with pytest.raises(UsageError, match="state their shape"):
        RandomProjection(2, 1.0, pool=2)
    with pytest.raises(UsageError, match="do not fill an image of 4 × 6"):
        RandomProjection(2, 1.0, pool=4, shape=(4, 6))
    with pytest.raises(UsageError, match="are not images"):
        RandomProjection(2, 1.0, pool=2, shape=(4, 4)).event(Labelled(np.ones((3, 15)), np.zeros(3, int), 0.5).facts)
    for shape, pool in (((4, 4), 0), ((4.7, 4.2), 2), (("a", "b"), 2), (16, 2), ("44", 1), ((4, 4, 4, 4), 2)):
        with pytest.raises(UsageError):
            RandomProjection(2, 1.0, pool=pool, shape=shape)
    assert RandomProjection(2, 1.0, shape=[4, 4]) == RandomProjection(2, 1.0, shape=(4, 4))
