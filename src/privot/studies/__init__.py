"""Published tables and figures beside ours: each study recomputes one and says whether its text is borne out."""

from privot.studies.study import STUDIES, Study, StudyFinding, find_study

__all__ = ["STUDIES", "Study", "StudyFinding", "find_study"]
