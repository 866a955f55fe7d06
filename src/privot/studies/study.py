"""The list of studies, and what each consists of. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from privot.errors import UnprovenError, UsageError, brief


@dataclass(frozen=True)
class StudyFinding:
    """One sentence of the published text, the measured result, and whether they agree."""

    text: str
    measured: str
    agrees: bool

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"text": self.text, "measured": self.measured, "agrees": self.agrees}


@dataclass(frozen=True)
class Study:
    """A published figure or table: `run` computes it, `draw` draws the result."""

    name: str
    title: str
    source: str
    module: str
    trains: bool = False
    """Whether it runs an unproven mechanism on records, which needs allow_unproven."""

    def run(self, options: Mapping[str, Any], *, allow_unproven: bool = False) -> dict[str, Any]:
        """Compute it; returns plain JSON types. Raises `UnprovenError` if `allow_unproven` is needed and not set."""
        if self.trains and allow_unproven is not True:
            raise UnprovenError(
                f"The study {self.name} runs a mechanism that has no theorem: set allow_unproven to run it."
            )
        compute: Callable[..., dict[str, Any]] = import_module(self.module).compute
        return {"study": self.name, "title": self.title, "source": self.source, **compute(self.name, **options)}

    def draw(self, found: Mapping[str, Any], out: Path) -> list[Path]:
        """Draw a result of `run` into the folder `out`; returns the files."""
        out.mkdir(parents=True, exist_ok=True)
        drawn: list[Path] = import_module(self.module).draw(found, out)
        return drawn


_WDP = "Yang, Qi & Zhou 2024, Wasserstein differential privacy"
STUDIES: tuple[Study, ...] = (
    Study("wdp-figure-1", "Budgets of Laplace and Gaussian noise against the order", _WDP, "privot.studies.wdp_orders"),
    Study("wdp-figure-2", "Composition over Weibull gradients, not clipped", _WDP, "privot.studies.wdp_composition"),
    Study("wdp-figure-3", "The accounted budget against β and δ", _WDP, "privot.studies.wdp_knobs"),
    Study("wdp-figure-4", "Composition over Weibull gradients, clipped", _WDP, "privot.studies.wdp_composition"),
    Study("wdp-table-2", "One training run, every accountant's budget", _WDP, "privot.studies.wdp_training", True),
)


def find_study(name: str) -> Study:
    """The study called `name`."""
    for study in STUDIES:
        if study.name == name:
            return study
    raise UsageError(f"There is no study {brief(name)}: use one of {', '.join(s.name for s in STUDIES)}.")
