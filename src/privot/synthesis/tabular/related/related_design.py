"""The design of a synthesis of related tables, made before anything is paid; it sees schemas and public facts only.

Parents and children are counted one after another, by the mechanism that a single table has, and one charge pays for
all. A table of children is counted beside the columns of each child's parent, so that pairs of a parent's and a child's
column are among those that are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting import account, calibrate
from privot.accounting.events import Event
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import Facts
from privot.mechanisms.table_counts.related_marginals import RelatedMarginals, sibling_sums, table_facts
from privot.mechanisms.table_counts.row_views import ChildView, ParentView, RowView
from privot.mechanisms.table_counts.sibling_likeness import likeness_sensitivity
from privot.release import Release
from privot.synthesis.design import ReleasedOnce, check_cost, check_same_facts
from privot.synthesis.tabular.related.related_model import RelatedModel
from privot.synthesis.tabular.related.sibling_model import fit_likeness
from privot.synthesis.tabular.table_design import TableDesign
from privot.synthesis.tabular.table_model import TableModel
from privot.synthesis.tabular.table_release import MIN_SCALE, scaled_mechanism
from privot.tables.codec import TableCodec
from privot.tables.related_codec import RelatedCodec
from privot.transport.slice_directions import check_seed, fresh_seed

PARENT_SHARE = 0.3
"""The share of the budget (in 1/σ², which is additive) for the parents; tables of children share the rest evenly.

Children get more because their counts have `per_parent` times the noise and are of more columns, their parent's too.
"""
SIBLING_SHARE = 0.05
"""What of the share of a table of children says how alike siblings are, where a parent can have two of them."""
_DRAWN_PARENTS = 20_000


def views_of(codec: RelatedCodec) -> tuple[RowView, ...]:
    """What each table sees of a parent's row."""
    classes = codec.parent_codec.classes
    out: list[RowView] = [ParentView(codec.width, None if classes is None else codec.width, classes)]
    own = len(codec.schemas[0].features)
    for place, (reader, start) in enumerate(zip(codec.file_codecs[1:], codec.starts, strict=True)):
        width, most = len(reader.features), codec.per_parent[place]
        out.append(ChildView(codec.context, own + place, start, width, most, reader.classes))
    return tuple(out)


def codecs_of(codec: RelatedCodec) -> tuple[TableCodec, ...]:
    """The codecs of the records that each table's mechanism counts."""
    return (codec.parent_codec, *codec.joined_codecs)


def related_mechanism(
    codec: RelatedCodec, facts: Facts, *, epsilon: float, delta: float, parent_share: float = PARENT_SHARE
) -> RelatedMarginals:
    """The mechanism that spends (ε, δ) on the marginals of all tables: give it to `Vault.release`.

    Table i, with the share fᵢ of the budget and at most mᵢ records per parent, gets noise s·mᵢ/√fᵢ per unit of one
    record's sensitivity: its part moves by mᵢ of those, so that all parts together are one Gaussian mechanism of noise
    s per unit of sensitivity. s is calibrated to the budget. Of the share of a table of children `SIBLING_SHARE` says
    how alike siblings are; a parent moves that by no more than one vector, so its noise has no factor mᵢ.
    """
    views = views_of(codec)
    shares = [parent_share, *[(1.0 - parent_share) / len(codec.children)] * len(codec.children)]
    makers = [
        scaled_mechanism(of_table, facts.adjacency, first=_first(codec, view))
        for of_table, view in zip(codecs_of(codec), views, strict=True)
    ]

    alike = [SIBLING_SHARE if isinstance(view, ChildView) and view.most > 1 else 0.0 for view in views]

    def make(scale: float) -> RelatedMarginals:
        parts = zip(makers, views, shares, alike, strict=True)
        tables = tuple(
            (maker(scale * view.most / math.sqrt(share * (1.0 - own))), view) for maker, view, share, own in parts
        )
        sigmas = tuple(
            scale * likeness_sensitivity(view, facts.adjacency) / math.sqrt(share * own)
            if own and isinstance(view, ChildView)
            else None
            for view, share, own in zip(views, shares, alike, strict=True)
        )
        return RelatedMarginals(tables, siblings=sigmas if any(alike) else ())

    def cost(scale: float) -> Event:
        return facts.cost(make(max(scale, MIN_SCALE)).event(facts))

    if account(cost(MIN_SCALE), delta).epsilon() <= epsilon:
        return make(MIN_SCALE)
    return make(calibrate(cost, epsilon=epsilon, delta=delta))


@dataclass(frozen=True)
class RelatedDesign(ReleasedOnce):
    """The design of every table, and the one release that pays for all of them."""

    codec: RelatedCodec
    tables: tuple[TableDesign, ...]
    seed: int
    delta: float
    facts: Facts
    siblings: tuple[float | None, ...] = ()
    """The noise of how alike siblings are, by table; empty in jobs from before it was released."""

    @classmethod
    def choose(cls, codec: RelatedCodec, facts: Facts, epsilon: float, delta: float, seed: int | None) -> RelatedDesign:
        """The design for (ε, δ) and these schemas; the vault must be of the same tables."""
        wanted = (codec.dim, codec.bound(), codec.unit, True)
        if (facts.dim, facts.clip, facts.unit, facts.whole_units) != wanted:
            raise UsageError("Related tables are synthesised from a vault of the same codec: use Vault.open.")
        mechanism = related_mechanism(codec, facts, epsilon=epsilon, delta=delta)
        drawn = fresh_seed() if seed is None else check_seed(seed)
        parts = zip(codecs_of(codec), mechanism.tables, strict=True)
        tables = tuple(
            TableDesign(
                of_table, part, drawn, float(delta), facts.adjacency, table_facts(view, facts), _first(codec, view)
            )
            for of_table, (part, view) in parts
        )
        return cls(codec, tables, drawn, float(delta), facts, mechanism.siblings)

    @property
    def mechanism(self) -> RelatedMarginals:
        """What is released."""
        return RelatedMarginals(
            tuple((table.mechanism, view) for table, view in zip(self.tables, views_of(self.codec), strict=True)),
            (self.codec.bounds_in_words,),
            self.siblings,
        )

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours that are protected."""
        return self.facts.adjacency

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types; the schemas are written by the codec."""
        return {
            "tables": [table.to_dict() for table in self.tables],
            **({"siblings": list(self.siblings)} if self.siblings else {}),
            "seed": self.seed,
            "delta": self.delta,
            "adjacency": str(self.adjacency),
            "facts": self.facts.plain(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], codec: RelatedCodec) -> RelatedDesign:
        """Read what `to_dict` wrote."""
        try:
            facts = Facts.from_plain(fields["facts"], Adjacency.parse(fields["adjacency"]))
            parts = zip(fields["tables"], codecs_of(codec), views_of(codec), strict=True)
            tables = tuple(
                TableDesign.from_dict(table, of_table, _first(codec, view)) for table, of_table, view in parts
            )
            sigmas = tuple(None if sigma is None else float(sigma) for sigma in fields.get("siblings", ()))
            return cls(codec, tables, int(fields["seed"]), float(fields["delta"]), facts, sigmas)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(
                f"This does not describe the synthesis of related tables ({type(error).__name__})."
            ) from None

    def check(self, facts: Facts, epsilon: float, delta: float, device: str) -> None:
        """Refuse, before anything is paid, a job that would fail or cost too much afterwards."""
        check_same_facts(self.facts, facts)
        made = [table.rehearse() for table in self.tables]
        # siblings that are drawn apart are drawn by the same steps as others
        apart = tuple(None if sigma is None else np.zeros(slot) for sigma, slot in self._by_child())
        RelatedModel(self.codec, made[0], tuple(made[1:]), apart).sample(3)
        check_cost(self.event(facts), self.delta, epsilon, delta)

    def check_release(self, release: Release) -> None:
        """Refuse a release whose marginals, noise or events are not those that this design pays for."""
        try:
            same = len(release.public["tables"]) == len(self.tables) and all(
                table.describes(_part(release, place)) for place, table in enumerate(self.tables)
            )
            stated = [public.get("siblings", {}).get("sigma") for public in release.public["tables"]]
            same = same and stated == [*(self.siblings or [None] * len(self.tables))]
        except (KeyError, TypeError, ValueError):
            same = False
        self.check_paid(release, same)

    def fit(self, release: Release, progress: Callable[[int, int, float], None] | None = None) -> RelatedModel:
        """The models of a release; the same release and seed give the same models."""
        steps = [len(table.codec.features) + (table.codec.classes is not None) for table in self.tables]
        made: list[TableModel] = []
        for place, table in enumerate(self.tables):
            before, tell = sum(steps[:place]), None
            if progress is not None:

                def tell(done: int, of: int, loss: float, before: int = before) -> None:
                    progress(before + done, sum(steps), loss)

            made.append(table.fit(_part(release, place), tell))
        model = RelatedModel(self.codec, made[0], tuple(made[1:]))
        return replace(model, likeness=self._likeness(model, release)) if self.siblings else model

    def _likeness(self, model: RelatedModel, release: Release) -> tuple[NDArray[np.float64] | None, ...]:
        """How alike siblings are to be drawn, by table of children; a function of the release and the seed."""
        rows, labels = model.parents.sample_rows(_DRAWN_PARENTS, self.seed)
        context = rows if labels is None else np.column_stack([rows, labels])
        out: list[NDArray[np.float64] | None] = []
        for place, (child, view) in enumerate(zip(model.children, views_of(self.codec)[1:], strict=True)):
            sigma = self.siblings[place + 1]
            if sigma is None or not isinstance(view, ChildView):
                out.append(None)
                continue
            value: Any = _part(release, place + 1).value
            try:
                summed = sibling_sums(self.tables[place + 1].mechanism, view, value)
                released = np.asarray(value["siblings"], dtype=np.float64).reshape(len(summed.axes) + 1)
            except (KeyError, TypeError, ValueError, UsageError):
                raise DataError("This is not a release of related tables.") from None
            several = context[model.numbers_of_children(rows, place) >= 2]
            rng = np.random.default_rng([self.seed, place])
            out.append(fit_likeness(child, several, released, sigma, summed, view.most, rng))
        return tuple(out)

    def _by_child(self) -> list[tuple[float | None, int]]:
        """The noise of how alike siblings are and the columns of a child, by table of children."""
        sigmas = self.siblings[1:] or (None,) * len(self.codec.children)
        return list(zip(sigmas, self.codec.slots, strict=True))


def _first(codec: RelatedCodec, view: RowView) -> int:
    """How many columns of a table are drawn first: those of a child's parent."""
    return codec.context if isinstance(view, ChildView) else 0


def _part(release: Release, place: int) -> Release:
    """What was released of table number `place`, as a release of that table alone would be."""
    assert isinstance(release.value, Mapping)
    prefix = f"{place}."
    value = {n.removeprefix(prefix): array for n, array in release.value.items() if n.startswith(prefix)}
    return Release(value, release.guarantee, release.public["tables"][place])
