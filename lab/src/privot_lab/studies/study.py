"""What a study is: a published item, the settings it runs with, and findings with a verdict each. Nothing is computed
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

Mode = Literal["quick", "full"]
MODES: tuple[Mode, ...] = ("quick", "full")


class StudyVerdict(StrEnum):
    """What came of one claim."""

    REPRODUCED = "reproduced"
    CORRECTED = "reproduced with the corrected method"
    NOT_REPRODUCED = "not reproduced"
    REFUTED = "refuted"
    CANNOT_RUN = "cannot be run"


@dataclass(frozen=True)
class StudyFinding:
    """One claim of the published text, the measured result, and the verdict.

    Parameters
    ----------
    text : the claim, in plain words.
    measured : our result.
    verdict : what came of it; `True` and `False` stand for reproduced and not reproduced.
    published : the published numbers, where the claim is one about numbers.
    why : the reason of a verdict that is not "reproduced".

    >>> str(StudyFinding("ε grows with μ", "from 0.5 to 0.7", True).verdict)
    'reproduced'
    """

    text: str
    measured: str
    verdict: StudyVerdict | bool
    published: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        """True and False become verdicts."""
        if not isinstance(self.verdict, StudyVerdict):
            judged = StudyVerdict.REPRODUCED if self.verdict else StudyVerdict.NOT_REPRODUCED
            object.__setattr__(self, "verdict", judged)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {**vars(self), "verdict": str(self.verdict)}


@dataclass(frozen=True)
class Paper:
    """A published document."""

    key: str
    """With which the names of its studies begin."""
    citation: str


@dataclass(frozen=True)
class Study:
    """A published item; `module` has SETTINGS of both modes, `compute` and `draw`."""

    name: str
    paper: Paper
    item: str
    title: str
    module: str
    minutes: tuple[float, float]
    """About how long it takes: quick on two cores, full on the machine that `full_on` names."""
    full_on: Literal["CPU", "GPU"] = "CPU"
    needs: tuple[str, ...] = ()
    """Data sets that the full mode reads; the quick mode needs none unless `quick_needs` says so."""
    quick_needs: tuple[str, ...] = ()
    fid: bool = False
    """Whether it computes FID where the network of FID lies beside the data sets."""

    def settings(self, mode: Mode) -> dict[str, Any]:
        """What it runs with."""
        held: Mapping[Mode, Mapping[str, Any]] = import_module(self.module).SETTINGS
        return dict(held[mode])

    def needed(self, mode: Mode) -> tuple[str, ...]:
        """The data sets that a mode reads."""
        return self.needs if mode == "full" else self.quick_needs

    def draw(self, found: Mapping[str, Any], out: Path) -> list[Path]:
        """Draw a result into the folder `out`; returns the files, whose names begin with the study's."""
        out.mkdir(parents=True, exist_ok=True)
        drawn: list[Path] = import_module(self.module).draw(found, out)
        return drawn
