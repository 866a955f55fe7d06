"""The design of a table's synthesis, made before anything is paid; it sees a schema and public facts only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from privot.errors import DataError, UsageError
from privot.evaluation.schema_axes import axes_of, grids_of
from privot.guarantee import Adjacency
from privot.mechanisms import Facts
from privot.mechanisms.table_counts.cell_grouping import GroupRule
from privot.mechanisms.table_counts.cell_tree import TreeRule
from privot.mechanisms.table_counts.chosen_cells import ChosenCells
from privot.mechanisms.table_counts.further_scores import FurtherScores
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.scored_marginals import ScoredMarginals
from privot.release import Release
from privot.synthesis.design import NOT_PAID_FOR, ReleasedOnce, check_cost, check_same_facts
from privot.synthesis.tabular.label_laws.further_laws import Asked
from privot.synthesis.tabular.table_fit import FurtherTablePlanner, TablePlanner, fit_table
from privot.synthesis.tabular.table_model import TableModel
from privot.synthesis.tabular.table_release import OverCells, TableMechanism, table_mechanism
from privot.tables.codec import TableCodec
from privot.transport.slice_directions import check_seed, fresh_seed
from privot.vault import Vault

EARLIER_RULE = GroupRule(most=16, pair_sds=0.0, end_sds=None, whole=False)
"""The rule of jobs that do not state one: about 16 groups per column, whatever the noise of the pairs."""
_REHEARSED = 200
"""Rows of the dry run: enough to run every step once."""


@dataclass(frozen=True)
class TableDesign(ReleasedOnce):
    """The marginals that are released, and the seed of the model that is fitted to them."""

    codec: TableCodec
    mechanism: TableMechanism
    seed: int
    delta: float
    adjacency: Adjacency
    facts: Facts
    first: int = 0
    """How many columns are drawn before all others (`fit_table`): those of the parent, where rows are its children."""

    @classmethod
    def choose(cls, codec: TableCodec, facts: Facts, epsilon: float, delta: float, seed: int | None) -> TableDesign:
        """The design for (ε, δ) and this schema; the vault must hold compact rows. Without a seed, one is drawn."""
        if facts.unit is not None and facts.unit.name in codec.schema.names:
            raise UsageError(
                f"The unit {facts.unit.name!r} is a column of the schema, and an identifier is not synthesised: make "
                "the codec of schema.dropping(unit)."
            )
        wanted = (len(codec.features), codec.bound(compact=True), codec.classes)
        if (facts.dim, facts.clip, facts.classes) != wanted:
            raise UsageError(
                "A vault of a table holds encode_file(…, compact=True), with clip=codec.bound(compact=True) and "
                "classes=codec.classes."
            )
        mechanism = table_mechanism(codec, epsilon=epsilon, delta=delta, adjacency=facts.adjacency, unit=facts.unit)
        drawn = fresh_seed() if seed is None else check_seed(seed)
        return cls(codec, mechanism, drawn, float(delta), facts.adjacency, facts)

    @property
    def over_cells(self) -> OverCells:
        """The release but for its first part, if cells are chosen by that."""
        return self.mechanism.then if isinstance(self.mechanism, ChosenCells) else self.mechanism

    @property
    def scored(self) -> GroupedMarginals | ScoredMarginals:
        """The same but for scores of further labels and interactions."""
        over = self.over_cells
        return over.then if isinstance(over, FurtherScores) else over

    @property
    def counts(self) -> GroupedMarginals:
        """The part of the release that counts cells."""
        return self.scored.marginals if isinstance(self.scored, ScoredMarginals) else self.scored

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types; the schema is written by the codec."""
        chosen = self.mechanism if isinstance(self.mechanism, ChosenCells) else None
        return {
            "tree_sigma": None if chosen is None else chosen.sigma,
            "tree_rule": None if chosen is None else asdict(chosen.rule),
            "sigma": list(self.counts.sigma),
            "label_sigma": self.counts.label_sigma,
            "by_class": self.counts.by_class,
            "rule": asdict(self.counts.rule),
            "score_sigma": self.scored.sigma if isinstance(self.scored, ScoredMarginals) else None,
            # left out where there are none: what was written before stays the same
            **({"fine_ends": True} if self.codec.fine_ends else {}),
            **({"further": self._further()} if self._further() else {}),
            "seed": self.seed,
            "delta": self.delta,
            "adjacency": str(self.adjacency),
            "facts": self.facts.plain(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], codec: TableCodec, first: int = 0) -> TableDesign:
        """Read what `to_dict` wrote."""
        if codec.fine_ends and not fields.get("fine_ends"):
            codec = TableCodec(codec.schema, fine_ends=False)
        try:
            axes = axes_of(codec, compact=True)
            fine, coarse = (float(sigma) for sigma in fields["sigma"])
            mechanism: OverCells | ChosenCells
            # jobs from before counts by class were a part of their own: fine counts by class, and groups by one rule
            labelled = None if fields.get("label_sigma") is None else float(fields["label_sigma"])
            # a rule that states nothing of the ends, or of the whole, knew of neither
            rule = (
                GroupRule(**{"end_sds": None, "whole": False, **fields["rule"]}) if "rule" in fields else EARLIER_RULE
            )
            by_class = bool(fields["by_class"])
            mechanism = GroupedMarginals(axes, codec.classes, (fine, coarse), by_class, rule, label_sigma=labelled)
            if fields["score_sigma"] is not None:
                planner = TablePlanner(axes, last=Asked.of(codec).labels)
                mechanism = ScoredMarginals(mechanism, float(fields["score_sigma"]), planner)
            asked = Asked.of(codec)
            if asked:
                sigmas = [float(one["sigma"]) for one in fields["further"]]
                few = len(asked.labels)
                scores = tuple(asked.scores(len(axes), sigmas[:few], sigmas[few:]))
                mechanism = FurtherScores(mechanism, scores, FurtherTablePlanner(axes, asked, first))
                if mechanism.stated() != [dict(one) for one in fields["further"]]:
                    raise ValueError
            # jobs from before cells were chosen: even ones
            if fields.get("tree_sigma") is not None:
                tree = dict(fields["tree_rule"])
                chosen_by = TreeRule(**{**tree, "sizes": tuple(int(size) for size in tree["sizes"])})
                grids = grids_of(codec, compact=True)
                mechanism = ChosenCells(grids, float(fields["tree_sigma"]), mechanism, chosen_by)
            adjacency = Adjacency.parse(fields["adjacency"])
            facts = Facts.from_plain(fields["facts"], adjacency)
            return cls(codec, mechanism, int(fields["seed"]), float(fields["delta"]), adjacency, facts, first)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"This does not describe the synthesis of a table ({type(error).__name__}).") from None

    def check(self, facts: Facts, epsilon: float, delta: float, device: str) -> None:
        """Refuse, before anything is paid, a job that would fail or cost too much afterwards."""
        check_same_facts(self.facts, facts)
        self.rehearse()
        check_cost(self.event(facts), self.delta, epsilon, delta)

    def check_release(self, release: Release) -> None:
        """Refuse a release whose marginals, noise or events are not those that this design pays for."""
        self.check_paid(release, self.describes(release))

    def describes(self, release: Release) -> bool:
        """Whether a release states the marginals and the noise of this design; refuses cells that its grid lacks."""
        counts, public = self._counts_of(release), release.public
        fine = counts.fine()
        tree = self.mechanism.tree() if isinstance(self.mechanism, ChosenCells) else None
        wanted = {
            "tree": None if tree is None else [list(tree.shapes), tree.sigma],
            "classes": counts.classes,
            "by_class": counts.by_class,
            "fine": [list(fine.sets), list(fine.shapes), fine.sigma],
            "labelled": counts.label_sigma,
            "pairs": counts.sigma[1] if len(counts.axes) > 1 else None,
            "scores": self.scored.sigma if isinstance(self.scored, ScoredMarginals) else None,
            "further": self._further(),
        }
        try:
            found = {
                "tree": [public["tree"][name] for name in ("shapes", "sigma")] if "tree" in public else None,
                "classes": public["classes"],
                "by_class": public["by_class"],
                "fine": [public["fine"][name] for name in ("sets", "shapes", "sigma")],
                "labelled": public["labelled"]["sigma"] if "labelled" in public else None,
                "pairs": public["pairs"]["sigma"] if "pairs" in public else None,
                "scores": public["scores"]["sigma"] if "scores" in public else None,
                "further": public.get("further", []),
            }
        except (KeyError, TypeError):
            found = {}
        return bool(found == json.loads(json.dumps(wanted)))

    def _counts_of(self, release: Release) -> GroupedMarginals:
        """The counts over the cells that a release states; refuses cells that its grid does not have."""
        if not isinstance(self.mechanism, ChosenCells):
            return self.counts
        try:
            over = self.mechanism.chosen(release.value)  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError, IndexError, UsageError):
            raise DataError(NOT_PAID_FOR) from None
        return over if isinstance(over, GroupedMarginals) else over.marginals

    def _further(self) -> list[dict[str, Any]]:
        """What is public about scores of further labels and interactions."""
        return self.over_cells.stated() if isinstance(self.over_cells, FurtherScores) else []

    def rehearse(self) -> TableModel:
        """Release and fit a table of two made-up rows, so that a schema that fails is found before paying."""
        rows = np.zeros((2, len(self.codec.features)))
        labels = None if self.codec.classes is None else np.zeros(2, dtype=np.int64)
        # a budget of exactly the cost: nothing is spent, since these rows are nobody's
        made_up = Vault(
            rows,
            labels,
            clip=self.facts.clip,
            classes=self.codec.classes,
            adjacency=self.adjacency,
            budget=(1e6, self.delta),
        )
        mechanism, then = self.mechanism, self._shortened()
        if not isinstance(then, GroupedMarginals):
            mechanism = replace(mechanism, then=then) if isinstance(mechanism, ChosenCells) else then
        release = made_up.release(mechanism, purpose="rehearsal")
        model = fit_table(release, self.codec, population=_REHEARSED, first=self.first)
        model.sample_rows(2)
        return model

    def _shortened(self) -> OverCells:
        """What is released over cells, with planners that look at few rows."""
        axes = axes_of(self.codec, compact=True)
        then, over = self.scored, self.over_cells
        if isinstance(then, ScoredMarginals):
            planner = TablePlanner(axes, population=_REHEARSED, last=Asked.of(self.codec).labels)
            then = replace(then, planner=planner)
        if not isinstance(over, FurtherScores):
            return then
        further = FurtherTablePlanner(axes, Asked.of(self.codec), self.first, _REHEARSED)
        return replace(over, then=then, planner=further)

    def fit(self, release: Release, progress: Callable[[int, int, float], None] | None = None) -> TableModel:
        """The model of a release; the same release and seed give the same model."""
        tell = None if progress is None else lambda done, steps: progress(done, steps, float("nan"))
        return fit_table(release, self.codec, seed=self.seed, progress=tell, first=self.first)
