"""How good synthetic data is: train on it, test on real data. It takes files, never a vault, and chooses nothing.

What it says about a real test set is not private: the answer is as confidential as that set is.
"""

from privot.common.extras import needing

with needing("Evaluation needs", "synthesis"):
    from privot.evaluation.classifiers import CLASSIFIERS, score
    from privot.evaluation.frechet import fid, frechet_distance

__all__ = ["CLASSIFIERS", "fid", "frechet_distance", "score"]
