"""What somebody may set on the page: its fields with their bounds, and a checked request; it computes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privot.errors import UsageError, brief


@dataclass(frozen=True)
class Field:
    """One number of the form: its label, a hint, its bounds, its first value, and whether it is a whole number.

    `slider` are the ends of the slider, which moves by powers of ten where `log` is set. The number beside it may go
    beyond them, up to `least` and `most`.
    """

    label: str
    hint: str
    least: float
    most: float
    first: float
    slider: tuple[float, float]
    whole: bool = True
    log: bool = True


FIELDS = {
    "epsilon": Field("ε", "What the release may cost; smaller is more private.", 1e-6, 1e4, 1.0, (0.01, 100.0), False),
    "delta": Field(
        "δ", "Probability that the promise of ε fails; far below 1 / records.", 1e-15, 0.5, 1e-6, (1e-10, 0.01), False
    ),
    "records": Field("Records", "How many there are, or about how many.", 1, 10**12, 10_000, (10, 1e8)),
    "columns": Field("Columns", "Numbers per record: columns of a table, pixels of an image.", 1, 10**6, 16, (1, 4096)),
    "classes": Field("Classes", "Labels, or bins of a histogram.", 1, 10_000, 10, (1, 1000)),
    "batch": Field("Batch", "Records per step.", 1, 10**12, 100, (1, 1e5)),
    "epochs": Field("Epochs", "Passes over all records.", 1e-3, 10**6, 10.0, (0.1, 1000.0), False),
    "slices": Field("Slices", "Random directions per step.", 1, 10**6, 100, (1, 10_000)),
    "low": Field("Lowest value", "Public; what is below counts as it.", -1e9, 1e9, 0.0, (-100.0, 100.0), False, False),
    "high": Field("Highest value", "Public; what is above counts as it.", -1e9, 1e9, 100.0, (0.0, 1e3), False, False),
    "person": Field("Records of one person", "At most; the unit of the promise is one record.", 1, 1000, 1, (1, 100)),
}  # fmt: skip
"""By name, in the order of the form."""


@dataclass(frozen=True)
class Kind:
    """Something that may be planned: its name on the page, the fields it uses, and the neighbours it works under."""

    label: str
    fields: tuple[str, ...]
    clipping: bool = False


_BUDGET = ("epsilon", "delta", "records")
KINDS = {
    "mean": Kind("The mean of a column", (*_BUDGET, "low", "high", "person")),
    "count": Kind("A count", (*_BUDGET, "person")),
    "histogram": Kind("A histogram", (*_BUDGET, "classes", "person")),
    "table": Kind("A synthetic table", (*_BUDGET, "columns", "classes", "person")),
    "images": Kind("Synthetic images", (*_BUDGET, "columns", "classes", "person")),
    "embedding": Kind("An embedding, released once", (*_BUDGET, "person")),
    "projection": Kind(
        "Training on noisy projections", (*_BUDGET, "columns", "slices", "batch", "epochs", "person")
    ),
    "gradient": Kind("Training on noisy gradients", (*_BUDGET, "batch", "epochs", "person"), clipping=True),
}  # fmt: skip
"""By name, in the order of the form."""

ADJACENCIES = {"add-remove": "one record more or less", "replace-one": "one record replaced by another"}
CLIPPINGS = {"per-example": "each example's gradient (DP-SGD)", "matrix": "the whole matrix (DP-Sinkhorn)"}


@dataclass(frozen=True)
class Settings:
    """A request that was checked: whole numbers are whole, and everything lies within the bounds of its field."""

    kind: str
    adjacency: str
    epsilon: float
    delta: float
    records: int
    columns: int
    classes: int
    batch: int
    epochs: float
    slices: int
    low: float
    high: float
    person: int
    clipping: str = "per-example"


def read_settings(asked: object) -> Settings:
    """The settings of a request; fields that its kind does not use may be left out, and are at their first value.

    >>> asked = {"kind": "count", "adjacency": "add-remove", "epsilon": 2, "delta": 1e-6, "records": 50, "person": 1}
    >>> read_settings(asked).epsilon
    2.0
    """
    if not isinstance(asked, Mapping):
        raise UsageError("A request must be an object of settings.")
    odd = sorted(str(name) for name in asked if name not in {"kind", "adjacency", "clipping", *FIELDS})
    if odd:
        raise UsageError(f"Unknown setting {brief(odd[0])}.")
    kind = _one_of("what is planned", asked.get("kind"), KINDS)
    adjacency = _one_of("which data sets are neighbours", asked.get("adjacency"), ADJACENCIES)
    clipping = _one_of("what is clipped", asked.get("clipping", "per-example"), CLIPPINGS)
    numbers: dict[str, Any] = {}
    for name, field in FIELDS.items():
        if name in KINDS[kind].fields and name not in asked:
            raise UsageError(f"{field.label} is missing.")
        numbers[name] = _number(field, asked.get(name, field.first))
    return Settings(kind=kind, adjacency=adjacency, clipping=clipping, **numbers)


def _one_of(what: str, value: object, known: Mapping[str, object]) -> str:
    if not isinstance(value, str) or value not in known:
        got = "nothing is chosen" if value is None else f"got {brief(value)}"
        raise UsageError(f"Choose {what}: {' or '.join(known)}; {got}.")
    return value


def _number(field: Field, value: object) -> float | int:
    # what is no number, and infinity, lie within no bounds
    if isinstance(value, bool) or not isinstance(value, int | float) or not field.least <= value <= field.most:
        raise UsageError(f"{field.label} must be a number from {field.least:g} to {field.most:g}, got {brief(value)}.")
    if not field.whole:
        return float(value)
    if value != int(value):
        raise UsageError(f"{field.label} must be a whole number, got {brief(value)}.")
    return int(value)
