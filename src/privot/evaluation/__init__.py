"""The quality of synthetic data: train on it, test on real data. It takes arrays, never a vault.

Scores on a real test set are not private: they are as confidential as that set.
"""

from privot.common.extras import needing

with needing("Evaluation needs", "synthesis"):
    from privot.evaluation.classifiers import score
    from privot.evaluation.frechet import fid

__all__ = [
    "fid",
    "score",
]
