"""Tables of a result, published beside ours: what a page shows and the command line prints beneath the claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from privot_lab.studies.study import Study

Found = Mapping[str, Any]
"""The result of a study, plain JSON types."""
_MODULES = {
    "dp-sinkhorn": "privot_lab.studies.dp_sinkhorn.sinkhorn_tables",
    "dp-swd": "privot_lab.studies.dp_swd.swd_tables",
    "triangle-wad": "privot_lab.studies.triangle_wad.triangle_tables",
    "wdp": "privot_lab.studies.wdp.wdp_tables",
    "privot": "privot_lab.studies.product.product_tables",
}
"""By paper: the module whose TABLES has a function for every study that ends in a table."""


@dataclass(frozen=True)
class ResultTable:
    """A title, the names of the columns, and rows of text."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Maker = Callable[[Found], "list[ResultTable]"]


def tables_of(study: Study, found: Found) -> list[ResultTable]:
    """The tables of a result; none where the study ends in a figure or in one number."""
    module = _MODULES.get(study.paper.key)
    makers: Mapping[str, Maker] = {} if module is None else import_module(module).TABLES
    return makers[study.name](found) if study.name in makers else []


def shares(found: Sequence[Mapping[str, Any]], name: str) -> str:
    """Mean over seeds of a share, in per cent, with its standard deviation if there are several; "–" without any.

    >>> shares([{"mlp": 0.81}, {"mlp": 0.83}], "mlp"), shares([{"mlp": 0.8}], "mlp"), shares([], "cnn")
    ('82.0 ± 1.4', '80.0', '–')
    """
    return spread([100.0 * float(each[name]) for each in found if each.get(name) is not None])


def spread(values: Sequence[float], digits: int = 1) -> str:
    """The mean of some values and, of several, their standard deviation.

    >>> spread([1.0, 2.0, 3.0]), spread([2.5]), spread([])
    ('2.0 ± 1.0', '2.5', '–')
    """
    if not values:
        return "–"
    mean = f"{float(np.mean(values)):.{digits}f}"
    return f"{mean} ± {float(np.std(values, ddof=1)):.{digits}f}" if len(values) > 1 else mean


def plain(value: float | None, digits: int = 4) -> str:
    """A number in few digits; "–" for None.

    >>> plain(0.123456), plain(None), plain(12345.6)
    ('0.1235', '–', '1.235e+04')
    """
    return "–" if value is None else f"{value:.{digits}g}"


def printed(values: Sequence[float] | None) -> str:
    """Published numbers as papers print them; "–" where there are none.

    >>> printed((82.8, 82.7)), printed(None)
    ('82.8 / 82.7', '–')
    """
    return "–" if values is None else " / ".join(f"{value:g}" for value in values)
