"""Kernel ridge regression on one's own records, with the prediction for each record made without that record.

With the kernel k(x, x′) = exp(−‖x − x′‖²/h), h the median squared distance, targets t and K = V diag(w) Vᵀ,

    f = H t,   H = V diag(w/(w + λ)) Vᵀ,   f₋ᵢ = (f_i − H_ii t_i)/(1 − H_ii)

(Allen 1974, "The relationship between variable selection and data augmentation"): a record's own target has no part in
its prediction, so a wrong label does not speak for itself. More than `MAX_LANDMARKS` records are described by their
kernel with that many of them (Williams & Seeger 2001, "Using the Nyström method to speed up kernel machines"). It sees
numbers only, and opens no vault.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from privot.valuation.labelled_records import Array

MAX_LANDMARKS = 1000
RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Values of λ to choose from; k(x, x) is 1."""
MIN_LEFT = 1e-6
"""Least 1 − H_ii, and least eigenvalue of the landmarks' kernel as a share of the largest."""


class KernelRidge:
    """The spectrum of the kernel of records x (n, d), from which predictions follow for any targets and any λ.

    >>> x = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> targets = np.array([[1.0], [-1.0], [1.0], [-1.0], [-1.0], [-1.0]])
    >>> bool(KernelRidge(x).left_out(targets, 0.1)[1, 0] > 0.5)
    True
    """

    def __init__(self, x: Array) -> None:
        many = len(x)
        at = np.arange(many)
        if many > MAX_LANDMARKS:
            at = np.sort(np.random.default_rng(0).choice(many, MAX_LANDMARKS, replace=False))
        square = cdist(x, x[at], "sqeuclidean")
        # where more than half of all records are equal, any distance that occurs is a scale
        scale = float(np.median(square)) or float(square.mean()) or 1.0
        kernel = np.exp(square / -scale)
        size, vectors = np.linalg.eigh(kernel[at])
        kept = size > MIN_LEFT * size[-1]
        features = kernel @ (vectors[:, kept] / np.sqrt(size[kept]))
        size, vectors = np.linalg.eigh(features.T @ features)
        self.size = np.maximum(size, MIN_LEFT)
        self.vectors = features @ (vectors / np.sqrt(self.size))

    def left_out(self, targets: Array, ridge: float) -> Array:
        """f₋ᵢ of every record, for targets (n, k)."""
        kept = self.size / (self.size + ridge)
        own = np.minimum(self.vectors**2 @ kept, 1.0 - MIN_LEFT)[:, None]
        whole = (self.vectors * kept) @ (self.vectors.T @ targets)
        return np.asarray((whole - own * targets) / (1.0 - own))

    def best_ridge(self, targets: Array) -> float:
        """λ of the least squared error of f₋ᵢ."""
        return min(RIDGES, key=lambda ridge: float(((self.left_out(targets, ridge) - targets) ** 2).sum()))
