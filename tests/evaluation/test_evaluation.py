"""Classifiers learn what can be learned and nothing from the test set; the Fréchet distance has closed forms."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from privot.errors import DataError, UsageError
from privot.evaluation import fid, score
from privot.evaluation.classifiers import CLASSIFIERS
from privot.evaluation.frechet import frechet_distance

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def images(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """8 × 8: class 0 bright on the left, class 1 on the right."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 2, n)
    x = 0.3 * generator.uniform(size=(n, 8, 8))
    x[y == 0, :, :4] += 0.4
    x[y == 1, :, 4:] += 0.4
    return 255 * x.reshape(n, 64), y


@pytest.mark.parametrize("name", list(CLASSIFIERS))
def test_each_classifier_learns_and_is_at_chance_without_a_signal(name: str) -> None:
    x, y = images(300, 1)
    x_test, y_test = images(300, 2)
    assert score(name, x, y, x_test, y_test, shape=(8, 8)) > 0.98
    shuffled = np.random.default_rng(3).permutation(y)
    assert score(name, x, shuffled, x_test, np.random.default_rng(4).permutation(y_test), shape=(8, 8)) < 0.65


def test_a_score_repeats_with_its_seed_and_does_not_use_the_test_labels() -> None:
    x, y = images(100, 1)
    x_test, y_test = images(200, 2)
    first = score("mlp", x, y, x_test, y_test, seed=5)
    assert score("mlp", x, y, x_test, y_test, seed=5) == first
    # the same model, since it was chosen without them: right and wrong change places
    assert score("mlp", x, y, x_test, 1 - y_test, seed=5) == pytest.approx(1 - first)


def test_logistic_regression_agrees_with_scikit_learn() -> None:
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    x, y = load_digits(return_X_y=True)
    ours = score("logreg", x[:1200], y[:1200], x[1200:], y[1200:])
    theirs = LogisticRegression(max_iter=500).fit(x[:1200] / 16, y[:1200]).score(x[1200:] / 16, y[1200:])
    assert abs(ours - theirs) < 0.03


def test_data_that_cannot_be_used_is_refused() -> None:
    x, y = images(100, 1)
    with pytest.raises(DataError):
        score("mlp", x, y, x[:, :5], y)
    with pytest.raises(DataError):
        score("mlp", x[:10], y[:10], x, y)
    with pytest.raises(UsageError):
        score("oracle", x, y, x, y)
    with pytest.raises(UsageError):
        score("cnn", x, y, x, y)


def test_frechet_distance_of_gaussians_with_a_closed_form() -> None:
    generator = np.random.default_rng(5)
    # commuting covariances: Σ (√λ − √μ)²
    basis, _ = np.linalg.qr(generator.standard_normal((6, 6)))
    a, b = generator.uniform(0, 3, 6), generator.uniform(0, 3, 6)
    gap = generator.standard_normal(6)
    expected = gap @ gap + ((np.sqrt(a) - np.sqrt(b)) ** 2).sum()
    assert frechet_distance(gap, (basis * a) @ basis.T, np.zeros(6), (basis * b) @ basis.T) == pytest.approx(expected)
    # general ones, against the defining square root
    from scipy.linalg import sqrtm

    c, d = (m @ m.T for m in generator.standard_normal((2, 4, 4)))
    expected = np.trace(c + d - 2 * np.real(sqrtm(c @ d)))
    assert frechet_distance(np.zeros(4), c, np.zeros(4), d) == pytest.approx(expected, rel=1e-6)
    assert frechet_distance(np.zeros(4), c, np.zeros(4), c) == pytest.approx(0.0, abs=1e-9)
    # singular, as with fewer images than features
    assert frechet_distance(np.zeros(2), np.zeros((2, 2)), np.ones(2), np.diag([1.0, 0.0])) == pytest.approx(3.0)


def test_fid_runs_a_network_from_a_file(tmp_path: Path) -> None:
    class Means(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, :, ::150, ::150].flatten(1)[:, :3] if x.shape[-1] == 299 else x.flatten(1)

    path = tmp_path / "network.pt"
    torch.jit.script(Means()).save(str(path))
    x, _ = images(40, 6)
    assert fid(x, x, (8, 8), path, span=(0.0, 255.0)) == pytest.approx(0.0, abs=1e-6)
    assert fid(x, x[:, ::-1] * 0.5, (8, 8), path, span=(0.0, 255.0)) > 0.01
    (tmp_path / "text").write_text("no network")
    with pytest.raises(DataError):
        fid(x, x, (8, 8), tmp_path / "text")


def test_a_network_gets_the_range_it_takes_and_may_come_in_a_package(tmp_path: Path) -> None:
    class Corner(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, :2, 0, 0]

    torch.jit.script(Corner()).save(str(tmp_path / "corner.pt"))
    package = tmp_path / "corner.whl"
    with zipfile.ZipFile(package, "w") as file:
        file.write(tmp_path / "corner.pt", "inside/corner.pt")
    dark, bright = np.zeros((30, 64)), np.ones((30, 64))
    # two constant features that differ by the length of the range: the distance is 2·length²
    assert fid(dark, bright, (8, 8), package) == pytest.approx(2 * 2.0**2)
    assert fid(dark, bright, (8, 8), package, takes=(0.0, 1.0)) == pytest.approx(2 * 1.0**2)
    with pytest.raises(UsageError):
        fid(dark, bright, (8, 8), package, takes=(1.0, 1.0))
    with zipfile.ZipFile(package, "a") as file:
        file.write(tmp_path / "corner.pt", "inside/other.pt")
    with pytest.raises(DataError, match="2 TorchScript"):
        fid(dark, bright, (8, 8), package)
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as file:
        file.write(tmp_path / "corner.pt", "inside/corner.pt")
    held = package.read_bytes()
    package.write_bytes(held[:100] + b"\xff" * 80 + held[180:])
    with pytest.raises(DataError, match="cannot be read"):
        fid(dark, bright, (8, 8), package)


def test_a_network_in_half_precision_gets_numbers_of_its_kind(tmp_path: Path) -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.by = torch.nn.Parameter(torch.full((2,), 3.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert x.dtype == self.by.dtype
            return x[:, :2, 0, 0] * self.by

    torch.jit.script(Scaled().half()).save(str(tmp_path / "half.pt"))
    dark, bright = np.zeros((30, 192)), np.full((30, 192), 255)
    assert fid(dark, bright, (8, 8, 3), tmp_path / "half.pt", span=(0.0, 255.0)) == pytest.approx(2 * 6.0**2)


@pytest.mark.parametrize("shape", [(8, 12), (8, 12, 1), (1, 8, 12), (8, 12, 3), (3, 8, 12)])
def test_a_network_gets_the_image_in_any_layout(tmp_path: Path, shape: tuple[int, ...]) -> None:
    class Seen(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([x[:, 0, 0, -1], x[:, 1, -1, 0], x[:, 2, -1, -1]], dim=1)

    torch.jit.script(Seen()).save(str(tmp_path / "seen.pt"))
    colours = np.array([3.0, 1.0, 2.0]) if 3 in shape else np.array([3.0])
    image = np.full((8, 12, len(colours)), -1.0)
    image[:4, 6:], image[4:, :6], image[4:, 6:] = colours, colours, colours
    image = image.transpose(2, 0, 1) if shape[0] in (1, 3) else image
    other = np.full(image.shape, -1.0)
    rows = [np.repeat(a.reshape(1, -1), 30, axis=0) for a in (image, other)]
    # black is -1 and white 3: what stands in the corners is 4, 2 and 3 quarters of the way, or all of it
    expected = (4 * (colours * np.ones(3) + 1.0) ** 2 / 4.0**2).sum()
    assert fid(*rows, shape, tmp_path / "seen.pt", span=(-1.0, 3.0)) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(UsageError, match="range of the images must rise"):
        fid(*rows, shape, tmp_path / "seen.pt", span=(3.0, 3.0))


def test_a_convolutional_classifier_takes_channels_first_and_last() -> None:
    generator = np.random.default_rng(0)
    y = np.arange(400) % 2
    images_ = generator.uniform(0.0, 0.5, (400, 8, 8, 3))
    # a bright column or a bright line: with the axes mixed up, neither
    images_[y == 0, :, 3] += 0.5
    images_[y == 1, 3] += 0.5
    first = images_.transpose(0, 3, 1, 2)
    found = [
        score("cnn", a[:300].reshape(300, -1), y[:300], a[300:].reshape(100, -1), y[300:], shape=s)
        for a, s in ((images_, (8, 8, 3)), (first, (3, 8, 8)))
    ]
    assert found[0] == found[1] > 0.9


@pytest.mark.parametrize("labels", [[-1, 0], [0.5, 1.0], [0, 10**12], [7, 8]])
def test_labels_that_no_classifier_can_get_right_are_refused(labels: list[float]) -> None:
    x = np.random.default_rng(0).random((40, 3))
    with pytest.raises(DataError, match="label"):
        score("logreg", x, np.arange(40) % 2, x[:2], np.array(labels))
