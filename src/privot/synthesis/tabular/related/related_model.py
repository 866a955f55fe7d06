"""A fitted model of related tables: draws parents, and for each of them its children; it sees no record.

The parent table's model has how many children a parent has among its columns. A table of children has a model of
children beside their parent's columns, in which these are drawn first, so that given those of a parent its children
are drawn from

    p(child | parent) = Π p(child's column k | parent's columns, child's columns before k),

each child's own law. Siblings have in common what their parent's columns tell, and where the release says how alike
they are, column by column, they are drawn at places in these laws that are so alike (`sibling_model`). All of it is
post-processing of one release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import ConvergenceError, DataError
from privot.synthesis.tabular.column_laws.conditional import Floats
from privot.synthesis.tabular.conditions import Condition
from privot.synthesis.tabular.related.sibling_model import places_in_laws
from privot.synthesis.tabular.restricted_rows import BLOCK, propose, restricted_rows
from privot.synthesis.tabular.table_model import TableModel
from privot.tables.codec import TableCodec
from privot.tables.constraints.keeping import Rules, with_generated
from privot.tables.related_codec import RelatedCodec
from privot.tables.table import Table

MODEL_VERSION = 1
_TRIES = 50
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Drawn:
    """Compact rows and labels of one table and, of children, the place of each one's parent."""

    rows: Floats
    labels: Ints | None
    parents: Ints | None = None


@dataclass(frozen=True, eq=False)
class RelatedModel:
    """`parents` draws parents with their numbers of children; `children`, one per table, draw these beside parents.

    `likeness` has ρ of every column of each table of children (`sibling_model`), or None where siblings are drawn
    independently beside their parent, as in models of before.
    """

    codec: RelatedCodec
    parents: TableModel
    children: tuple[TableModel, ...]
    likeness: tuple[Floats | None, ...] = ()

    def sample(self, parents: int, seed: int = 0, where: Sequence[Condition] = ()) -> dict[str, Table]:
        """Synthetic tables of so many `parents`, by name; conditions are about parents. A seed gives the same again."""
        return self.tables_of(self.draw(parents, seed, where), seed)

    def draw(self, parents: int, seed: int = 0, where: Sequence[Condition] = ()) -> tuple[Drawn, ...]:
        """Parents, then the children of each table."""
        rows, labels = restricted_rows(self.parents, parents, seed, where)
        out = [Drawn(rows, labels)]
        context = rows if labels is None else np.column_stack([rows, labels])
        for place, model in enumerate(self.children):
            owner = np.repeat(np.arange(len(rows)), self.numbers_of_children(rows, place))
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(place, 2)))
            alike = self.likeness[place] if self.likeness else None
            at = None if alike is None else places_in_laws(owner, alike, rng)
            x, y = child_rows(model, context[owner], rng, at)
            out.append(Drawn(x[:, self.codec.context :], y, owner))
        return tuple(out)

    def numbers_of_children(self, rows: Floats, place: int) -> Ints:
        """How many children parents have in the table of children number `place`, each from 0 to its bound."""
        column = self.codec.count_columns[place]
        own = len(self.codec.schemas[0].features) + place
        return self.codec.parent_codec.column_numbers(column, rows[:, own]).astype(np.int64)

    def tables_of(self, drawn: Sequence[Drawn], seed: int) -> dict[str, Table]:
        """Drawn rows as tables with keys that link them, and with the other columns that schemas make."""
        codec, out = self.codec, {}
        keys: NDArray[Any] = np.empty(0, dtype=object)
        for place, (name, made) in enumerate(zip(codec.names, drawn, strict=True)):
            reader: TableCodec = codec.parent_codec if made.parents is None else codec.file_codecs[place]
            plain = reader.decode(made.rows, made.labels, compact=True)
            rng = np.random.default_rng([seed, len(made.rows), place])
            schema = codec.output_schemas[place]
            table = with_generated(Table({column: plain[column] for column in schema.names}), schema, rng)
            if made.parents is None:
                keys = table[codec.key]
            else:
                linked = keys[made.parents]
                table = Table({column: linked if column == codec.key else table[column] for column in table})
            out[name] = table
        return out

    # --- files

    def config(self) -> dict[str, Any]:
        """Everything but the arrays and the codec, as plain JSON types."""
        return {
            "model": "related",
            "version": MODEL_VERSION,
            "tables": [model.config() for model in (self.parents, *self.children)],
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays by name, those of table number i after "i."."""
        models = enumerate((self.parents, *self.children))
        out = {f"{place}.{name}": array for place, model in models for name, array in model.arrays().items()}
        alike = {f"{place + 1}.likeness": rho for place, rho in enumerate(self.likeness) if rho is not None}
        return {**out, **alike}

    @classmethod
    def build(cls, codec: RelatedCodec, config: Mapping[str, Any], arrays: Mapping[str, Any]) -> RelatedModel:
        """The model that `config` and `arrays` describe; refuses parts that do not fit together."""
        try:
            if config["model"] != "related" or config["version"] != MODEL_VERSION:
                raise ValueError
            made = []
            codecs = (codec.parent_codec, *codec.joined_codecs)
            for place, (of_table, fields) in enumerate(zip(codecs, config["tables"], strict=True)):
                own = {n.removeprefix(f"{place}."): a for n, a in arrays.items() if n.startswith(f"{place}.")}
                made.append(TableModel.build(of_table, fields, own))
            for model in made[1:]:
                # a parent's column that came after a child's could not be given
                drawn = [factor.column for factor in model.factors[: codec.context]]
                if sorted(-1 if column is None else column for column in drawn) != list(range(codec.context)):
                    raise ValueError
            return cls(codec, made[0], tuple(made[1:]), _likeness(codec, arrays))
        except DataError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DataError("This is not a model of related tables privot wrote, or it is damaged.") from None


def _likeness(codec: RelatedCodec, arrays: Mapping[str, Any]) -> tuple[Floats | None, ...]:
    """ρ of every table of children; refuses numbers that are none."""
    out: list[Floats | None] = []
    for place, slot in enumerate(codec.slots):
        raw = arrays.get(f"{place + 1}.likeness")
        rho = None if raw is None else np.asarray(raw, dtype=np.float64)
        if rho is not None and (rho.shape != (slot,) or not (np.abs(rho) < 1.0).all()):
            raise ValueError
        out.append(rho)
    return tuple(out) if any(rho is not None for rho in out) else ()


def child_rows(
    model: TableModel, given: Floats, rng: np.random.Generator, at_first: Floats | None = None
) -> tuple[Floats, Ints | None]:
    """Rows of a `model` of children beside their parents, whose columns are `given` first; labels where there are some.

    `at_first` are places in the laws of a child's own columns, and of its label, at which children are drawn; those
    that constraints do not allow are drawn again anywhere.

    Constraints of the child's schema hold. Where a parent's columns leave no such child in many draws, the error says
    so.
    """
    rules = Rules(model.codec.schema.learned)
    x = np.empty((len(given), len(model.codec.features)))
    labels = None if model.codec.classes is None else np.empty(len(given), dtype=np.int64)
    # siblings are drawn apart: rows of one block make up for each other's sampling error
    left = rng.permutation(len(given))
    for trial in range(_TRIES):
        failed = [np.empty(0, dtype=np.int64)]
        for start in range(0, len(left), BLOCK):
            at = left[start : start + BLOCK]
            places = at_first[at] if at_first is not None and trial == 0 else None
            made, of_block, weight = propose(model, len(at), rules, (), rng, given[at], places)
            x[at] = made
            if labels is not None and of_block is not None:
                labels[at] = of_block
            failed.append(at[weight == 0.0])
        left = np.concatenate(failed)
        if not len(left):
            return x, labels
    raise ConvergenceError("The constraints of the children's schema leave hardly any child: loosen one of them.")
