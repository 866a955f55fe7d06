"""What data is worth to a validation set: scores of one's own records, values of parties; it opens no vault.

Everything here is post-processing of releases (labelled sketches), or is computed from one's own records at home.
A *score* is of a record, and high is harmful; a *value* is of a party, and high is useful.
"""

from privot.valuation.party_values import Contributions, value_records, value_sketches
from privot.valuation.record_scores import Scores, score_by_records, score_by_sketch
from privot.valuation.shapley import CoalitionPlan

__all__ = [
    "CoalitionPlan",
    "Contributions",
    "Scores",
    "score_by_records",
    "score_by_sketch",
    "value_records",
    "value_sketches",
]
