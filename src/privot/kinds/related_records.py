"""Reads a parent table with its tables of children and makes one row per parent of them; only a vault holds those.

What a row holds follows from the rows of its own key, in all tables: never from where they stand in a file, and never
from another key. So adding or removing everything of one key adds or removes one row and leaves all others alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privot.common.unit_values import block_owners
from privot.data.record_digest import owned_digest, records_digest
from privot.errors import DataError, UsageError, brief
from privot.kinds.contributions import kept_rows

if TYPE_CHECKING:
    from privot.tables import RelatedCodec

ORPHANS = ("refuse", "drop")
"""What is done with children whose key no parent has."""
MAX_NUMBERS = 1 << 31
"""Numbers of all rows together: 16 GiB."""

Encoded = tuple[NDArray[np.float64], NDArray[np.int64] | None, Sequence[str]]
"""Compact rows, labels where the table has some, and the key of every row."""


class RelatedTables:
    """The encoded rows of related tables, all of them, with the key of each; it shows nothing of them.

    Parameters
    ----------
    codec
        What is public about the tables.
    tables
        By the names of the tables: compact rows, labels (None without), and the key of every row.
    orphans
        "refuse" refuses children whose key no parent has, "drop" leaves them out.

    Raises
    ------
    DataError
        If two parents have one key, or children are orphans that are not to be dropped. The sentence quotes no key.

    Notes
    -----
    Formal guarantee: `rows()` has one row per key that a parent has. The row is a function of the rows with that key,
    in every table as a multiset, and of the codec. Of a table of children with more than `per_parent` rows of one key,
    those take part that `privot.kinds.contributions.kept_rows` chooses: by a hash of the key and the child alone.

    That keys of parents are unique, and that each child has a parent, is stated of the tables, as the types of columns
    are: tables without it are refused before anything is paid. A data set that has both still has both without
    everything of one key, so the refusal does not tell it from such a neighbour. With "drop" an orphan takes part in
    nothing, whatever else is there; so no table of children can be refused for what it links to.
    """

    def __init__(self, codec: RelatedCodec, tables: Mapping[str, Encoded], orphans: str = ORPHANS[0]) -> None:
        if orphans not in ORPHANS:
            raise UsageError(f"Orphans are either of {', '.join(ORPHANS)}, got {brief(orphans)}.")
        if set(tables) != set(codec.names):
            raise UsageError(f"Give one table for each of the names {', '.join(codec.names)}.")
        self.codec = codec
        held: list[Encoded] = []
        alone: list[tuple[str, NDArray[np.float64]]] = []
        known: dict[str, int] = {}
        for name in codec.names:
            rows, labels, keys = tables[name]
            keys = block_owners(list(keys), len(rows), codec.key).texts
            alone.append((name, rows))
            if not held:
                known = {key: place for place, key in enumerate(keys)}
                if len(known) != len(keys):
                    raise DataError(
                        f"Two rows of {brief(name)} have one {codec.key!r}, which must tell its rows apart: leave one "
                        "row of each, or make it a table of children."
                    )
            else:
                there = np.fromiter((key in known for key in keys), dtype=bool, count=len(keys))
                if not there.all():
                    if orphans == "refuse":
                        raise DataError(
                            f"{brief(name)} has rows with a {codec.key!r} that no row of {brief(codec.parent)} has: "
                            "add the parents, or state that such orphans are dropped."
                        )
                    keys = [keys[place] for place in np.flatnonzero(there)]
                    rows, labels = rows[there], None if labels is None else labels[there]
                    alone.append((name, rows))
            held.append((rows, labels, keys))
        if len(known) * codec.dim > MAX_NUMBERS:
            raise DataError(
                f"The parents with up to {max(codec.per_parent)} children each take more than {MAX_NUMBERS} numbers: "
                "let fewer children of a parent take part."
            )
        self.__held, self.__places, self.__alone = tuple(held), known, tuple(alone)

    @property
    def alone(self) -> tuple[tuple[str, NDArray[np.float64]], ...]:
        """The rows of every table by itself, as a vault of that table alone holds them, after the table's name.

        Where orphans are dropped, once with them and once without: a ledger may know that table either way.
        """
        return self.__alone

    def rows(self) -> NDArray[np.float64]:
        """One row per parent, in the layout of `privot.tables.related_codec`."""
        codec, (rows, labels, _) = self.codec, self.__held[0]
        out = np.zeros((len(rows), codec.dim))
        own = rows.shape[1]
        out[:, :own] = rows
        if labels is not None:
            out[:, codec.width] = labels
        layout = zip(self.__held[1:], codec.per_parent, codec.starts, codec.slots, strict=True)
        for place, (child, most, start, slot) in enumerate(layout):
            counts = self.__fill(out[:, start : start + most * slot], child, most, slot)
            out[:, own + place] = counts / most
        return out

    def __fill(self, slots: NDArray[np.float64], child: Encoded, most: int, slot: int) -> NDArray[np.int64]:
        """Write the children that take part into the slots of their parents; gives the number of each parent's."""
        rows, labels, keys = child
        kept = kept_rows(list(keys), rows, labels, most)
        parents = np.array([self.__places[keys[place]] for place in kept], dtype=np.int64)
        own = rows[kept] if labels is None else np.column_stack([rows[kept], labels[kept]])
        # by value, so that the order of the file has no say in which slot a child stands
        order = np.lexsort((*own.T[::-1], parents))
        own, parents = own[order], parents[order]
        counts = np.bincount(parents, minlength=len(slots))
        place = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        slots.reshape(len(slots), most, slot)[parents, place] = own
        return counts

    def named(self, key: bytes) -> NDArray[np.uint64]:
        """What a ledger knows the tables by: a keyed sum of hashes of each table's rows, in any order.

        They are all rows of parents and of their children, however many take part; not the orphans that are dropped.
        """
        return np.concatenate([records_digest(key, rows) for rows, _, _ in self.__held])

    def named_owners(self, key: bytes) -> NDArray[np.uint64]:
        """The same of (key, row, label): other links between the same rows have another one."""
        out = []
        for rows, labels, keys in self.__held:
            whole = rows if labels is None else np.column_stack([rows, labels])
            out.append(owned_digest(key, whole, keys))
        return np.concatenate(out)

    def __repr__(self) -> str:
        return f"<RelatedTables {', '.join(self.codec.names)}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise UsageError("Related tables are not pickled or copied: read them again.")
