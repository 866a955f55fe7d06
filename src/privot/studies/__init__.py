"""Published tables and figures, recomputed: each study compares its results with the sentences of the paper.

A study that trains does so through a vault, like any user.
"""

from privot.studies.study import STUDIES, Study, StudyFinding, find_study

__all__ = ["STUDIES", "Study", "StudyFinding", "find_study"]
