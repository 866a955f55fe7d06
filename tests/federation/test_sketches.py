"""Sketches: changed files are refused, distances are close to the truth, false alarms are as rare as stated."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.stats import binom

from privot import Vault
from privot.errors import BudgetError, DataError, UsageError
from privot.federation import Sketch, compare_sketches, sketch
from privot.federation.coordination.requests import Request
from privot.federation.sketches.estimating import Reading, Shared, estimate, simplex
from privot.federation.sketches.sketch_comparison import tell_apart
from privot.federation.sketches.sketch_matrix import distance_matrix
from privot.federation.sketches.sketch_order import Order
from privot.federation.wire.messages import decode, encode
from privot.federation.wire.signing import make_key, open_sealed, public_name, read_key, read_public, seal
from privot.guarantee import Adjacency
from privot.mechanisms import SketchDesign
from privot.transport import exact, sliced

D = 20
SCALES = np.linspace(3, 0.3, D)


def rows(seed: int, n: int = 400) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, D)) * SCALES


PLAIN = SketchDesign.plain(D, 8.0, directions=12)
AROUND = SketchDesign.around(rows(99), prototypes=8, directions=6, principal=4)


def sketched(
    x: np.ndarray, epsilon: float = 10.0, design: SketchDesign = PLAIN, adjacency: str = "replace-one"
) -> Sketch:
    vault = Vault(x, clip=1.0, adjacency=adjacency, budget=(epsilon, 1e-5))
    return sketch(vault, epsilon=epsilon, delta=1e-5, design=design)


@pytest.fixture(scope="module")
def one() -> Sketch:
    return sketched(rows(1), design=AROUND)


def test_it_is_paid_for_once_and_proven(one: Sketch) -> None:
    assert one.guarantee.epsilon() <= 10.0
    assert one.guarantee.epsilon() > 9.99
    assert str(one.guarantee.standing) == "proven"
    vault = Vault(rows(1), clip=1.0, adjacency="add-remove", budget=(1.0, 1e-5))
    sketch(vault, epsilon=1.0, delta=1e-5, radius=8.0)
    with pytest.raises(BudgetError):
        sketch(vault, epsilon=1.0, delta=1e-5, radius=8.0)
    with pytest.raises(UsageError):
        sketch(vault, epsilon=1.0, delta=1e-5, sigma=2.0)


def test_files_are_read_back_with_their_signer(one: Sketch, tmp_path) -> None:
    key = make_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    assert read_public(tmp_path / "key.pub") == public_name(read_key(tmp_path / "key")) == public_name(key)
    one.save(tmp_path / "a.sketch", key)
    again = Sketch.load(tmp_path / "a.sketch", (public_name(key),))
    assert again.signer == public_name(key)
    assert dict(again.public) == dict(one.public)
    assert again.guarantee.epsilon() == pytest.approx(one.guarantee.epsilon(), rel=1e-9)
    for name, block in one.value.items():
        np.testing.assert_array_equal(again.value[name], block)
    with pytest.raises(DataError, match="trusted"):
        Sketch.load(tmp_path / "a.sketch", ("0" * 64,))
    with pytest.raises(UsageError, match="never overwritten"):
        make_key(tmp_path / "key")


def test_any_changed_byte_is_refused(one: Sketch) -> None:
    whole = seal(one.to_bytes(), Ed25519PrivateKey.generate())
    assert open_sealed(whole).payload == one.to_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 150)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        try:
            payload = open_sealed(bytes(damaged)).payload
        except DataError:
            continue
        # a byte of the container that nothing is read from
        assert payload == one.to_bytes()


def repacked(one: Sketch, head: dict | None = None, payload: bytes | None = None) -> bytes:
    """An envelope whose container is in order, with another head or payload inside."""
    out = io.BytesIO()
    sealed = io.BytesIO(seal(one.to_bytes(), Ed25519PrivateKey.generate()))
    with zipfile.ZipFile(sealed) as old, zipfile.ZipFile(out, "w") as new:
        new.writestr("signature.json", json.dumps(json.loads(old.read("signature.json")) | (head or {})))
        new.writestr("payload.npz", payload or old.read("payload.npz"))
    return out.getvalue()


def test_another_version_payload_or_signer_is_refused(one: Sketch) -> None:
    assert open_sealed(repacked(one)).payload == one.to_bytes()
    with pytest.raises(DataError, match="version"):
        open_sealed(repacked(one, {"version": 2}))
    with pytest.raises(DataError, match="signature"):
        open_sealed(repacked(one, payload=one.to_bytes() + b"more"))
    with pytest.raises(DataError, match="signature"):
        open_sealed(repacked(one, {"public_key": public_name(Ed25519PrivateKey.generate())}))
    for key in ("", "zz", 5, None):
        with pytest.raises(DataError, match="signature"):
            open_sealed(repacked(one, {"signature": key}))
    # a signature of the bare payload, without the words that say what it is for
    stray = Ed25519PrivateKey.generate()
    bare = {"public_key": public_name(stray), "signature": stray.sign(one.to_bytes()).hex()}
    with pytest.raises(DataError, match="signature"):
        open_sealed(repacked(one, bare))


def changed(one: Sketch, change) -> bytes:
    """The sketch as somebody who can sign would lie about it."""
    facts, arrays = decode(one.to_bytes(), "sketch", dict.fromkeys(one.value, 1))
    facts = json.loads(json.dumps(facts))
    change(facts, arrays)
    return encode("sketch", facts, arrays)


@pytest.mark.parametrize(
    "change",
    [
        lambda f, a: f["public"].update(sigma=f["public"]["sigma"] / 2),
        lambda f, a: f["guarantee"]["events"][0].update(sigma=100.0),
        lambda f, a: f["guarantee"]["events"][0].update(sensitivity=0.1),
        lambda f, a: f["public"]["weights"].update(cells=5.0),
        lambda f, a: f["public"]["weights"].update(cells=-1.0),
        lambda f, a: f["public"].update(records=None),
        lambda f, a: f["public"].update(records=-5),
        lambda f, a: f["public"].update(knots=[0.0, 2.0, 1.0]),
        lambda f, a: f["public"].update(knots="wide"),
        lambda f, a: f["public"].update(prototype_costs=[[0.0, 1.0], [2.0, 0.0]]),
        lambda f, a: f["public"].update(prototype_costs=[]),
        lambda f, a: f["public"].update(unmatched=[[1.0, 2.0]]),
        lambda f, a: f["public"].update(dim=True),
        lambda f, a: f["public"].update(radius=0.0),
        lambda f, a: f["public"].update(surprise=1),
        lambda f, a: f["public"].pop("seed"),
        lambda f, a: f.update(more=1),
        lambda f, a: f.update(guarantee={"epsilon": 0.0}),
        lambda f, a: a.update(cells=a["cells"][:-1]),
        lambda f, a: a.update(cells=a["cells"] * np.nan),
        lambda f, a: a.pop("shells"),
    ],
)
def test_a_sketch_that_contradicts_itself_is_refused(one: Sketch, change) -> None:
    with pytest.raises(DataError) as refusal:
        Sketch.from_bytes(changed(one, change))
    assert "\n" not in str(refusal.value)


def test_an_equivalent_rewrite_is_accepted(one: Sketch) -> None:
    assert Sketch.from_bytes(changed(one, lambda f, a: None)).records == 400


@pytest.mark.parametrize("design", [SketchDesign.plain(D, 16.0), AROUND], ids=["plain", "around"])
def test_estimates_are_near_the_truth(design: SketchDesign) -> None:
    x, y = rows(1, 1000), rows(2, 1000) + np.r_[4.0, 3.0, np.zeros(D - 2)]
    found = compare_sketches(sketched(x, design=design), sketched(y, design=design), draws=0)
    assert found.sliced.value == pytest.approx(sliced(x, y, slices=400, seed=1).value, rel=0.15)
    assert found.value == found.w2.value == pytest.approx(exact(x, y).value, rel=0.2)
    assert found.indistinguishable is None


def test_wider_clouds_are_further_apart() -> None:
    base = sketched(rows(1, 1000))
    far = [compare_sketches(base, sketched(rows(2, 1000) * s), draws=0) for s in (1.0, 1.3, 1.8)]
    assert far[0].sliced.value < far[1].sliced.value < far[2].sliced.value
    assert far[0].w2.value < far[1].w2.value < far[2].w2.value
    # of a scaling by s, SW_2 = (s − 1)·√(Σ scale²/d)
    assert far[2].sliced.value == pytest.approx(0.8 * np.sqrt((SCALES**2).mean()), rel=0.2)


def test_the_number_of_records_is_estimated_where_it_is_private() -> None:
    made = sketched(rows(3, 1500), epsilon=1.0, adjacency="add-remove", design=AROUND)
    assert made.public["records"] is None
    assert made.records == pytest.approx(1500, abs=60)


def test_only_sketches_of_one_design_are_compared(one: Sketch) -> None:
    with pytest.raises(DataError, match="one design"):
        compare_sketches(one, sketched(rows(2)))
    with pytest.raises(UsageError):
        compare_sketches(one, one, draws=5)


IDS = ["plain, 1", "plain, 10", "around, 1", "around, 10"]


@pytest.mark.gate(each="design")
@pytest.mark.statistical
@pytest.mark.parametrize(("design", "epsilon"), [(PLAIN, 1.0), (PLAIN, 10.0), (AROUND, 1.0), (AROUND, 10.0)], ids=IDS)
def test_false_alarms_are_as_rare_as_stated(design: SketchDesign, epsilon: float, whole_run: bool) -> None:
    pairs, alarms = 100 if whole_run else 40, 0
    sigma = sketched(rows(0, 300), epsilon, design).public["sigma"]
    for k in range(pairs):
        both = []
        for i in (0, 1):
            vault = Vault(rows(1000 + 2 * k + i, 300), clip=1.0, adjacency="replace-one", budget=(epsilon, 1e-5))
            both.append(sketch(vault, sigma=sigma, design=design))
        alarms += tell_apart(*both, draws=300) <= 0.05
    # a rate of 5 % exceeds this once in a thousand runs; 100 pairs see one of 20 % in 95 of 100, 40 pairs one of 40 %
    assert alarms <= binom.ppf(0.999, pairs, 0.05)


def test_differences_are_detected() -> None:
    a = sketched(rows(1), 10.0, AROUND)
    for y in (rows(2) + 1.5, rows(2) * 1.5, rows(2)[:, ::-1]):
        assert tell_apart(a, sketched(np.ascontiguousarray(y), 10.0, AROUND)) <= 0.05
    # at ε = 10 W_2 lies 1.7 deviations of the noise above its null level, at 30 nine
    found = compare_sketches(*(sketched(x, 30.0, AROUND) for x in (rows(1), rows(2) + 1.5)), draws=100)
    assert found.indistinguishable is False
    assert found.sliced.value > found.sliced.null_level
    assert found.w2.value > found.w2.null_level


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["box", "plain", "labelled"])
def test_no_distance_is_larger_than_is_publicly_possible(kind: str) -> None:
    g, few = np.random.default_rng(0), 12
    design = SketchDesign.plain(D, 1.0) if kind == "plain" else SketchDesign.box(D, 0.0, 1.0)
    most = 4.0 if kind == "plain" else np.sqrt(D)
    made = []
    for _ in range(4):
        x, y = g.uniform(size=(few, D)), g.integers(0, 2, few)
        vault = Vault(x, y, clip=1.0, classes=2, adjacency="replace-one", budget=(0.05, 1e-5))
        made.append(
            sketch(vault, epsilon=0.05, delta=1e-5, design=design.labelled(2) if kind == "labelled" else design)
        )
    table = distance_matrix(made)
    assert table.w2.max() <= most
    assert table.sliced.max() <= most / np.sqrt(D)
    for other in made[1:]:
        found = compare_sketches(made[0], other, draws=100)
        for distance, bound in ((found.w2, 1.0), (found.sliced, 1.0 / np.sqrt(D)), (found.otdd, np.sqrt(2.0))):
            if distance is not None:
                low, high = distance.interval
                assert 0.0 <= low <= distance.value <= high <= bound * most
                assert distance.null_level <= bound * most


@pytest.mark.parametrize("design", [PLAIN, SketchDesign.box(D, 0.0, 1.0)], ids=["plain", "box"])
def test_an_order_and_its_sketch_state_that_records_are_bounded(design: SketchDesign) -> None:
    key = Ed25519PrivateKey.generate()
    order = Order(design, 1.0, 1e-5, Adjacency.REPLACE_ONE)
    read, _ = Request.opened(Request("sketch", "0" * 32, 0, "1" * 64, order=order).sealed(key))
    assert read.order is not None
    assert read.order.design.bounded is design.bounded
    assert read.order.digest() == order.digest()
    made = sketched(rows(1), design=read.order.design)
    assert Shared.of(made.public).bounded is design.bounded
    assert not Shared.of(made.public, sketched(rows(1)).public).bounded


@pytest.mark.statistical
@pytest.mark.usefixtures("intervals_alone")
def test_the_sliced_interval_covers_where_noise_hides_the_distance(whole_run: bool) -> None:
    g = np.random.default_rng(1)
    design = SketchDesign.box(64, 0.0, 1.0)
    a, b = (g.beta(0.5, 0.5, size=(300, 64)) for _ in range(2))
    truth = compare_sketches(sketched(a, 1e5, design), sketched(b, 1e5, design), draws=0).sliced.value
    held, times = 0, 40 if whole_run else 20
    for _ in range(times):
        found = compare_sketches(sketched(a, 1.0, design), sketched(b, 1.0, design), draws=100).sliced
        low, high = found.interval
        assert low <= found.value <= high
        held += low <= truth <= high
    # at the stated 95 % in all but one run of 10⁵; cut at 0 before it was turned round it held in two of three
    assert held >= binom.ppf(1e-5, times, 0.95)


@pytest.mark.statistical
@pytest.mark.usefixtures("intervals_alone")
def test_intervals_cover_the_distance_without_noise(whole_run: bool) -> None:
    x, y = rows(1), rows(2) + 1.0
    public = sketched(x).public
    common = Shared.of(public)
    means = [{n: v.mean(0) for n, v in PLAIN.coordinates(z).items()} for z in (x, y)]
    quiet = [Reading(common, m["features"], 0.0, simplex(m["shells"]), None, None, 400.0) for m in means]
    truth = np.sqrt(estimate(*quiet))
    held, times = np.zeros(2), 60 if whole_run else 20
    for _ in range(times):
        found = compare_sketches(sketched(x, 2.0), sketched(y, 2.0), draws=100)
        for k, distance in enumerate((found.w2, found.sliced)):
            low, high = distance.interval
            held[k] += low <= truth[k] <= high
    # 95 % stated; 92.2 and 95.3 % of a thousand with 100 draws, 93.8 and 95.8 % of 400 with the usual 400. With 92 %,
    # fewer than these would happen once in two thousand runs
    assert held.min() >= binom.ppf(5e-4, times, 0.92)


def test_answers_repeat_because_the_simulation_is_seeded_by_the_sketches(one: Sketch) -> None:
    other = sketched(rows(2), design=AROUND)
    first, second = (compare_sketches(one, other, draws=100) for _ in range(2))
    assert (first.w2, first.sliced, first.p_value) == (second.w2, second.sliced, second.p_value)


def test_the_simplex_is_projected_on() -> None:
    np.testing.assert_allclose(simplex(np.array([0.2, 0.8])), [0.2, 0.8])
    np.testing.assert_allclose(simplex(np.array([2.0, -3.0, 0.5])), [1.0, 0.0, 0.0])
    np.testing.assert_allclose(simplex(np.array([0.5, 0.5, 0.3])), [0.4, 0.4, 0.2])
