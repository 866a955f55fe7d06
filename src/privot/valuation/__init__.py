"""The value of data to a validation set: scores of one's own records, and values of parties. It opens no vault.

Everything here is post-processing of releases (labelled sketches), or is computed locally from one's own records.
A *score* belongs to a record, and high is harmful; a *value* belongs to a party, and high is useful. Labelled records
are a tuple `(x, y)`: numbers (records, columns) and whole numbers (records,).
"""

from privot.valuation.label_scores import score_labels_by_sketch
from privot.valuation.party_values import value_records, value_sketches
from privot.valuation.record_scores import score_by_records, score_by_sketch

__all__ = [
    "score_by_records",
    "score_by_sketch",
    "score_labels_by_sketch",
    "value_records",
    "value_sketches",
]
