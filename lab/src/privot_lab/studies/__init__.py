"""Published tables and figures, recomputed: each study compares its results with the sentences of the paper.

Studies read open data sets only. One that trains on records does so through a vault, like any user.
"""

from privot_lab.studies.study import Study, StudyFinding, StudyVerdict
from privot_lab.studies.study_list import STUDIES, find_study
from privot_lab.studies.study_run import StudyRun

__all__ = ["STUDIES", "Study", "StudyFinding", "StudyRun", "StudyVerdict", "find_study"]
