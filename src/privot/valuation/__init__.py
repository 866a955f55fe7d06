"""What data is worth to a validation set: scores of one's own records, values of parties; it opens no vault.

Everything here is post-processing of releases (labelled sketches), or is computed from one's own records at home.
A *score* is of a record, and high is harmful; a *value* is of a party, and high is useful.
"""

from privot.valuation.parties import Contributions, value_records, value_sketches
from privot.valuation.points import Scores, score_by_records, score_by_sketch
from privot.valuation.shapley import Plan

__all__ = [
    "Contributions",
    "Plan",
    "Scores",
    "score_by_records",
    "score_by_sketch",
    "value_records",
    "value_sketches",
]
