"""Denoises released class means by what public images look like: post-processing of a release; no record comes here.

Features of images are no arbitrary vectors: most directions of feature space hardly vary between images of any kind,
and what noise says there can be told from what images say. The class means are given the prior

    μ_c ~ N(m_c, τ²Σ),

Σ the covariance of the features of public images and m_c their mean: of all of them, or of those with label c. The
release is μ̃_c = μ_c + s_c·ξ with known s_c, so the posterior mean is a linear filter (Wiener 1949),

    μ̂_c = m_c + τ²Σ(τ²Σ + s_c²I)⁻¹(μ̃_c − m_c),

and its one free number τ², like the choice of m_c, is what gives the release the largest likelihood (empirical Bayes;
Efron & Morris 1973). Where noise is small against Σ the filter is the identity; where public images are unlike the
records τ² is large, and little is filtered: nobody has to say how alike they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.errors import DataError
from privot.mechanisms.embedding import FeatureMap
from privot.synthesis.public.public_images import PublicImages

MAX_IMAGES = 2_000
"""Images that Σ is taken from, at most: half of them give directions, the others the variance along each."""
_SPREADS = 10.0 ** np.linspace(-4.0, 4.0, 161)
"""The values of τ² among which the likeliest is taken."""
_BLOCK = 250
"""Images whose features are computed at once."""


@dataclass(frozen=True, eq=False)
class Prior:
    """Prior means m_c of shape (classes, size), orthonormal directions (size, rank), the variance of each, and the
    variance of every direction orthogonal to them."""

    means: NDArray[np.float64]
    directions: NDArray[np.float64]
    variances: NDArray[np.float64]
    rest: float

    def denoised(
        self, means: NDArray[np.float64], noise: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float, float, float]:
        """μ̂ for released `means` with the noise s_c per coordinate, τ², the log-likelihood, and the share of
        coordinates that was kept, the mean of the filter's eigenvalues.
        """
        apart = means - self.means
        along = apart @ self.directions
        across = apart - along @ self.directions.T
        left = self.directions.shape[0] - len(self.variances)
        seen, unseen, s2 = along**2, (across**2).sum(axis=1), noise[:, None] ** 2

        def likelihood(spread: float) -> float:
            v, w = spread * self.variances + s2, spread * self.rest + s2[:, 0]
            return -0.5 * float((np.log(v) + seen / v).sum() + (left * np.log(w) + unseen / w).sum())

        found = max(_SPREADS, key=likelihood)
        v, w = found * self.variances, found * self.rest
        keep, keep_rest = v / (v + s2), w / (w + s2)
        share = float((keep.sum(axis=1) + left * keep_rest[:, 0]).mean() / len(self.directions))
        out = self.means + (keep * along) @ self.directions.T + keep_rest * across
        return out, float(found), likelihood(found), share


@dataclass(frozen=True)
class PublicUse:
    """What a synthesis made of public images, for its report."""

    digest: str
    images: int
    by_class: bool
    """Whether the prior means are those of the classes, or of all images."""
    spread: float
    """τ²."""
    kept: float
    """The share of the released numbers that the filter kept; 1: nothing was filtered."""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any] | None) -> PublicUse | None:
        """Read what `to_dict` wrote; None where there is none."""
        if fields is None:
            return None
        try:
            return cls(
                str(fields["digest"]),
                int(fields["images"]),
                bool(fields["by_class"]),
                float(fields["spread"]),
                float(fields["kept"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            raise DataError("This does not describe a use of public images.") from None


def denoise(
    features: FeatureMap, means: NDArray[np.float64], noise: NDArray[np.float64], public: PublicImages, device: str
) -> tuple[NDArray[np.float64], PublicUse]:
    """Released class `means` (classes, size) with noise of `noise` (classes,) per coordinate, denoised by public
    images; and what was done.

    The means of public classes are tried only where there are as many as the records have, and used where that makes
    the release more likely: equal numbers of classes need not be the same classes.
    """
    classes = len(means)
    phi = public_features(features, public, device)
    prior = prior_of(phi, classes)
    found = [(False, prior.denoised(means, noise))]
    if public.y is not None and public.classes == classes > 1:
        labels = public.y[_used(len(public))]
        if np.bincount(labels, minlength=classes).all():
            own = np.stack([phi[labels == c].mean(axis=0) for c in range(classes)])
            found.append((True, replace(prior, means=own).denoised(means, noise)))
    by_class, (filtered, spread, _, kept) = max(found, key=lambda each: each[1][2])
    return filtered, PublicUse(public.digest, len(public), by_class, spread, kept)


def prior_of(phi: NDArray[np.float64], classes: int) -> Prior:
    """The prior of `classes` class means from features of images, (images, size), all with the mean of all images.

    Directions are the principal ones of every other image, and variances those of the other half along them: the
    variance of the first half along its own directions would be too large.
    """
    mean = phi.mean(axis=0)
    first, second = phi[::2] - mean, phi[1::2] - mean
    # of the smaller of the two products: thousands of features, or thousands of images
    values, vectors = np.linalg.eigh(first @ first.T)
    known = values > 1e-9 * values[-1] if values[-1] > 0.0 else np.zeros(len(values), dtype=bool)
    directions = first.T @ (vectors[:, known] / np.sqrt(values[known]))
    # again orthonormal to the last bits, which small values have lost
    directions, _ = np.linalg.qr(directions)
    along = second @ directions
    variances = (along**2).mean(axis=0)
    left = phi.shape[1] - directions.shape[1]
    rest = float(((second**2).sum(axis=1) - (along**2).sum(axis=1)).mean()) / left if left else 0.0
    return Prior(np.tile(mean, (classes, 1)), directions, variances, max(rest, 0.0))


def public_features(features: FeatureMap, public: PublicImages, device: str) -> NDArray[np.float64]:
    """φ of at most `MAX_IMAGES` public images, evenly chosen, in float64."""
    rows = torch.from_numpy(public.x[_used(len(public))].astype(np.float32))
    with torch.no_grad():
        found = [features.features(rows[i : i + _BLOCK].to(device)).cpu() for i in range(0, len(rows), _BLOCK)]
    out: NDArray[np.float64] = torch.cat(found).double().numpy()
    return out


def _used(images: int) -> NDArray[np.int64]:
    """The images that are used: all, or as many as `MAX_IMAGES` at equal distances."""
    return np.unique(np.linspace(0, images - 1, min(images, MAX_IMAGES)).astype(np.int64))
