"""Pictures of leaves: what they look like, their light, when they are labelled, how a class of samples is found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from killed_jobs import killed_at, resumed

from privot.accounting import embedding
from privot.cli import run
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.kinds import Images, Unit
from privot.ledger import Ledger
from privot.report.image_grid import draw_grid
from privot.synthesis import Rules, Synthesizer
from privot.synthesis.method_configs import Embedding
from privot.synthesis.methods.embedding_training import Target
from privot.synthesis.methods.leaves_target import leaves_target, shrunk
from privot.synthesis.neural.after_training.relabelling import labels_of
from privot.synthesis.neural.defaults import after_training_defaults, generator_defaults
from privot.synthesis.neural.defaults.after_training_defaults import (
    LEAVES_SHARE,
    choose_labelling,
    choose_warp_selection,
    has_leaves,
)
from privot.synthesis.neural.defaults.generator_defaults import LEAVES_STEPS, choose_rules
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.defaults.rows_needed import rows_needed
from privot.synthesis.neural.features.fourier import Fourier
from privot.synthesis.neural.features.scattering import ScatteringClassifier
from privot.synthesis.neural.generators.generator import build
from privot.synthesis.neural.generators.leaves import NUMBERS, leaves
from privot.synthesis.neural.public.public_images import MIN_IMAGES, PublicImages
from privot.synthesis.output.html_report import write_report
from privot.synthesis.output.output_folder import write_folder
from privot.vault import Vault
from synthesis_asked import flat

SHAPE, DIM = (16, 16, 3), 768
CONFIG: dict[str, Any] = {
    "kind": "leaves", "dim": DIM, "classes": 2, "segments": [[0, DIM, "interval"]], "shape": list(SHAPE),
    "latent": 4 + NUMBERS, "own": 4, "grid": 2, "hidden": 8,
}  # fmt: skip
NOISY = Problem(3072, 10, 3.73, 10_000, (32, 32, 3), "cuda")


def numbers(rows: int, seed: int = 0, width: int = NUMBERS) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


def slope(pictures: torch.Tensor) -> float:
    """p where the mean power of brightness falls like f⁻ᵖ, from 2 to 10 waves a side."""
    grey = pictures.mean(dim=1)
    power = torch.fft.fft2(grey - grey.mean(dim=(1, 2), keepdim=True)).abs().square().mean(dim=0)
    f = torch.fft.fftfreq(grey.shape[1], 1.0 / grey.shape[1])
    radius = torch.hypot(f[:, None], f[None])
    rings = [float(power[(radius >= r - 0.5) & (radius < r + 0.5)].mean()) for r in range(2, 11)]
    return -float(np.polyfit(np.log(np.arange(2, 11)), np.log(rings), 1)[0])


def test_a_picture_depends_on_its_own_numbers_alone() -> None:
    z = numbers(6)
    made = leaves(z, 16, 24, 3)
    assert made.shape == (6, 3, 16, 24)
    assert torch.allclose(leaves(z[2:3], 16, 24, 3), made[2:3], atol=1e-5)
    assert leaves(z, 16, 16, 1).shape == (6, 1, 16, 16)
    assert (made[0] - made[1]).abs().mean() > 0.02
    # numbers that no picture in a million has leave it finite
    assert torch.isfinite(leaves(torch.full((1, NUMBERS), 9.0), 16, 16, 3)).all()
    assert torch.isfinite(leaves(torch.full((1, NUMBERS), -9.0), 16, 16, 3)).all()


def test_power_falls_with_frequency_as_in_photographs() -> None:
    # that of photographs falls like f⁻² (Field 1987), white noise like f⁰
    assert 1.5 < slope(leaves(numbers(300), 32, 32, 3)) < 2.8
    assert abs(slope(torch.rand(300, 3, 32, 32))) < 0.3


def test_the_largest_leaf_covers_and_the_number_of_leaves_counts() -> None:
    z = torch.zeros(1, NUMBERS)
    # only the first leaf is large, in the middle, a white disc; all later ones are as small as can be and outside
    z[:, : 32 * 12] = torch.tensor([-9.0, 9.0, 9.0, 9.0, 0.0, 9.0, *[0.0] * 6]).repeat(32)
    z[:, :12] = torch.tensor([9.0, 0.0, 0.0, 9.0, 0.0, 9.0, 9.0, *[0.0] * 5])
    z[:, -1] = -9.0
    made = leaves(z, 32, 32, 3)[0].mean(dim=0)
    assert made[16, 16] > 0.9
    # its radius is 0.62 sides, so half of a corner's distance is covered and a corner is not
    assert made[0, 0] < 0.6
    z[:, 0] = -9.0
    assert leaves(z, 32, 32, 3)[0].mean(dim=0)[16, 4] < 0.6
    # the last leaf lies there only where a picture has as many
    z[:, 31 * 12 : 32 * 12] = torch.tensor([9.0, 0.0, 0.0, 9.0, 0.0, 9.0, 9.0, *[0.0] * 5])
    for number, white in ((9.0, True), (-9.0, False)):
        z[:, -3] = number
        assert (leaves(z, 32, 32, 3)[0].mean(dim=0)[16, 4] > 0.9) == white


def test_light_changes_pictures_smoothly_and_begins_with_hardly_any() -> None:
    torch.manual_seed(0)
    generator = build(CONFIG).eval()
    z, labels = numbers(8, 1, 4 + NUMBERS), torch.arange(8) % 2
    with torch.no_grad():
        first = generator(z, labels).view(8, 16, 16, 3).permute(0, 3, 1, 2)
        plain = leaves(z[:, 4:], 16, 16, 3)
        assert (first - plain).abs().mean() < 0.05
        generator.get_parameter("light.4.bias").copy_(
            torch.cat([torch.zeros(4), torch.full((4,), 2.0), torch.zeros(8)])
        )
        lit = generator(z, labels).view(8, 16, 16, 3).permute(0, 3, 1, 2)
    # more of the first colour alone, in every pixel
    assert (lit[:, 0] > first[:, 0] - 1e-6).all()
    assert torch.allclose(lit[:, 1:], first[:, 1:], atol=1e-6)
    assert build({**CONFIG, "kind": "several", "of": "leaves", "members": 2}).shows_class is False


@pytest.mark.parametrize(
    "wrong",
    [
        *({"latent": n} for n in (9, 10**400, -1, float("nan"), "x")),
        *({name: n} for name in ("grid", "hidden") for n in (0, -1, 10**400, float("nan"), float("inf"), "x", None)),
        *({"own": n, "latent": n + NUMBERS} for n in (0, -1)),
        *({"shape": shape} for shape in ([16, 24, 2], [16, 16, 1], [10**5, 10**5, 3], [16], "x")),
        {"grid": 17},
        {"shape": [1, 1, 3], "dim": 3, "segments": [[0, 3, "interval"]], "grid": 1},
        {"shape": [10**5, 10**5, 3], "dim": 3 * 10**10, "segments": [[0, 3 * 10**10, "interval"]]},
    ],
    ids=lambda wrong: str(wrong)[:40],
)
def test_a_size_that_cannot_be_is_bad_data(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        build({**CONFIG, **wrong})


def test_rules_label_leaves_where_noise_hides_colour_images() -> None:
    for device in ("cpu", "cuda"):
        assert has_leaves(replace(NOISY, device=device))
    for other in (
        replace(NOISY, sigma=0.54),
        replace(NOISY, dim=1024, shape=(32, 32)),
        replace(NOISY, dim=192, shape=(8, 8, 3)),
        replace(NOISY, shape=None),
        replace(NOISY, classes=1),
        replace(NOISY, codes=2048),
        replace(NOISY, common=True),
        replace(NOISY, records=5_000_000),
        # labels are not tuned on so many, whatever the noise
        replace(NOISY, records=5_000_001, sigma=1e4),
    ):
        assert not has_leaves(other)
    assert has_leaves(replace(NOISY, records=5_000_000, sigma=1e4))
    chosen = replace(NOISY, leaves=True)
    rules, labelling = choose_rules(chosen), choose_labelling(chosen)
    assert (rules.generator["kind"], rules.steps) == ("leaves", LEAVES_STEPS)
    assert build(rules.generator).latent == 16 + NUMBERS
    assert labelling is not None
    assert labelling.sigma == pytest.approx(3.73 / LEAVES_SHARE**0.5)
    # they are not warped
    assert choose_warp_selection(NOISY, Adjacency.ADD_REMOVE) is not None
    assert choose_warp_selection(chosen, Adjacency.ADD_REMOVE) is None


def tinted(records: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of colour images: red with stripes, and blue without."""
    dice = np.random.default_rng(seed)
    y = np.arange(records) % 2
    x = 0.3 * dice.uniform(size=(records, *SHAPE))
    x[y == 0, :, :, 0] += 0.4
    x[y == 0] += 0.25 * (np.arange(16) // 2 % 2)[None, :, None, None]
    x[y == 1, :, :, 2] += 0.4
    return np.clip(x, 0.0, 1.0).reshape(records, -1), y


def vault(**given: Any) -> Vault:
    x, y = tinted()
    return Vault(x, y, classes=2, clip=28.0, adjacency="add-remove", **({"budget": (8.0, 1e-5)} | given))


def made(**given: Any) -> Synthesizer:
    return Synthesizer(8.0, 1e-5, **flat(**{"shape": SHAPE, "device": "cpu", "seed": 3, "records": 400, **given}))


def test_a_design_labels_leaves_unless_something_else_is_said() -> None:
    facts = vault().facts
    design = made().design(facts)
    assert design.rules.generator["kind"] == "leaves"
    whole = embedding(adjacency=Adjacency.ADD_REMOVE, delta=1e-5, epsilon=8.0).sigma
    # (1/σ)² of both parts is that of the whole budget
    parts = (1.0 / design.mechanism.sigma**2 + 1.0 / design.labelling.sigma**2) * whole**2
    assert parts == pytest.approx(1.0, rel=1e-5)
    assert parts <= 1.0
    # a number of its own, so that a changed share is seen: four fifths are for labels
    assert (whole / design.labelling.sigma) ** 2 == pytest.approx(0.8)
    for other in (
        made(features=Fourier(DIM, 20, [8.0], 1)),
        made(options={"labelled": 0}),
        made(records=10**6),
        made(public=PublicImages(np.random.default_rng(0).uniform(size=(MIN_IMAGES, *SHAPE)))),
    ):
        assert other.design(facts).rules.generator["kind"] != "leaves"
    assert made(options={"leaves": 0}).design(facts).rules.generator["kind"] != "leaves"
    assert made(records=10**5, options={"leaves": 1}).design(facts).rules.generator["kind"] == "leaves"
    for given, match in (({"leaves": 1, "labelled": 0}, "leave them out"), ({"leaves": 2}, "must be 0 or 1")):
        with pytest.raises(UsageError, match=match):
            made(options=given).design(facts)
    # what is said to be needed follows the noise of the labels, not that of the little that light gets
    need = rows_needed(design, 8.0, 1e-5)
    assert need is not None
    assert (need.noise, "tells the classes apart" in need.what) == (design.labelling.sigma, True)
    shared = made(options={"labelled": 0.5}).design(facts)
    assert shared.rules.generator["kind"] == "leaves"
    assert shared.labelling.sigma == pytest.approx(whole / 0.5**0.5)
    x, y = tinted()
    # leaves without a labeller, by rules of one's own: what is needed is what the means need
    bare = made(rules=Rules(CONFIG, 5, 8, 1e-2), records=None).design(facts)
    need = rows_needed(bare, 8.0, 1e-5)
    assert need is not None
    assert need.what == "the mean of each class"
    with pytest.raises(UsageError, match="leave them out"):
        made(records=6 * 10**6, options={"leaves": 1}).design(facts)
    units = Vault(
        x,
        y,
        classes=2,
        clip=28.0,
        adjacency="add-remove",
        units=np.arange(400) // 2,
        unit=Unit("person", 2),
        budget=(8.0, 1e-5),
    )
    assert made().design(units.facts).rules.generator["kind"] != "leaves"
    with pytest.raises(UsageError, match="no unit"):
        made(options={"leaves": 1}).design(units.facts)


@pytest.fixture(scope="module")
def done() -> Synthesizer:
    """By the default rules, in fewer steps and with fewer samples."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(generator_defaults, "LEAVES_STEPS", 5)
        changed.setattr("privot.synthesis.methods.leaves_target._PICTURES", 500)
        changed.setitem(after_training_defaults.SCATTERED, "samples", 200)
        return made().fit(vault())


@pytest.mark.slow
def test_samples_carry_the_labels_of_the_labeller_and_a_class_can_be_asked_for(
    done: Synthesizer, tmp_path: Path
) -> None:
    _, y = done.sample(300, seed=1)
    assert isinstance(done.labeller_, ScatteringClassifier)
    assert 0.3 < (y == 0).mean() < 0.7
    test, truth = tinted(200, seed=9)
    assert (labels_of(done.labeller_, torch.from_numpy(test).float()).numpy() == truth).mean() > 0.8
    wanted = np.array([1, 1, 0, 1, 0, 0, 0, 0, 0])
    wanted.setflags(write=False)
    found, marks = done.sample(len(wanted), labels=wanted, seed=2)
    assert np.array_equal(marks, wanted)
    assert np.array_equal(labels_of(done.labeller_, torch.from_numpy(found)).numpy(), wanted)
    assert len(np.unique(found, axis=0)) == len(wanted)
    # as many as are asked for, each once, in more than one draw
    many = np.repeat([0, 1], [5, 95])
    found, _ = done.sample(100, labels=many, seed=2)
    assert np.array_equal(labels_of(done.labeller_, torch.from_numpy(found)).numpy(), many)
    assert len(np.unique(found, axis=0)) == 100
    done.save(tmp_path)
    assert "drawn discs and boxes" in write_report(tmp_path).read_text()
    again = Synthesizer.load(tmp_path)
    for given in ({}, {"labels": wanted}):
        assert all(
            np.array_equal(*both)
            for both in zip(again.sample(9, seed=4, **given), done.sample(9, seed=4, **given), strict=True)
        )


@pytest.mark.slow
def test_light_is_learned_from_released_means(tmp_path: Path) -> None:
    rules = Rules(CONFIG, 60, 8, 2e-2)
    lit = Synthesizer(
        50.0,
        1e-5,
        device="cpu",
        seed=3,
        kind=Images(SHAPE),
        method=Embedding(features=Fourier(DIM, 100, [8.0], 1), rules=rules),
    )
    lit.fit(vault(budget=(50.0, 1e-5)))
    lit.save(tmp_path)
    assert "drawn discs and boxes" not in write_report(tmp_path).read_text()
    # without a labeller a class is what was asked for
    x, y = lit.sample(200, labels=np.arange(200) % 2, seed=1)
    red = x.reshape(-1, *SHAPE)[..., 0].mean(axis=(1, 2)) - x.reshape(-1, *SHAPE)[..., 2].mean(axis=(1, 2))
    assert red[y == 0].mean() > 0.1 > -0.1 > red[y == 1].mean()


def test_a_class_that_no_sample_has_is_refused(done: Synthesizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privot.synthesis.fitted.labels_of", lambda labeller, x: torch.zeros(len(x), dtype=torch.int64))
    monkeypatch.setattr("privot.synthesis.fitted._MOST_TRIES", 2)
    with pytest.raises(UsageError, match="Hardly any sample is labelled 1"):
        done.sample(4, labels=[0, 0, 1, 0], seed=0)


def test_a_class_that_no_sample_has_leaves_the_output_whole(
    done: Synthesizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is paid when the grid is drawn: it may not fail."""
    monkeypatch.setattr("privot.synthesis.fitted.labels_of", lambda labeller, x: torch.zeros(len(x), dtype=torch.int64))
    drawn: list[np.ndarray] = []

    def draw(unit: np.ndarray, shape: Any) -> bytes:
        drawn.append(unit)
        return draw_grid(unit, shape)

    monkeypatch.setattr("privot.synthesis.output.numbers_output.draw_grid", draw)
    write_folder(done, tmp_path, 20, 1)
    assert {"grid.png", "config.json", "guarantee.json", "report.html"} <= {p.name for p in tmp_path.iterdir()}
    assert drawn[0].shape == (20, DIM)
    assert (drawn[0][:10].std(axis=1) > 0.0).all()
    assert (drawn[0][10:] == 1.0).all()


@pytest.mark.parametrize(("name", "value"), [("grid", 16), ("hidden", 10**6), ("own", 10**8), ("classes", 10**8)])
def test_a_saved_model_of_other_sizes_than_its_weights_takes_no_memory(
    done: Synthesizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    done.save(tmp_path)
    fields = json.loads((tmp_path / "config.json").read_text())
    fields["learned"]["generator"][name] = value
    if name == "own":
        fields["learned"]["generator"]["latent"] = value + NUMBERS
    (tmp_path / "config.json").write_text(json.dumps(fields))
    places: list[str] = []
    monkeypatch.setattr(
        "privot.synthesis.output.numbers_output.build",
        lambda config: places.append(torch.empty(1).device.type) or build(config),
    )
    with pytest.raises(DataError, match="weights do not fit"):
        Synthesizer.load(tmp_path)
    assert places == ["meta"]


@pytest.mark.slow
@pytest.mark.gate(1)
@pytest.mark.parametrize(
    "place", ["embedding_method.train", "after_training_steps.tuned_head", "after_training_steps.labeller"]
)
def test_a_killed_job_goes_on_and_pays_for_both_parts_once(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator_defaults, "LEAVES_STEPS", 3)
    monkeypatch.setattr("privot.synthesis.methods.leaves_target._PICTURES", 500)
    monkeypatch.setitem(after_training_defaults.SCATTERED, "samples", 100)
    ledger = Ledger.create(tmp_path / "ledger")
    held, folder = vault(ledger=ledger), tmp_path / "out"
    with killed_at(f"privot.synthesis.methods.{place}"):
        made().fit(held, folder=folder)
    assert len(ledger.entries()) == (2 if place.endswith("labeller") else 1)
    again = resumed(folder, ledger, lambda: held)
    assert len(ledger.entries()) == 2
    assert 8.0 * (1.0 - 1e-3) < again.guarantee_.epsilon() <= 8.0
    assert again.generator_.config["kind"] == "leaves"


@pytest.mark.slow
def test_an_interrupted_job_goes_on_with_the_generator_that_it_was_designed_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of an earlier version, whose defaults knew no leaves."""
    monkeypatch.setattr(generator_defaults, "steps", lambda problem: 3)
    monkeypatch.setitem(after_training_defaults.SCATTERED, "samples", 100)
    ledger = Ledger.create(tmp_path / "ledger")
    held, folder = vault(ledger=ledger), tmp_path / "out"
    with pytest.MonkeyPatch.context() as earlier:
        earlier.setattr("privot.synthesis.methods.embedding_method.has_leaves", lambda problem: False)
        with killed_at("privot.synthesis.methods.embedding_method.train"):
            made().fit(held, folder=folder)
    again = resumed(folder, ledger, lambda: held)
    assert again.generator_.config["kind"] != "leaves"
    assert len(ledger.entries()) == 2
    assert again.guarantee_.epsilon() <= 8.0


def test_means_are_trusted_as_far_as_noise_allows() -> None:
    dice = np.random.default_rng(0)
    start, size = dice.uniform(-0.1, 0.1, 400), 400
    for apart, sigma in ((0.0, 0.02), (0.3, 0.02), (0.3, 0.005), (0.3, 0.0)):
        way = dice.standard_normal((300, size))
        truth = start + apart * way / np.linalg.norm(way, axis=1, keepdims=True)
        seen = truth + sigma * dice.standard_normal(truth.shape)
        norm = sigma**2 * size
        found = shrunk(seen, start, np.full(300, 1.0 / (1.0 + norm)))
        error, before = np.square(found - truth).sum(axis=1), np.square(seen - truth).sum(axis=1)
        # the least that a multiple of the distance can have: ν²·a²/(a² + ν²)
        assert error.mean() == pytest.approx(norm * apart**2 / (apart**2 + norm + 1e-30), rel=0.1, abs=0.04 * norm)
        assert error.mean() <= before.mean()


@pytest.mark.slow
def test_light_starts_from_pictures_without_records() -> None:
    rules, features = Rules(CONFIG, 5, 8, 1e-2), Fourier(DIM, 30, [8.0], 1)
    means = np.zeros((2, features.size))
    # means that are all noise leave nothing but the pictures' own
    noisy = Target(features, means, np.full(2, 1e-9), np.ones(2))
    found = leaves_target(noisy, rules, 3, "cpu").means
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found, leaves_target(noisy, rules, 3, "cpu").means)
    with torch.no_grad():
        pictures = leaves(numbers(2_000, 5), 16, 16, 3).permute(0, 2, 3, 1).flatten(1)
        own = features.features(pictures).mean(dim=0).double().numpy()
    assert np.abs(found[0] - own).max() < 0.03
    # without noise they stay as they are
    assert np.array_equal(leaves_target(replace(noisy, weights=np.ones(2)), rules, 3, "cpu").means, means)


@pytest.mark.slow
def test_the_command_says_what_samples_will_be_before_it_pays(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = tinted(60)
    np.savez("red.npz", x=x, y=y)
    public = ["--classes", "2", "--shape", "16,16,3", "--range", "0,1"]
    start = ["ledger", "init", "red.npz.ledger", "--data", "red.npz", "--adjacency", "add-remove"]
    # a budget with nothing to spend: what is said is said before it refuses
    assert run([*start, "--epsilon", "0.01", "--delta", "1e-5"]) == 0
    capsys.readouterr()
    words = ["synth", "red.npz", "--epsilon", "1", "--delta", "1e-5", "--adjacency", "add-remove", *public]
    words += ["--set", "records=2000", "--device", "cpu"]
    for setting, said in (([], True), (["--set", "leaves=0"], False), (["--set", "leaves=1"], False)):
        assert run([*words, *setting, "--out", "out" + "".join(setting)]) == 4
        assert ("drawn discs and boxes" in capsys.readouterr().err) == said
