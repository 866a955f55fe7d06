"""A labeller is made of samples, tuned on the records for a part of the budget, and labels what is sampled."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from killed_jobs import kill, killed_at, resumed
from synthesis_samples import BARS, bars

from privot.accounting import account
from privot.accounting.events import Composed
from privot.errors import BudgetError, DataError, UsageError
from privot.guarantee import Adjacency, Standing
from privot.jobs.job import Job
from privot.kinds import Images
from privot.ledger import Ledger
from privot.mechanisms.exact_sums import try_map
from privot.noise import SeededNoise
from privot.release import Release
from privot.synthesis import Rules, Synthesizer
from privot.synthesis.job_files import LABELS, LESSON
from privot.synthesis.methods import asked_of
from privot.synthesis.methods.embedding_method import beside
from privot.synthesis.neural.after_training.relabelling import Drawn, Labelling, PretrainedLabeller, labeller, labels_of
from privot.synthesis.neural.defaults.after_training_defaults import LABELLING, choose_labelling, labelling_of
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.features.fourier import Fourier
from privot.synthesis.neural.features.network_features import CONSTANT, NetworkFeatures, _answers, _on_grid
from privot.synthesis.output.html_report import write_report
from privot.vault import Vault
from synthesis_asked import flat

pytestmark = pytest.mark.slow

TERMS = (8.0, 1e-5)
PLAN = Labelling(sigma=1.0, rounds=4, length=0.5, columns=8, samples=60)


def rules(labelling: Labelling | None = PLAN) -> Rules:
    segments = [[0, 64, "interval"]]
    generator = {"kind": "mlp", "dim": 64, "classes": 3, "segments": segments, "latent": 4, "hidden": [32]}
    return Rules(generator, 40, 8, 1e-2, {} if labelling is None else {"labelling": labelling.to_dict()})


def small(**given: Any) -> Synthesizer:
    features = Fourier(64, 60, [2.0], 1)
    fields = {"shape": BARS, "features": features, "rules": rules(), "device": "cpu", "seed": 5, **given}
    return Synthesizer(*fields.pop("terms", TERMS), **flat(**fields))


def vault(**given: Any) -> Vault:
    x, y = bars()
    return Vault(x, y, classes=3, clip=8.0, adjacency="add-remove", **({"budget": TERMS} | given))


def network(shape: tuple[int, ...] = (9, 8, 3), columns: int = 5, seed: int = 0) -> NetworkFeatures:
    dice = np.random.default_rng(seed)
    height, width, channels = (*shape, 1)[:3]
    pairs = [
        (dice.standard_normal((4, channels, 3, 3)), dice.standard_normal(4)),
        (dice.standard_normal((6, 4, 3, 3)), dice.standard_normal(6)),
    ]
    flat = 6 * (height // 4) * (width // 4)
    return NetworkFeatures(shape, pairs, dice.standard_normal((flat, columns)), dice.standard_normal(columns))


@pytest.mark.parametrize("shape", [(8, 8), (9, 8, 3), (3, 12, 10)])
def test_a_network_sees_what_its_layers_say(shape: tuple[int, ...]) -> None:
    if shape[0] == 3:
        held = network((12, 10, 3))
        held = NetworkFeatures(shape, held.convolutions, held.projection, held.shift)
    else:
        held = network(shape)
    x = torch.rand(7, held.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    seen = held.axes.pictures(x)
    for weights, offsets in held.convolutions:
        seen = torch.nn.functional.conv2d(seen, torch.tensor(weights), torch.tensor(offsets), padding=1)
        seen = torch.nn.functional.max_pool2d(seen.relu(), 2)
    want = seen.flatten(1) @ torch.tensor(held.projection) + torch.tensor(held.shift)
    found = held.features(x)
    assert torch.allclose(found[:, :-1], want, atol=1e-2)
    assert (found[:, -1] == CONSTANT).all()
    assert torch.allclose(held.features(x.float()).double(), found, atol=1e-2)


def test_a_network_answers_a_row_alike_to_the_last_bit_in_any_company() -> None:
    held = network()
    x = torch.rand(300, held.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 3.0 - 1.0
    whole = held.features(x)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(3))
    assert torch.equal(held.features(x[order]), whole[order])
    assert torch.equal(torch.cat([held.features(row[None]) for row in x[:20]]), whole[:20])
    held._at_once = 7
    assert torch.equal(held.features(x), whole)
    try_map(held, torch.device("cpu"))


def test_sums_of_a_network_do_not_depend_on_their_order() -> None:
    """Before they are put on a grid, which would hide what is rounded."""
    held, dice = network((16, 16, 3), 40), torch.Generator().manual_seed(5)
    for number, (weights, offsets) in enumerate(held.convolutions):
        top = 2.0**number * 20.0
        x = (
            torch.round(torch.rand(9, weights.shape[1], 8, 8, generator=dice, dtype=torch.float64) * top * 2**16)
            / 2**16
        )
        w, b, order = torch.tensor(weights), torch.tensor(offsets), torch.randperm(weights.shape[1], generator=dice)
        assert torch.equal(_answers(x, w, b), _answers(x[:, order], w[:, order].contiguous(), b))
    flat = held.flat(torch.rand(50, held.dim, generator=dice, dtype=torch.float64))
    order = torch.randperm(flat.shape[1], generator=dice)
    p = torch.tensor(held.projection)
    assert torch.equal(flat @ p, flat[:, order] @ p[order])


def test_numbers_on_their_grid_stay_there() -> None:
    """Also where rounding brings a sum over a power of two, with which the grid changes."""
    dice = np.random.default_rng(6)
    for _ in range(300):
        weights = dice.standard_normal((20, 3))
        weights *= (2.0 ** dice.integers(0, 8) - 0.5 - 1e-9 * dice.uniform()) / np.abs(weights).sum(axis=0)
        once, shift, _ = _on_grid(weights, dice.standard_normal(3) * 1e-3, 1.0)
        again, moved, _ = _on_grid(once, shift, 1.0)
        assert np.array_equal(once, again)
        assert np.array_equal(shift, moved)


def test_sums_of_a_network_are_exact() -> None:
    held = network((4, 4), 2)
    x = torch.rand(1, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    grid = [[[Fraction(round(float(v) * 2**16), 2**16) for v in row] for row in x.view(4, 4)]]
    for weights, offsets in held.convolutions:
        size, answers = len(grid[0]), []
        for w, b in zip(weights, offsets, strict=True):
            rows = []
            for i in range(size):
                row = []
                for j in range(size):
                    total = Fraction(float(b))
                    for c in range(len(grid)):
                        for k in range(3):
                            for m in range(3):
                                if 0 <= i + k - 1 < size and 0 <= j + m - 1 < size:
                                    total += Fraction(float(w[c, k, m])) * grid[c][i + k - 1][j + m - 1]
                    row.append(Fraction(round(total * 2**16), 2**16))
                rows.append(row)
            pooled = [
                [max(0, *(rows[2 * i + a][2 * j + b2] for a in (0, 1) for b2 in (0, 1))) for j in range(size // 2)]
                for i in range(size // 2)
            ]
            answers.append(pooled)
        grid = answers
    flat = [v for channel in grid for row in channel for v in row]
    for c in range(2):
        total = sum((f * Fraction(float(p)) for f, p in zip(flat, held.projection[:, c], strict=True)), Fraction(0))
        total += Fraction(float(held.shift[c]))
        assert Fraction(float(held.features(x)[0, c])) == Fraction(round(total * 2**16), 2**16)


def test_a_network_is_written_down_and_read_back_to_the_last_bit() -> None:
    held = network()
    again = NetworkFeatures.from_tensors(json.loads(json.dumps(held.to_dict())), held.tensors())
    x = torch.rand(5, held.dim, dtype=torch.float64)
    assert torch.equal(again.features(x), held.features(x))
    changed = held.tensors()
    changed["projection"] = changed["projection"] * 2.0
    with pytest.raises(DataError, match="not the one"):
        NetworkFeatures.from_tensors(held.to_dict(), changed)
    with pytest.raises(DataError, match="not a network"):
        NetworkFeatures.from_tensors(held.to_dict(), {})


@pytest.mark.parametrize("what", ["channels", "flat", "shift", "large", "nan"])
def test_a_network_that_cannot_be_is_refused(what: str) -> None:
    held = network()
    pairs, projection, shift = held.convolutions, held.projection.copy(), held.shift
    if what == "channels":
        pairs = pairs[1:]
    elif what == "flat":
        projection = projection[:-1]
    elif what == "shift":
        shift = shift[:-1]
    else:
        projection[0, 0] = 1e12 if what == "large" else np.nan
    with pytest.raises(UsageError):
        NetworkFeatures((9, 8, 3), pairs, projection, shift)


def test_both_releases_cost_what_was_asked_for() -> None:
    made = small()
    design = made.design(vault().facts)
    assert design.mechanism.sigma > small(rules=rules(None)).design(vault().facts).mechanism.sigma
    done = made.fit(vault())
    assert len(done.guarantee_.events) == 2
    assert done.guarantee_.epsilon() == pytest.approx(8.0, rel=1e-3)
    assert done.guarantee_.epsilon() <= 8.0
    assert done.release_.guarantee.epsilon() < 8.0
    # the memory budget is what the vault has: nothing is left
    held = vault()
    small().fit(held)
    with pytest.raises(BudgetError):
        small(terms=(0.5, 1e-5), rules=rules(None)).fit(held)


def test_what_is_asked_for_is_compared_with_the_cost_of_both() -> None:
    facts = vault().facts
    design = small().design(facts)
    # the embedding alone costs less than that; the labels come on top
    assert account(design.mechanism.event(facts), 1e-5).epsilon() < 7.0
    with pytest.raises(DataError, match="nothing was paid"):
        design.check(facts, 7.0, 1e-5, "cpu")
    other = replace(PLAN, sigma=0.6)
    dearer = replace(design, rules=replace(design.rules, options={"labelling": other.to_dict()}))
    with pytest.raises(DataError, match="nothing was paid"):
        dearer.check(facts, *TERMS, "cpu")


@pytest.mark.parametrize("shape", [(3, 3), (64, 64)])
def test_images_that_cannot_be_labelled_are_refused_before_paying(shape: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="too small or too large"):
        PLAN.check(shape, 3, None)
    with pytest.raises(UsageError, match="records"):
        PLAN.check(BARS, 3, 200, 10**7)
    with pytest.raises(UsageError, match="Rounding"):
        replace(PLAN, sigma=1e8).check(BARS, 3, 200)


@pytest.mark.parametrize("shape", [(8, 8, 1), (1, 8, 8)])
def test_replace_one_and_ranges_by_column_cost_what_was_asked_for_too(shape: tuple[int, ...]) -> None:
    x, y = bars()
    low, high = np.full(64, -1.0), np.linspace(1.0, 3.0, 64)
    held = Vault(low + x * (high - low), y, classes=3, clip=30.0, adjacency="replace-one", budget=TERMS)
    span = {"low": low.tolist(), "high": high.tolist()}
    generator = {**rules().generator, "shape": list(shape)}
    plan = replace(rules(replace(PLAN, sigma=2.5)), generator=generator)
    done = small(shape=shape, features=Fourier(64, 60, [2.0], 1, **span), rules=plan, **span).fit(held)
    assert done.guarantee_.epsilon() == pytest.approx(8.0, rel=1e-3)
    assert done.guarantee_.epsilon() <= 8.0
    x, y = done.sample(30, seed=2)
    assert np.array_equal(y, labels_of(done.labeller_, torch.from_numpy(x)).numpy())


def test_samples_are_labelled_by_the_labeller_and_saved_with_it(tmp_path: Path) -> None:
    done = small().fit(vault())
    x, y = done.sample(300, seed=1)
    assert done.labeller_ is not None
    assert np.array_equal(y, labels_of(done.labeller_, torch.from_numpy(x)).numpy())
    given = np.zeros(5, dtype=np.int64)
    assert np.array_equal(done.sample(5, labels=given, seed=1)[1], given)
    done.save(tmp_path)
    again = Synthesizer.load(tmp_path)
    x2, y2 = again.sample(300, seed=1)
    assert np.allclose(x, x2, atol=1e-6)
    assert (y == y2).mean() > 0.99
    assert again.guarantee_.epsilon() == pytest.approx(done.guarantee_.epsilon())
    assert "a linear classifier of a network trained on samples" in write_report(tmp_path).read_text()
    small(rules=rules(None)).fit(vault()).save(tmp_path / "plain")
    assert "the class that each sample was made for" in write_report(tmp_path / "plain").read_text()
    # records get the right class from it: bars are easy
    rows, truth = bars(90, seed=3)
    assert (labels_of(done.labeller_, torch.from_numpy(rows)).numpy() == truth).mean() > 0.6


def test_tuning_mends_a_classifier_that_samples_taught_wrongly() -> None:
    x, y = bars(600)
    wrong = torch.from_numpy((y + (np.random.default_rng(0).uniform(size=600) < 0.6)) % 3)
    plan = replace(PLAN, sigma=0.6, rounds=40, length=1.0)
    lesson = PretrainedLabeller.learn(Drawn(torch.from_numpy(x).float(), wrong, 3, BARS, (0.0, 1.0)), 16, 0)
    held = Vault(x, y, classes=3, clip=8.0, adjacency="add-remove", budget=(50.0, 1e-5))
    release = held.release(lesson.mechanism(plan, 600.0, "cpu"), purpose="labels")
    first = Release({"weights": lesson.start}, release.guarantee, release.public)
    rows, truth = bars(300, seed=9)
    before, after = (
        (labels_of(labeller(lesson, r), torch.from_numpy(rows)).numpy() == truth).mean() for r in (first, release)
    )
    assert before < 0.7
    assert after > 0.95


def test_a_labeller_gives_the_class_that_the_tuned_weights_give() -> None:
    x, y = bars(120)
    lesson = PretrainedLabeller.learn(
        Drawn(torch.from_numpy(x).float(), torch.from_numpy(y), 3, BARS, (0.0, 1.0)), 8, 0
    )
    held = vault()
    release = held.release(lesson.mechanism(PLAN, 200.0, "cpu"), purpose="labels")
    scores = lesson.features.features(torch.from_numpy(x)).numpy() @ np.asarray(release.value["weights"])
    found = labels_of(labeller(lesson, release), torch.from_numpy(x)).numpy()
    near = np.sort(scores, axis=1)
    clear = near[:, -1] - near[:, -2] > 1e-3
    assert clear.mean() > 0.9
    assert np.array_equal(found[clear], scores.argmax(axis=1)[clear])


def test_a_rule_asks_for_a_labeller_where_images_have_classes_and_a_gpu() -> None:
    problem = Problem(784, 10, 1.1, 60_000, (28, 28), "cuda")
    chosen = choose_labelling(problem)
    assert chosen is not None
    assert chosen.length < 2.0
    # noise that leaves means too little, images whose covariance would not fit, sums that would be rounded
    assert choose_labelling(replace(problem, sigma=17.0)) is None
    assert choose_labelling(replace(problem, dim=64 * 64, shape=(64, 64))) is None
    assert choose_labelling(replace(problem, records=10**7)) is None
    assert choose_labelling(replace(problem, device="cpu")) is None
    assert choose_labelling(replace(problem, classes=1)) is None
    assert choose_labelling(replace(problem, shape=None)) is None
    # less noise, longer steps
    less = choose_labelling(replace(problem, sigma=0.5))
    assert less is not None
    assert chosen.length < less.length <= 2.0
    assert chosen.sigma == pytest.approx(2.2)
    for share in (0.01, 0.25, 0.9):
        for sigma in np.geomspace(0.1, 100.0, 200):
            two = labelling_of(replace(problem, sigma=sigma), share)
            one = beside(sigma, Adjacency.ADD_REMOVE, two.event(Adjacency.ADD_REMOVE))
            assert 1 / one**2 + 1 / two.sigma**2 == pytest.approx(1 / sigma**2, rel=1e-7)
            assert 1 / one**2 + 1 / two.sigma**2 < 1 / sigma**2
    with pytest.raises(UsageError, match="whole budget"):
        beside(2.2, Adjacency.ADD_REMOVE, chosen.event(Adjacency.ADD_REMOVE))
    # fewer and shorter steps where there is more noise
    assert (chosen.rounds, labelling_of(problem, 0.1).rounds) == (40, 40)
    noisy = choose_labelling(replace(problem, sigma=3.7))
    assert noisy == labelling_of(replace(problem, sigma=3.7), 0.1)
    assert noisy.rounds == 10
    assert noisy.sigma == pytest.approx(11.7, rel=1e-3)
    assert 0.2 < noisy.length < 0.3


def test_the_share_for_labels_can_be_asked_for() -> None:
    facts, whole = vault().facts, small(rules=None).design(vault().facts)
    design = small(rules=None, options={"labelled": 0.2}).design(facts)
    found = Labelling.from_dict(design.rules.options["labelling"])
    assert found is not None
    assert found.sigma == pytest.approx(whole.mechanism.sigma / math.sqrt(0.2))
    assert design.mechanism.sigma == pytest.approx(whole.mechanism.sigma / math.sqrt(0.8), rel=1e-6)
    both = Composed((design.mechanism.event(facts), found.event(facts.adjacency)))
    assert 0.999 * TERMS[0] < account(both, delta=TERMS[1]).epsilon() <= TERMS[0]
    none = small(rules=None, options={"labelled": 0}).design(facts)
    assert "labelling" not in none.rules.options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *[({"labelled": share}, "share") for share in (1.0, -0.1, math.nan)],
        *[({"labelled": share}, "number") for share in ("much", True)],
        ({"steps": 3}, "Unknown option"),
    ],
)
def test_shares_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        small(rules=None, options=options).design(vault().facts)
    with pytest.raises(UsageError, match="leave out the options"):
        small(options={"labelled": 0.2}).design(vault().facts)


@pytest.mark.parametrize("bad", [{"sigma": 0.0}, {"rounds": 0}, {"length": 0.0}, {"samples": 3}])
def test_labellings_that_cannot_be_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Labelling(**{**PLAN.to_dict(), **bad})
    with pytest.raises(DataError):
        Labelling.from_dict({"sigma": 0.5})


def test_only_images_with_classes_can_be_labelled() -> None:
    x, _ = bars()
    plain = Vault(x, clip=8.0, adjacency="add-remove", budget=TERMS)
    with pytest.raises(UsageError, match="several classes"):
        small().design(plain.facts)
    with pytest.raises(UsageError, match="several classes"):
        small(shape=None).design(vault().facts)


@pytest.mark.gate(2)
@pytest.mark.parametrize(
    ("when", "place"),
    [
        ("learning", "privot.synthesis.neural.after_training.relabelling.PretrainedLabeller.learn"),
        ("paying", "privot.synthesis.methods.after_training_steps.tuned_head"),
        ("paid", "privot.synthesis.methods.after_training_steps.labeller"),
    ],
)
def test_a_job_killed_before_its_labels_goes_on_and_pays_for_them_once(when: str, place: str, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    held, folder = vault(ledger=ledger), tmp_path / "out"
    with killed_at(place):
        small().fit(held, folder=folder)
    assert len(ledger.entries()) == (2 if when == "paid" else 1)
    assert (folder / LESSON).exists() == (when != "learning")
    done = resumed(folder, ledger, lambda: held)
    assert len(ledger.entries()) == 2
    assert done.guarantee_.epsilon() == pytest.approx(8.0, rel=1e-3)
    assert done.labeller_ is not None
    # and once more, from what lies there
    again = resumed(folder, ledger, kill)
    assert len(ledger.entries()) == 2
    assert np.array_equal(again.sample(50, seed=1)[1], done.sample(50, seed=1)[1])


def streamed(method: str = "sinkhorn", share: float = 0.3) -> Synthesizer:
    options = {"steps": 6, "blocks": 2, "batch": 10, "points": 6, "labelled": share}
    return Synthesizer(
        *TERMS, records=200, device="cpu", seed=5, kind=Images(BARS), method=asked_of(method, options=options)
    )


@pytest.mark.gate(1)
@pytest.mark.parametrize("method", ["sinkhorn", "sinkhorn-parameters"])
def test_a_stream_and_its_labels_cost_what_was_asked_for(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LABELLING["cpu"], "samples", 60)
    ledger = Ledger.create(tmp_path / "ledger")
    held, folder = vault(ledger=ledger), tmp_path / "out"
    plain = streamed(method, 0.0).design(held.facts)
    assert streamed(method).design(held.facts).mechanism.sigma > plain.mechanism.sigma

    with killed_at("privot.synthesis.methods.after_training_steps.tuned_head"):
        streamed(method).fit(held, folder=folder)
    assert len(ledger.entries()) == 2
    done = resumed(folder, ledger, lambda: held)
    assert len(ledger.entries()) == 3
    assert done.guarantee_.epsilon() == pytest.approx(8.0, rel=1e-2)
    assert done.guarantee_.epsilon() <= 8.0
    [data] = ledger.datasets()
    assert ledger.spent(data.fingerprint).epsilon(1e-5) == pytest.approx(done.guarantee_.epsilon(), rel=1e-6)
    x, y = done.sample(40, seed=1)
    assert np.array_equal(y, labels_of(done.labeller_, torch.from_numpy(x)).numpy())
    done.save(tmp_path / "saved")
    assert np.array_equal(Synthesizer.load(tmp_path / "saved").sample(40, seed=1)[1], y)
    # all is paid for, and nothing is learned anew
    again = resumed(folder, ledger, kill)
    assert len(ledger.entries()) == 3
    assert np.array_equal(again.sample(40, seed=1)[1], y)
    # without a folder too
    alone = streamed(method).fit(vault())
    assert alone.labeller_ is not None
    assert alone.guarantee_.epsilon() == pytest.approx(8.0, rel=1e-2)
    assert alone.guarantee_.epsilon() <= 8.0


def test_noise_that_is_not_secret_is_allowed_for_labels_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LABELLING["cpu"], "samples", 60)
    options = {"steps": 4, "blocks": 1, "batch": 10, "points": 6, "labelled": 0.3}
    asked = {"method": "sinkhorn", "shape": BARS, "records": 200, "options": options, "device": "cpu", "seed": 5}
    done = Synthesizer(*TERMS, **flat(allow_unproven=True, **asked)).fit(vault(noise=SeededNoise(1)))
    assert done.labeller_ is not None
    assert done.guarantee_.standing is Standing.UNPROVEN


@pytest.mark.parametrize("share", [1.0, -0.1, 2.0])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(UsageError, match="share"):
        streamed(share=share).design(vault().facts)


def test_a_stream_without_classes_or_images_has_no_labels_to_tune() -> None:
    x, _ = bars()
    with pytest.raises(UsageError, match="several classes"):
        streamed().design(Vault(x, clip=8.0, adjacency="add-remove", budget=TERMS).facts)


def test_labels_that_were_lost_or_never_paid_for_are_not_believed(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    held = vault(ledger=ledger, budget=(30.0, 1e-5))
    folder = tmp_path / "out"
    small().fit(held, folder=folder)
    resume = partial(resumed, folder, ledger, lambda: held)

    with pytest.raises(DataError, match="never paid"):
        resume(lambda mark: 0 if LABELS in mark else 1)
    # another network than the one that was paid for
    lesson = (folder / LESSON).read_bytes()
    (folder / LESSON).write_bytes(lesson[:-9] + b"123456789")
    with pytest.raises(DataError, match="damaged"):
        resume()
    (folder / LESSON).write_bytes(lesson)
    with pytest.raises(DataError, match="not learned from this job"):
        PretrainedLabeller.load(folder / LESSON, "another release")
    labels = Release.load(folder / f"{LABELS}.npz")
    dearer = replace(labels.guarantee, at_delta=1e-6)
    Release(labels.value, dearer, labels.public).save(folder / "other.npz")
    kept = (folder / f"{LABELS}.npz").read_bytes()
    (folder / "other.npz").rename(folder / f"{LABELS}.npz")
    with pytest.raises(DataError, match="not the one its job paid for"):
        resume()
    (folder / f"{LABELS}.npz").write_bytes(kept)
    silent = Job.open(folder)
    settings = json.loads(json.dumps(dict(silent.settings)))
    del settings["design"]["rules"]["options"]["labelling"]
    with pytest.raises(DataError, match="does not mention"):
        resume(job=Job(folder, silent.name, settings))
    (folder / LESSON).unlink()
    with pytest.raises(DataError, match="not the one its job paid for"):
        resume(job=_other_seed(folder))
    (folder / LESSON).write_bytes(lesson)
    (folder / f"{LABELS}.npz").unlink()
    (folder / "synthetic.npz").write_bytes(b"made with the labels that are lost")
    with pytest.raises(BudgetError, match="pay_again"):
        resume()
    assert len(ledger.entries()) == 2
    done = resume(pay_again=True)
    assert len(ledger.entries()) == 3
    # the first labels may have been looked at, so they count as well
    [data] = ledger.datasets()
    assert done.guarantee_.epsilon() == pytest.approx(ledger.spent(data.fingerprint).epsilon(1e-5), rel=1e-6)
    assert done.guarantee_.epsilon() > 8.0
    assert not (folder / "synthetic.npz").exists()
    assert (folder / "checkpoint.safetensors").exists()
    # a first release that is paid for anew leaves nothing of what was made from the old one
    (folder / "release.npz").unlink()
    with pytest.raises(BudgetError, match="pay_again"):
        resume()
    before = [(folder / name).read_bytes() for name in (f"{LABELS}.npz", LESSON)]
    resume(pay_again=True)
    assert len(ledger.entries()) == 5
    assert all((folder / n).read_bytes() != old for n, old in zip((f"{LABELS}.npz", LESSON), before, strict=True))


def test_a_labelled_folder_is_audited(tmp_path: Path) -> None:
    from privot.audit.targets.synth_folder import audit_folder
    from privot.synthesis.output.output_folder import write_folder

    folder = tmp_path / "out"
    done = small().fit(vault(), folder=folder)
    write_folder(done, folder, 60, 0)
    found = audit_folder(folder, candidates=300, steps=5, runs=60, trials=20_000)
    findings, guarantee = found.findings, found.guarantee
    assert guarantee.epsilon() == pytest.approx(8.0, rel=1e-3)
    names = [f.to_dict() for f in findings]
    assert any("labels.npz" in str(name) for name in names)


def _other_seed(folder: Path) -> Job:
    """The job as if its samples had been drawn from another seed."""
    job = Job.open(folder)
    settings = json.loads(json.dumps(dict(job.settings)))
    settings["design"]["seed"] += 1
    return Job(job.folder, job.name, settings)
