"""The method for related tables: noisy marginals of all of them are released once, and a model is fitted to each."""

from __future__ import annotations

from privot.synthesis.fitted import FittedRelated
from privot.synthesis.methods.table_method import TableMethod
from privot.synthesis.tabular.related.related_design import RelatedDesign


class RelatedMethod(TableMethod):
    """Noise at the counts of the cells of several tables, released once."""

    watched = "loss of the labels' models"
    designs = RelatedDesign
    fitted = FittedRelated
    follows = "related tables follows from their schemas"
