"""What is public about one column of a table: its type, range, categories and whether values may be missing."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any, ClassVar, Literal

from privot.errors import DataError, UsageError, brief

Type = Literal["continuous", "integer", "categorical", "ordinal", "date", "boolean"]
Scale = Literal["auto", "linear", "log", "quantile"]
Unknown = Literal["refuse", "other"]

TYPES = ("continuous", "integer", "categorical", "ordinal", "date", "boolean")
NUMBERS = ("continuous", "integer", "date")
"""Types whose values lie on a line between `low` and `high`."""
OTHER = "other"
"""What an unknown category becomes where the schema says so."""
SCALES = ("auto", "linear", "log", "quantile")
MAX_QUANTILES = 999
MAX_FORMAT = 100
"""Characters of the format of a date."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST = 2.0**53


@dataclass(frozen=True)
class Column:
    """One column. `low` and `high` are public knowledge about what the column *can* hold, never read off the data.

    `type` continuous, integer or date: values are clamped to [`low`, `high`]. `scale` says where cells are cut: "auto"
    by noisy counts over a fine grid, "linear" evenly, "log" evenly in the logarithm (incomes, counts), or "quantile"
    where `quantiles` of such values are public knowledge: k rising numbers that cut them into k + 1 parts of about
    equal size. `decimals` rounds continuous output. Dates are read and written in
    `format`.
    categorical or ordinal: one of `categories` (in order, for ordinal); an unknown one is refused, or becomes "other".
    boolean: `categories` are the two words for no and yes, as they are written: (0, 1), ("no", "yes"), ("false",
    "true") unless given. Other usual words are read too; these are what comes out.
    `missing` says whether a value may be missing.
    """

    stable_name: ClassVar[str] = "privot.tables.columns.Column"

    name: str
    type: Type
    low: float | None = None
    high: float | None = None
    categories: tuple[str | int, ...] = ()
    missing: bool = False
    scale: Scale = "auto"
    unknown: Unknown = "refuse"
    decimals: int | None = None
    format: str = "%Y-%m-%d"
    quantiles: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise UsageError("Every column of a schema needs a name.")
        if self.type not in TYPES:
            raise UsageError(f"{self._who} has the unknown type {brief(self.type)}: say one of {', '.join(TYPES)}.")
        if not isinstance(self.missing, bool):
            raise UsageError(f"{self._who} must have true or false for missing.")
        if not isinstance(self.format, str) or len(self.format) > MAX_FORMAT:
            raise UsageError(f"{self._who} must have a text of at most {MAX_FORMAT} characters for its format.")
        if self.type in NUMBERS:
            self._check_range()
        else:
            self._check_categories()

    @property
    def _who(self) -> str:
        return f"Column {brief(self.name)}"

    @property
    def is_number(self) -> bool:
        """Whether values lie on a line."""
        return self.type in NUMBERS

    @property
    def is_whole(self) -> bool:
        """Whether values are whole numbers (days and seconds are)."""
        return self.type in ("integer", "date")

    @property
    def is_false_or_true(self) -> bool:
        """Whether it is boolean in the words false and true, however they begin: what a library's own booleans are."""
        return self.type == "boolean" and tuple(str(word).lower() for word in self.categories) == ("false", "true")

    @property
    def words(self) -> tuple[str | int, ...]:
        """All categories, with "other" last where it may appear."""
        return (*self.categories, OTHER) if self.unknown == "other" else self.categories

    @property
    def range(self) -> tuple[float, float]:
        """`low` and `high`, as numbers; days or seconds since 1970 for a date."""
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high

    def _check_range(self) -> None:
        if self.categories or self.unknown != "refuse":
            raise UsageError(f"{self._who} is of type {self.type}: it has a range and no categories.")
        if self.type == "date":
            self._check_format()
        for name in ("low", "high"):
            value: Any = getattr(self, name)
            if self.type == "date" and isinstance(value, str):
                try:
                    value = self.to_number(datetime.strptime(value, self.format))
                except (ValueError, TypeError):
                    raise UsageError(f"{self._who} has a {name} that is not a date in its format.") from None
            if self.type == "date" and isinstance(value, date):
                raise UsageError(f"{self._who} has a {name} that is no text: put the date in quotes.")
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LARGEST:
                raise UsageError(f"{self._who} needs a public {name} value: state one that no record can exceed.")
            if self.is_whole and value != math.floor(value):
                raise UsageError(f"{self._who} holds whole numbers: its {name} must be one too.")
            if self.type == "date":
                try:
                    # as its schema is written and read again
                    datetime.strptime(self.to_date(value).strftime(self.format), self.format)
                except (OverflowError, ValueError):
                    raise UsageError(f"{self._who} has a {name} outside the calendar: write it as a date.") from None
            object.__setattr__(self, name, float(value))
        low, high = self.range
        if not low <= high:
            raise UsageError(f"{self._who} has a low above its high: swap them.")
        if self.scale not in SCALES:
            raise UsageError(f"{self._who} has the unknown scale {brief(self.scale)}: say {', '.join(SCALES)}.")
        self._check_quantiles()
        if self.decimals is not None and (
            isinstance(self.decimals, bool) or not isinstance(self.decimals, int) or not 0 <= self.decimals <= 15
        ):
            raise UsageError(f"{self._who} must round to 0 to 15 decimals.")

    def _check_format(self) -> None:
        """Whether dates can be read in the format: Python makes a pattern with one group for each part of a date."""
        twice = False
        try:
            datetime.strptime("", self.format)
        except re.error:
            twice = True
        except ValueError:
            # no empty text is a date; what the format says is asked with `low` and `high`
            pass
        if twice:
            raise UsageError(f"{self._who} has a format that names a part of the date twice: name each part once.")

    def _check_quantiles(self) -> None:
        values: Any = self.quantiles
        if self.scale != "quantile":
            if values != ():
                raise UsageError(f"{self._who} has quantiles: declare the scale quantile, or leave them out.")
            return
        if self.type == "date" or not isinstance(values, tuple) or not 1 <= len(values) <= MAX_QUANTILES:
            raise UsageError(f"{self._who} needs 1 to {MAX_QUANTILES} public quantiles for this scale, and no dates.")
        if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
            raise UsageError(f"{self._who} has a quantile that is not a number.")
        low, high = self.range
        if not all(a < b for a, b in pairwise((low, *values, high))):
            raise UsageError(f"{self._who} has quantiles that do not rise between its low and its high.")
        object.__setattr__(self, "quantiles", tuple(float(v) for v in values))

    def _check_categories(self) -> None:
        ranged = self.low is not None or self.high is not None or self.decimals is not None
        if ranged or self.scale != "auto" or self.quantiles != ():
            raise UsageError(f"{self._who} is of type {self.type}: it has categories and no range.")
        if self.type == "boolean" and not self.categories:
            object.__setattr__(self, "categories", ("false", "true"))
        words = self.categories
        if not isinstance(words, tuple) or not words:
            raise UsageError(f"{self._who} needs its public categories: list all that can occur.")
        if not all(isinstance(w, str | int) and not isinstance(w, bool) for w in words):
            raise UsageError(f"{self._who} has a category that is neither text nor a whole number.")
        if any(str(w) != str(w).strip() for w in words):
            raise UsageError(f"{self._who} has a category that begins or ends with a space: cells are read without.")
        if len({str(w) for w in words}) != len(words):
            raise UsageError(f"{self._who} names a category twice.")
        if self.type == "boolean" and len(words) != 2:
            raise UsageError(f"{self._who} is boolean: it has two words, for no and for yes.")
        if self.unknown not in ("refuse", "other"):
            raise UsageError(f"{self._who} must have refuse or other for unknown categories.")
        if self.unknown == "other" and (self.type == "boolean" or OTHER in words):
            raise UsageError(f"{self._who} cannot have a further category called other.")

    def to_number(self, moment: date) -> float:
        """Days since 1970 for a date, or seconds where the format has a time of day."""
        when = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)
        past = when.replace(tzinfo=UTC) - _EPOCH
        return float(past.days) if self.daily else float(past.days * 86400 + past.seconds)

    def to_date(self, number: float) -> date:
        """The date (or the moment, where the format has a time of day) `number` days (or seconds) after 1970."""
        if self.daily:
            return (_EPOCH + timedelta(days=round(number))).date()
        return (_EPOCH + timedelta(seconds=round(number))).replace(tzinfo=None)

    @property
    def daily(self) -> bool:
        """Whether a date has no time of day."""
        return not any(mark in self.format for mark in ("%H", "%I", "%M", "%S", "%p", "%X", "%c", "%T", "%R"))

    def to_dict(self) -> dict[str, Any]:
        """The column as plain JSON types; what is left out has its default."""
        out: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("name", "type") or value != field.default:
                out[field.name] = list(value) if isinstance(value, tuple) else value
        if self.type == "date":
            out["low"], out["high"] = (self.to_date(v).strftime(self.format) for v in self.range)
        elif self.type == "integer":
            out["low"], out["high"] = (int(v) for v in self.range)
        return out

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Column:
        """Read what `to_dict` wrote, or what a user wrote."""
        if not isinstance(raw, Mapping):
            raise DataError("A column of a schema is an object with a name and a type.")
        known = {field.name for field in fields(cls)}
        odd = sorted(str(key) for key in raw if key not in known)
        if odd:
            raise DataError(f"A column of the schema has the unknown field {brief(odd[0])}: see the documentation.")
        if "name" not in raw or "type" not in raw:
            raise DataError("Every column of a schema needs a name and a type.")
        values = dict(raw)
        for listed in ("categories", "quantiles"):
            if listed in values:
                if not isinstance(values[listed], list | tuple):
                    raise DataError(f"Column {brief(raw['name'])} lists its {listed} in brackets.")
                values[listed] = tuple(values[listed])
        return cls(**values)
