"""Pictures of leaves: what they look like, their light, when they are labelled, how a class of samples is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from privot.accounting import embedding
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.synthesis import Rules, Synthesizer, build, choose_rules
from privot.synthesis.defaults import embedding_defaults
from privot.synthesis.defaults.embedding_defaults import (
    LEAVES_SHARE,
    LEAVES_STEPS,
    Problem,
    choose_labelling,
    choose_warp_selection,
    has_leaves,
)
from privot.synthesis.defaults.rows_needed import rows_needed
from privot.synthesis.features.fourier import Fourier
from privot.synthesis.features.scattering import ScatteringClassifier
from privot.synthesis.generators.leaves import NUMBERS, leaves
from privot.synthesis.output.html_report import write_report
from privot.synthesis.refinement.relabelling import labels_of
from privot.vault import Vault

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
    for wrong in ({"latent": 9}, {"grid": 0}, {"shape": [16, 24, 2]}):
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
    ):
        assert not has_leaves(other)
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
    return Synthesizer(8.0, 1e-5, **{"shape": SHAPE, "device": "cpu", "seed": 3, "records": 400, **given})


def test_a_design_labels_leaves_unless_something_else_is_said() -> None:
    facts = vault().facts
    design = made().design(facts)
    assert design.rules.generator["kind"] == "leaves"
    whole = embedding(adjacency=Adjacency.ADD_REMOVE, delta=1e-5, epsilon=8.0).sigma
    # (1/σ)² of both parts is that of the whole budget
    parts = (1.0 / design.mechanism.sigma**2 + 1.0 / design.labelling.sigma**2) * whole**2
    assert parts == pytest.approx(1.0, rel=1e-5)
    assert parts <= 1.0
    for other in (
        made(features=Fourier(DIM, 20, [8.0], 1)),
        made(options={"labelled": 0}),
        made(records=10**6),
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
    units = Vault(
        x,
        y,
        classes=2,
        clip=28.0,
        adjacency="add-remove",
        units=np.arange(400) // 2,
        unit="person",
        per_unit=2,
        budget=(8.0, 1e-5),
    )
    assert made().design(units.facts).rules.generator["kind"] != "leaves"


@pytest.fixture(scope="module")
def done() -> Synthesizer:
    """By the default rules, in fewer steps and with fewer samples."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(embedding_defaults, "LEAVES_STEPS", 30)
        changed.setitem(embedding_defaults.SCATTERED, "samples", 200)
        return made().fit(vault())


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
    done.save(tmp_path)
    assert "drawn discs and boxes" in write_report(tmp_path).read_text()
    again = Synthesizer.load(tmp_path)
    for given in ({}, {"labels": wanted}):
        assert all(
            np.array_equal(*both)
            for both in zip(again.sample(9, seed=4, **given), done.sample(9, seed=4, **given), strict=True)
        )


def test_light_is_learned_from_released_means() -> None:
    rules = Rules(CONFIG, 60, 8, 2e-2)
    lit = Synthesizer(50.0, 1e-5, shape=SHAPE, features=Fourier(DIM, 100, [8.0], 1), rules=rules, device="cpu", seed=3)
    lit.fit(vault(budget=(50.0, 1e-5)))
    # without a labeller a class is what was asked for
    x, y = lit.sample(200, labels=np.arange(200) % 2, seed=1)
    red = x.reshape(-1, *SHAPE)[..., 0].mean(axis=(1, 2)) - x.reshape(-1, *SHAPE)[..., 2].mean(axis=(1, 2))
    assert red[y == 0].mean() > 0.1 > -0.1 > red[y == 1].mean()


def test_a_class_that_no_sample_has_is_refused(done: Synthesizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privot.synthesis.fitted.labels_of", lambda labeller, x: torch.zeros(len(x), dtype=torch.int64))
    monkeypatch.setattr("privot.synthesis.fitted._MOST_TRIES", 2)
    with pytest.raises(UsageError, match="Hardly any sample is labelled 1"):
        done.sample(4, labels=[0, 0, 1, 0], seed=0)
