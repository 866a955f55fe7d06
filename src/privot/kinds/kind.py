"""The protocol of a kind of records: what is public about them, and how each is read. It knows no vault and no noise.

A kind says everything that is public, once: whoever needs it asks the vault for its kind. What a record is read as
follows from that record and from the kind alone, never from another record (docs/concepts/readers.md). What a job does
for a kind is registered with that job, above the vault (`privot.synthesis.of_kind`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from privot.kinds.record_places import Files

Span = float | Sequence[float]


@dataclass(eq=False, repr=False)
class Read:
    """What a reader hands to a vault, and to nobody else: rows, labels, whose they are, and the kind made complete."""

    x: Any
    y: Any
    kind: Kind
    units: Any = None


class Kind(ABC):
    """What is public about records, and the contract of their reader.

    A new kind is one class with a `name`, `read` and `to_params`, and one entry point of the group `privot.kinds`.
    """

    name: ClassVar[str]
    """What users call records of this kind: one word for files and messages."""
    whole_units: ClassVar[bool] = False
    """Whether a row holds everything of one unit."""
    by_schema: ClassVar[bool] = False
    """Whether a schema says all that is public: then clip, classes and shape are not stated beside it."""
    rows_are: ClassVar[str] = "records"
    """What a vault calls its rows."""
    codec: Any = None
    """What turns rows of tables into numbers and back; None where records are numbers."""
    form: Any = None
    """The kind and dtypes of the DataFrame that the records came in; None where they came otherwise."""
    clip: float | None = None
    """The bound on the norm of a row; None where it has to be stated."""
    shape: tuple[int, ...] | None = None
    """The shape of one image; None where records have none."""
    low: Span = 0.0
    """The lower end of the range of values, one number or one per column."""
    high: Span = 1.0
    """The upper end."""
    class_names: tuple[str, ...] | None = None
    """The names of the classes 0, 1, …, where they have some."""
    columns: tuple[Any, ...] = ()
    """How rows are read, column by column, where that is stated."""

    @property
    def row_shape(self) -> tuple[int, ...] | None:
        """The shape of one record as arrays hold it, where it is stated."""
        return self.shape

    @property
    def names(self) -> tuple[str, ...]:
        """Its name and those of the kinds that it is made from: what is registered for one of them is for it too."""
        return tuple(vars(base)["name"] for base in type(self).__mro__ if "name" in vars(base))

    @property
    def count(self) -> int | None:
        """The number of classes; None where records have no labels."""
        return None

    def for_unit(self, unit: str | None) -> Kind:
        """The same kind where `unit` says whose each record is."""
        return self

    def unlabelled(self) -> Kind:
        """The same records without their labels."""
        return self

    @abstractmethod
    def read(self, files: Files, unit: str | None = None) -> Read:
        """The records in `files`, and with a `unit` whose each of them is."""

    @abstractmethod
    def to_params(self) -> dict[str, Any]:
        """What the files of a job say of the kind, as plain JSON types: what sampling needs."""

    def described(self, classes: int | None, clip: float) -> Kind:
        """The same kind with what was read or stated beside it."""
        return self

    @classmethod
    @abstractmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Kind:
        """The kind that a schema file, or `to_params`, describes."""
