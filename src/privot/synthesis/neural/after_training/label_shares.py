"""Offsets of a classifier's scores with which samples get the released shares of the classes: a transport problem.

A classifier that was tuned on records meets samples that look a little different, and calls too many of them by a few
names. The shares of the classes are released, so labels can be matched to them: the plan of greatest score that takes
the samples to the classes in these shares (semi-discrete optimal transport, Peyré & Cuturi 2019, chapter 5). It gives
sample i the class c with the largest S_ic + b_c, where b maximises the dual problem Σ_c w_c b_c − mean_i max_c (S_ic +
b_c). This is post-processing of what was released.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

_ROUNDS = 300
_FIRST, _LAST, _COOLING = 0.5, 0.02, 0.97
"""Temperatures of the softened maximum, in standard deviations of the scores."""
_LEAST = 1e-4
"""The least share of a class: where noise made a count negative, hardly a sample gets its name."""


def share_offsets(scores: torch.Tensor, weights: NDArray[Any]) -> NDArray[np.float64]:
    """b with which column c of `scores` + b is the largest in about the share w_c of the rows.

    Parameters
    ----------
    scores
        (rows, classes), finite.
    weights
        Numbers of records by class, (classes,); negative ones count as zero, and shares follow from them.

    Returns
    -------
    NDArray
        (classes,), of mean 0; zeros where all scores are the same or no weight is positive.

    Examples
    --------
    >>> scores = torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0]])
    >>> b = share_offsets(scores, np.array([5.0, 5.0]))
    >>> (scores + torch.as_tensor(b)).argmax(dim=1).tolist()
    [0, 0, 1, 1]
    """
    s = scores.detach().double().cpu()
    w = np.clip(np.asarray(weights, dtype=np.float64), 0.0, None)
    b = torch.zeros(s.shape[1], dtype=torch.float64)
    # what a row has in common changes no order
    s = s - s.mean(dim=1, keepdim=True)
    unit = float(s.square().mean().sqrt()) if len(s) else 0.0
    if not (0.0 < unit < float("inf") and 0.0 < w.sum() < np.inf):
        return b.numpy()
    shares = np.maximum(w / w.sum(), _LEAST)
    wanted = torch.from_numpy(np.log(shares / shares.sum()))
    temperature = _FIRST
    for _ in range(_ROUNDS):
        found = torch.log_softmax((s / unit + b) / temperature, dim=1).logsumexp(dim=0) - float(np.log(len(s)))
        # one round of Sinkhorn's algorithm: rows are normalised by the softmax, columns by this
        b = b + temperature * (wanted - found)
        temperature = max(_LAST, _COOLING * temperature)
    out: NDArray[np.float64] = (unit * (b - b.mean())).numpy()
    return out
