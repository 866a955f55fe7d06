"""Decides from noisy counts which cells of an axis to treat as one; it may see noisy counts only, never a record.

Cells that hold fewer records than the noise can tell apart carry no information alone: neighbouring ones (on an ordered
axis) or rare ones (on an unordered axis) are counted together, so that later marginals have few cells and each has
enough in it. The rule reads released numbers, so it is post-processing and costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privot.common import arguments
from privot.errors import UsageError

MANY = 100
"""More categories than this are many: a column of them has groups of smaller shares."""


@dataclass(frozen=True)
class GroupRule:
    """At most about `most` groups per axis; none with fewer than `share` of the records or `sds` noise deviations.

    Fewer where pairs are noisy: with g groups per axis a cell of a pair holds n/g² of the n records, which should be
    `pair_sds` deviations of its noise or more, so g = √(n/(`pair_sds`·σ)); `least` groups are always tried.

    The outermost groups of an ordered axis hold `end_sds` deviations of the noise of all their cells together: in a
    long stretch that hardly any record reaches, noise alone would else make groups, far from where the records are.
    None treats them like the others, as rules of earlier jobs did.

    With `whole`, what other columns say of the number of records counts too: what lies beyond a full cell is what is
    left of all records, which is known far better than the sum of a hundred nearly empty cells.
    """

    most: int = 24
    share: float = 0.005
    sds: float = 6.0
    pair_sds: float = 2.0
    least: int = 4
    end_sds: float | None = 4.5
    whole: bool = True

    def __post_init__(self) -> None:
        arguments.whole("The number of groups of a rule", self.most, 2)
        arguments.whole("The least number of groups of a rule", self.least, 2)
        if not (0.0 <= self.share < 1.0 and self.sds >= 0.0 and min(self.pair_sds, self.end_sds or 0.0) >= 0.0):
            raise UsageError("A group rule needs a share of at least 0 and below 1, and deviations of at least 0.")

    @property
    def bound(self) -> int:
        """No axis is ever given more groups than this."""
        return 3 * self.most + 2

    def groups(
        self,
        counts: NDArray[np.float64],
        sd: float,
        ordered: bool,
        missing: bool,
        pair_sd: float = 0.0,
        records: tuple[float, float] | None = None,
    ) -> NDArray[np.int64]:
        """The group of every cell, numbered from 0 without gaps, from noisy `counts` whose noise has deviation `sd`.

        With `missing`, the last cell stands for missing values: it is next to no other, and alone where it can be.
        `pair_sd` is the deviation of the noise of the pairs that will be counted over the groups; `records` their
        number as other columns say it, and the variance of that.
        """
        spare = np.inf
        if self.whole and records is not None:
            counts, spare = counts_of_whole(counts, sd, *records)
        mass = nearest_counts(counts)
        total = max(float(mass.sum()), 1.0)
        least = self.least_mass(len(mass), total, sd, ordered)
        most = self.number(total, pair_sd)
        if not ordered:
            return _by_mass(mass, least, most)
        cut = len(mass) - int(missing)
        out = np.zeros(len(mass), dtype=np.int64)
        if self.end_sds is None:
            out[:cut] = _by_neighbours(mass[:cut], total, least, most)
        else:
            some = np.asarray(counts, dtype=np.float64)[:cut]
            first, last = self.ends(some, least, self.end_sds * sd, spare)
            # of a stretch the counts as they are: rounded up to 0 one by one, noise would add up
            for stretch in (slice(0, first), slice(cut - last, cut)):
                mass[stretch] = max(float(some[stretch].sum()), 0.0) / max(stretch.stop - stretch.start, 1)
            out[:cut] = _within_ends(mass[:cut], first, last, total, least, most)
        if missing:
            top = int(out[:cut].max()) if cut else -1
            out[cut:] = top + 1 if mass[-1] >= least or cut == 0 else top
        return out

    def ends(self, counts: NDArray[np.float64], least: float, clear: float, spare: float = np.inf) -> tuple[int, int]:
        """How many cells the outermost groups have, from noisy counts.

        Each is the shortest stretch from its end that holds `least` records and, of k cells, `clear`·√(k·(1 − k/s)),
        s = `spare` (`counts_of_whole`).
        """
        found = []
        cells = np.arange(1, len(counts) + 1)
        noise = clear * (cells * (1.0 - cells / spare)) ** 0.5
        for some in (counts, counts[::-1]):
            enough = np.cumsum(some) >= np.maximum(least, noise)
            found.append(int(np.argmax(enough)) + 1 if enough.any() else len(some))
        return (found[0], found[1]) if sum(found) <= len(counts) else (len(counts), 0)

    def least_mass(self, cells: int, total: float, sd: float, ordered: bool) -> float:
        """How many records a group must hold; of many categories, none of which has a large share, half an even one."""
        many = not ordered and cells > MANY
        return max((min(self.share, 0.5 / cells) if many else self.share) * total, self.sds * sd)

    def number(self, total: float, pair_sd: float) -> int:
        """About how many groups an axis gets, for `total` records and pairs whose noise has deviation `pair_sd`."""
        noise = self.pair_sds * pair_sd
        if noise <= 0.0:
            return self.most
        return int(min(max((total / noise) ** 0.5, self.least), self.most))


def counts_of_whole(
    counts: NDArray[np.float64], sd: float, records: float, variance: float
) -> tuple[NDArray[np.float64], float]:
    """Noisy `counts` made to agree with an independent estimate of their sum, and what k of them know of it.

    The least-squares update for k = len(counts) cells of deviation `sd`: each moves by r/s, r the difference of the
    sums and s = k + `variance`/sd². The sum of j cells has the variance j·sd²·(1 − j/s) afterwards.
    """
    spare = len(counts) + variance / max(sd, 1e-300) ** 2
    flat = np.asarray(counts, dtype=np.float64)
    out: NDArray[np.float64] = flat + (records - float(flat.sum())) / spare
    return out, float(spare)


def sums_elsewhere(tables: Sequence[NDArray[np.float64]], spreads: Sequence[float]) -> list[tuple[float, float] | None]:
    """For each of several tables of the same records, what the others say of their number, and its variance.

    The mean of the sums of their noisy counts, with weights 1/variance; None where there are no others.
    """
    weights = np.array([1.0 / (len(table) * spread**2) for table, spread in zip(tables, spreads, strict=True)])
    sums = np.array([float(table.sum()) for table in tables])
    out: list[tuple[float, float] | None] = []
    for place in range(len(tables)):
        others = np.delete(weights, place)
        if not len(others):
            out.append(None)
            continue
        whole = float(others.sum())
        out.append((float(others @ np.delete(sums, place)) / whole, 1.0 / whole))
    return out


def nearest_counts(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest table (least squares) with no negative count and the same total, at least 1.

    The projection on a simplex: max(c − t, 0), with the one t that keeps the total.
    """
    flat = np.asarray(counts, dtype=np.float64).ravel()
    total = max(float(flat.sum()), 1.0)
    falling = np.sort(flat)[::-1]
    over = (np.cumsum(falling) - total) / np.arange(1, flat.size + 1)
    shift = over[np.nonzero(falling > over)[0][-1]]
    out: NDArray[np.float64] = np.maximum(flat - shift, 0.0).reshape(np.shape(counts))
    return out


def _by_mass(mass: NDArray[np.float64], least: float, most: int) -> NDArray[np.int64]:
    """Each of the fullest cells alone, as long as it holds enough; all the others together."""
    order = np.argsort(-mass, kind="stable")
    alone = [int(cell) for cell in order[: 3 * most] if mass[cell] >= least]
    out = np.full(len(mass), len(alone), dtype=np.int64)
    for group, cell in enumerate(sorted(alone)):
        out[cell] = group
    return out


def _within_ends(
    mass: NDArray[np.float64], first: int, last: int, total: float, least: float, most: int
) -> NDArray[np.int64]:
    """Runs of neighbours as below, with the first and the last cells, so many, never cut apart."""
    stop = len(mass) - last
    units = np.concatenate([np.zeros(first), np.arange(1, stop - first + 1), np.full(last, stop - first + 1)])
    units = np.unique(units, return_inverse=True)[1]
    runs = _by_neighbours(np.bincount(units, mass).astype(np.float64), total, least, most)
    out: NDArray[np.int64] = runs[units]
    return out


def _by_neighbours(mass: NDArray[np.float64], total: float, least: float, most: int) -> NDArray[np.int64]:
    """Runs of neighbours of about equal mass; a cell that holds a whole share stands alone."""
    heavy = mass >= max(total / most, least)
    rest = float(mass[~heavy].sum())
    target = max(rest / max(most - int(heavy.sum()), 1), least)
    out = np.zeros(len(mass), dtype=np.int64)
    group, held = 0, 0.0
    open_since = 0
    for cell in range(len(mass)):
        if heavy[cell]:
            if open_since < cell:
                # the cells left over before a heavy cell are too few to stand alone: they join the run before them
                if held < 0.5 * least and group > 0 and not heavy[open_since - 1]:
                    out[open_since:cell] = group - 1
                else:
                    group += 1
            out[cell] = group
            group, held, open_since = group + 1, 0.0, cell + 1
            continue
        out[cell] = group
        held += float(mass[cell])
        # not an empty run: where nothing is asked of a group, each empty cell would be one
        if held >= target and held > 0.0:
            group, held, open_since = group + 1, 0.0, cell + 1
    if open_since < len(mass) and held < 0.5 * least and group > 0:
        out[open_since:] = group - 1
    return np.unique(out, return_inverse=True)[1].astype(np.int64)
