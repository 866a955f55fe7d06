"""DP-SWD as a distance: two releases of noisy projections, compared without the bias of noise and samples.

Each private side pays for one release through its vault; everything after that works on what was released.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting import projection, read_guarantee
from privot.common import arguments
from privot.common.declared import declared
from privot.common.interruption import finishing
from privot.errors import DataError, UsageError
from privot.guarantee import Guarantee
from privot.jobs.home import Home, Memory
from privot.jobs.paid_question import Paid, delivering, of_vault
from privot.jobs.run import Plan, Run
from privot.mechanisms import RandomProjection
from privot.opening import parse_json, read_bytes
from privot.opening.limits import MAX_TEXT
from privot.release import Release
from privot.transport.slice_directions import Frame
from privot.vault import Vault

MIN_RECORDS = 8
"""Records per side, so that half of them still have a spread."""
SIDES = ("a", "b")
"""The parts of a comparison: the release of each side."""
DRAWS = 40
"""How often the released rows are drawn again."""
SLICES = 50
"""Directions unless stated: each one more needs more noise on all of them."""
APART = (
    "nobody has records in both data sets: the two releases share their directions, and together they say more of such "
    "a person than either states"
)
"""What two private sides rest on, besides the mathematics of each."""
MEANING = (
    "95 %, over the records and the noise, for these directions: of the distance between the laws of clipped records "
    "with this noise, which is at most the one without noise (asymptotic)"
)
Rows = NDArray[np.float64]


@dataclass(frozen=True)
class PrivateSliced:
    """What `private_sliced` found."""

    value: float
    """The debiased distance: (max(0, raw^p − bias))^(1/p); the bias is null^p for p = 2, and at most that for p < 2."""
    interval: tuple[float, float]
    interval_of: str
    null_level: float
    """The distance that two samples of one law show, as large as these and with this noise."""
    raw: float
    """The distance between the released rows, as published: bias of noise and samples included."""
    p: float
    public: dict[str, Any]
    """σ, directions, clip and numbers of records."""
    guarantees: tuple[Guarantee | None, Guarantee | None]
    """One per side; None for a public side."""

    @property
    def distinguishable(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval[0] > 0.0


@declared(first="privot.vault.vault:Vault")
def private_sliced(
    first: Vault,
    second: Any,
    *,
    epsilon: float,
    delta: float,
    slices: int | None = None,
    p: float = 2.0,
    frame: Frame = "orthogonal",
    seed: int = 0,
    purpose: str = "compare by dp-swd",
) -> PrivateSliced:
    """The sliced Wasserstein distance between two data sets, released with (ε, δ) (DP-SWD, Algorithm 1).

    Each side releases R = XU + V: rows clipped to the public bound C, on the same random directions U, V i.i.d.
    N(0, σ²). With W_p^p along every direction, the published value is raw^p = (1/k) Σ_j W_p^p(R_j, R'_j). It is far
    from 0 for equal laws, so what two samples of one law would show, null^p, is subtracted.

    Parameters
    ----------
    first
        The vault of the private side, under replace-one: the release shows one row per record.
    second
        Another vault of as many columns and the same clip, which pays too; or a public array (m, d), which nobody pays
        for and which gets the same clip and noise.
    epsilon, delta
        The guarantee of each private side. σ is calibrated to it, by the exact law of the directions.
    slices
        How many directions k; the smaller of 50 and d unless given.
    p
        Order of the distance, from 1 to 2: beyond, the bias may exceed the null level, and no interval is known.
    frame
        "orthogonal" or "independent" directions. They are drawn afresh, the same for both sides.
    seed
        Of the draws behind the interval; it changes neither noise nor directions.
    purpose
        What the ledgers write down.

    Returns
    -------
    PrivateSliced
        `value`, `interval`, `null_level`, `raw`, `guarantees`.

    Raises
    ------
    UsageError
        If the sides do not fit each other or have fewer than 8 records, before anything is paid.
    BudgetError
        If a budget does not cover the release, before anything is paid on either side.
    NoTheoremError
        Under add-remove.

    Notes
    -----
    Formal guarantees, replace-one, the unit is one record:
      * each private side is one `RandomProjection` of its vault: proven, charged before it runs;
      * both sides share directions, which is covered where no record is in both: whoever has records in both files
        gets two releases on the same directions, for which no number is stated, so one vault is refused as both sides;
      * distance, interval and null level are computed from released rows: post-processing.

    The null level is bounded from both sides: halves of the released rows, scaled from n/2 to n by the rate n^(−p/2),
    err to the low side; rows drawn with replacement, whose ties spread them, err to the high side. The value uses the
    middle, the interval both. Its deviation comes from rows drawn again. For p = 2 the bias of samples is the same for
    equal and for other laws. For p < 2 it is smaller for other laws, but never negative, since W_p^p is convex: there
    the interval ends where nothing was subtracted.

    References
    ----------
    Rakotomamonjy & Ralaivola 2021, "Differentially private sliced Wasserstein distance", Algorithm 1; asymptotic
    normality: del Barrio & Loubes 2019.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> vault = Vault(x, clip=5.0, adjacency="replace-one", budget=(10.0, 1e-5))
    >>> found = private_sliced(vault, x + 4.0, epsilon=10.0, delta=1e-5, slices=2)
    >>> found.distinguishable, str(found.guarantees[0].standing), found.guarantees[1]
    (True, 'proven', None)
    """
    terms: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "slices": slices, "p": p}
    with distance_once(first, second, **terms, frame=frame, seed=seed, purpose=purpose) as paid:
        return paid.value


@contextmanager
def distance_once(
    first: Vault,
    second: Any,
    *,
    epsilon: float,
    delta: float,
    slices: int | None = None,
    p: float = 2.0,
    frame: Frame = "orthogonal",
    seed: int = 0,
    purpose: str = "compare by dp-swd",
    public: str | None = None,
) -> Iterator[Paid[PrivateSliced]]:
    """The distance of `private_sliced`, for the block to deliver, which a kill before that does not lose.

    Until the block succeeds it is kept beside the first ledger that pays: the same call finds it there, at no further
    cost. `public` says which side is public ("a" or "b") where that side is a vault too.
    """
    if not isinstance(second, Vault):
        second = Vault(second, clip=first.facts.clip, adjacency=first.facts.adjacency, budget=(epsilon, delta))
        public = "b"
    vaults = (second, first) if public == "a" else (first, second)
    how: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "slices": slices, "p": p}
    check_comparison(*vaults, **how, frame=frame)
    paying = next((vault for vault in (first, second) if vault.ledger is not None), None)

    def choose() -> dict[str, str]:
        # public and fresh: both sides, and both attempts after a kill, have the same directions
        return {"directions": str(secrets.randbits(120))}

    def spent(mark: str) -> int:
        return sum(vault.charges(mark) for vault in vaults if vault.ledger is not None)

    home: Home
    question = None
    if paying is None:
        # nobody's budget outlives this process, so nothing has to be kept
        home, chosen = Memory(), choose()
    else:
        names = [paying.content_name(vault) for vault in (first, second)]
        asked = ["dp-swd", names, first.facts.clip, str(first.facts.adjacency), public, {**how, "seed": seed}]
        if frame != "orthogonal":
            asked.append(frame)
        home = question = of_vault(paying, *asked, choose=choose, parts=SIDES)

    def make() -> PrivateSliced:
        if question is not None and question.file().path.exists():
            # an earlier version kept what it found
            return _named(_found(question.file().path), public)
        runs = [Run(home, lambda vault=vault: vault, vault.charges, plan=Plan(purpose, delta)) for vault in vaults]  # type: ignore[misc]

        @cache
        def mechanism() -> RandomProjection:
            seed = int((chosen if question is None else question.chosen)["directions"])
            return check_comparison(*vaults, **how, frame=frame, directions=seed)

        # both are asked before either pays: a refusal of the second must not cost the first
        for run, side in zip(runs, SIDES, strict=True):
            if not run.charged(side):
                run.vault.check(mechanism().event(run.vault.facts), purpose=purpose)
        a, b = (run.release(mechanism, part=side)[0] for run, side in zip(runs, SIDES, strict=True))
        return _named(compare_projections(a, b, p, seed=seed, second_is_public=public is not None), public)

    if question is None:
        with finishing():
            # an interrupt between the charge and the distance would lose what was paid for
            paid = Paid(make(), False)
        yield paid
        return
    with delivering(question, make, spent=spent, what="comparison") as paid:
        yield paid


def _named(found: PrivateSliced, public: str | None) -> PrivateSliced:
    """`found` with the sides in the order in which they were named: a public one was compared last."""
    if public != "a":
        return found
    turned = {**found.public, "records": found.public["records"][::-1]}
    return replace(found, public=turned, guarantees=found.guarantees[::-1])


def _found(path: Path) -> PrivateSliced:
    """What an earlier version found and kept in `path`."""
    said = parse_json(read_bytes(path, most=MAX_TEXT, inside=path.parent).decode(), "what is kept of a comparison")
    first, second = (None if g is None else read_guarantee(json.dumps(g)) for g in said["guarantees"])
    return PrivateSliced(**{**said, "interval": tuple(said["interval"]), "guarantees": (first, second)})


def check_comparison(
    first: Vault,
    second: Vault,
    *,
    epsilon: float,
    delta: float,
    slices: int | None = None,
    p: float = 2.0,
    frame: Frame = "orthogonal",
    directions: int | None = None,
) -> RandomProjection:
    """What both sides would release, refused by public facts where they do not fit; nothing is paid.

    Parameters are those of `private_sliced`; σ is the smallest that meets (ε, δ). `directions` is the seed of the
    directions, for a release that is made again after a crash; a fresh one unless given.
    """
    if arguments.real("p", p, 1.0, strict=False) > 2.0:
        raise UsageError(f"A private distance is debiased for orders p from 1 to 2, got {p:g}.")
    a, b = first.facts, second.facts
    if first is second or (first.ledger is not None and first.ledger == second.ledger):
        raise UsageError("Both sides are the same data set: a private distance needs two.")
    if a.dim != b.dim:
        raise DataError(f"A has {a.dim} columns and B has {b.dim}: both need the same columns.")
    if a.clip != b.clip or a.adjacency is not b.adjacency:
        raise UsageError(f"Both sides need the same clip and adjacency, got clips {a.clip:g} and {b.clip:g}.")
    for side in (a, b):
        if side.records is not None and side.records < MIN_RECORDS:
            raise UsageError(f"A private distance needs at least {MIN_RECORDS} records per side, got {side.records}.")
    k = min(SLICES, a.dim) if slices is None else slices
    plan = projection(a.dim, k, adjacency=a.adjacency, delta=delta, epsilon=epsilon, clip=a.clip, frame=frame)
    mechanism = RandomProjection(k, plan.sigma, frame, seed=secrets.randbits(120) if directions is None else directions)
    for facts in (a, b):
        mechanism.needs.check(facts)
        mechanism.event(facts)
    return mechanism


def _apart(release: Release) -> Guarantee:
    return replace(release.guarantee, assumptions=(*release.guarantee.assumptions, APART))


def compare_projections(
    first: Release, second: Release, p: float = 2.0, *, seed: int = 0, second_is_public: bool = False
) -> PrivateSliced:
    """The same from two releases of `RandomProjection` on the same directions with the same noise; it costs nothing.

    Raises `DataError` if the releases do not belong together.
    """
    same = ("mechanism", "dim", "slices", "frame", "sigma", "clip", "seed", "step")
    if any(first.public.get(name) != second.public.get(name) for name in same):
        raise DataError("Only releases on the same directions with the same noise and clip can be compared.")
    x, y = (np.asarray(release.value, dtype=np.float64) for release in (first, second))
    generator = np.random.default_rng(seed)
    raw = _power(x, y, p)
    low, high = sorted(_null_powers(x, y, p, generator))
    again = [_power(_drawn(x, generator), _drawn(y, generator), p) for _ in range(DRAWS)]
    off = _t_quantile(DRAWS - 1) * float(np.std(again, ddof=1))
    middle = bias = 0.5 * (low + high)
    if p < 2.0:
        # here the bias falls from null^p towards 0 as laws move apart: it is what drawing again adds, and 0 at least
        bias, low = min(middle, max(0.0, float(np.mean(again)) - raw)), 0.0
    return PrivateSliced(
        value=_root(raw - bias, p),
        interval=(_root(raw - high - off, p), _root(raw - low + off, p)),
        interval_of=MEANING,
        null_level=_root(middle, p),
        raw=_root(raw, p),
        p=p,
        public={**{name: first.public[name] for name in same[1:7]}, "records": [len(x), len(y)]},
        guarantees=(first.guarantee, None) if second_is_public else (_apart(first), _apart(second)),
    )


def _null_powers(x: Rows, y: Rows, p: float, generator: np.random.Generator) -> tuple[float, float]:
    """null^p of samples of n and m rows, by halves of the rows and by rows drawn with replacement.

    Along one direction samples of n and m of one law have W_p^p ≈ c·(1/n + 1/m)^(p/2). Halves of n show c·(4/n)^(p/2),
    pairs drawn again c·(2/n)^(p/2); c^(2/p), a variance, is added up over both sides.
    """
    halves, pairs = [], []
    for rows in (x, y):
        size, found, drawn = len(rows) // 2, [], []
        for _ in range(DRAWS // 4):
            order = generator.permutation(len(rows))
            found.append(_power(rows[order[:size]], rows[order[size : 2 * size]], p))
            drawn.append(_power(_drawn(rows, generator), _drawn(rows, generator), p))
        halves.append(float(np.mean(found)) ** (2.0 / p) * size / (2.0 * len(rows)))
        pairs.append(float(np.mean(drawn)) ** (2.0 / p) / 2.0)
    return sum(halves) ** (p / 2.0), sum(pairs) ** (p / 2.0)


def _power(x: Rows, y: Rows, p: float) -> float:
    """(1/k) Σ_j W_p^p of the j-th columns."""
    from privot.transport import wasserstein_1d

    return float(np.mean(np.asarray(wasserstein_1d(x, y, p).value) ** p))


def _drawn(rows: Rows, generator: np.random.Generator) -> Rows:
    return rows[generator.integers(0, len(rows), len(rows))]


def _root(power: float, p: float) -> float:
    return math.pow(max(0.0, power), 1.0 / p)


def _t_quantile(freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))
