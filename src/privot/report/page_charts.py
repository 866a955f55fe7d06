"""The charts of a page, each a drawing from plain numbers: budgets, curves, columns, heat maps, confusion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from privot.report.svg_drawing import WIDTH, Drawing, clean, fitting

Points = Sequence[tuple[float, float]]

_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 12.0, 24.0, 36.0
"""Margins of a chart with two axes."""
MAX_POINTS = 240
"""Points of one line that are drawn."""
MAX_BARS = 14
"""Categories of one column that are drawn."""
MAX_SIDE = 40
"""Rows of a heat map that are drawn."""


def odds(guess: float, stated: str) -> Drawing:
    """How often an attacker may be right at most, between a coin and certainty."""
    words = f"At most {stated}: 50 % is a coin flip, 100 % is certainty."
    made = Drawing("How often an attacker's best guess can be right", words, 74.0)
    left, right = 12.0, WIDTH - 12.0
    at = left + (right - left) * (min(max(guess, 0.5), 1.0) - 0.5) / 0.5
    made.box("track", left, 30.0, right - left, 14.0, rx=7.0)
    made.box("fill " + ("good" if guess <= 0.75 else "fair" if guess <= 0.9 else "poor"), left, 30.0, at - left, 14.0)
    made.line("ink", at, 24.0, at, 50.0)
    made.text(f"at most {stated}", min(max(at, 60.0), WIDTH - 60.0), 18.0, "label strong middle")
    made.text("50 %: a coin flip", left, 66.0)
    made.text("100 %: certain", right, 66.0, "label end")
    return made


def budget_bar(spent: float, budget: float, terms: str) -> Drawing:
    """What all releases cost together, and what is left of the budget."""
    share = min(max(spent / budget, 0.0), 1.0) if budget > 0.0 else 1.0
    # less than a thousandth is the rounding of a calibration, not something to spend
    left_over = budget - spent if budget - spent > 1e-3 * budget else 0.0
    words = f"ε = {spent:.4g} of {budget:.4g} is spent ({100 * share:.0f} %), {terms}; {left_over:.3g} is left."
    made = Drawing("The privacy budget of this data set", words, 74.0)
    left, width = 12.0, WIDTH - 24.0
    made.box("track", left, 30.0, width, 14.0)
    made.box("fill made", left, 30.0, share * width, 14.0)
    made.text(f"spent: ε = {spent:.4g}", left, 18.0, "label strong")
    made.text(f"left: {left_over:.3g}", left + width, 18.0, "label strong end")
    made.text("0", left, 62.0)
    made.text(f"budget: ε = {budget:.4g}", left + width, 62.0, "label end")
    return made


def privacy_curve(points: Points, at: tuple[float, float]) -> Drawing:
    """ε against δ (δ on a logarithmic scale), with the quoted point marked."""
    held = sorted((math.log10(d), e) for d, e in points if d > 0.0 and math.isfinite(e))
    described = f"ε falls as δ grows; quoted: ε = {at[1]:.4g} at δ = {at[0]:g}."
    made = Drawing("The whole promise: ε at every δ", described, 210.0)
    if len(held) < 2:
        made.text("No finite ε at any δ.", 20.0, 40.0)
        return made
    scale = _Scale(made, (held[0][0], held[-1][0]), (0.0, max(e for _, e in held)))
    for power in range(math.ceil(held[0][0]), math.floor(held[-1][0]) + 1):
        if power % 3 == 0:
            scale.below(power, f"1e{power}")
    scale.sides()
    scale.names("δ: probability that the promise may fail", "ε")
    made.path("stroke made", [scale(x, y) for x, y in held])
    x, y = scale(math.log10(at[0]), at[1])
    made.shape("circle", "fill made", cx=x, cy=y, r=4.5)
    # the curve falls, so this corner is free
    made.text(f"ε = {at[1]:.4g} at δ = {at[0]:g}", WIDTH - _RIGHT, _TOP + 14.0, "label strong end")
    return made


def steps_line(values: Sequence[float], name: str) -> Drawing:
    """A watched quantity, step by step; on a logarithmic scale where it stays above 0."""
    finite = [(k + 1.0, v) for k, v in enumerate(values) if math.isfinite(v)]
    thin = finite[:: max(1, -(-len(finite) // MAX_POINTS))]
    logarithmic = bool(thin) and min(v for _, v in thin) > 0.0
    ends = f"from {thin[0][1]:.4g} to {finite[-1][1]:.4g} in {len(values)} steps" if thin else "no finite value"
    made = Drawing(f"Training: {name}", f"{clean(name)}: {ends}.", 190.0)
    if len(thin) < 2:
        made.text("Too few steps to draw.", 20.0, 40.0)
        return made
    shown = [(k, math.log10(v) if logarithmic else v) for k, v in thin]
    scale = _Scale(made, (1.0, float(len(values))), (min(v for _, v in shown), max(v for _, v in shown)))
    scale.below(1.0, "1")
    scale.below(float(len(values)), f"{len(values)}")
    scale.sides(lambda v: f"{10**v:.3g}" if logarithmic else f"{v:.3g}")
    scale.names("step", "")
    made.path("stroke made", [scale(x, y) for x, y in shown])
    return made


def column_bars(
    name: str,
    words: Sequence[str],
    made_of: Sequence[float],
    real: Sequence[float] | None,
    ends: tuple[str, str] | None,
    others: int | None = 0,
    distance: float | None = None,
) -> Drawing:
    """The shares of one column's values: synthetic as bars, real as a line over them; a number has `ends`.

    Of categories the `MAX_BARS` commonest are drawn, and one more bar is the sum of all the others: those that are
    given and `others` more (None where nobody knows how many), which have what the given ones lack of 1. `distance` is
    the total variation over all of them.
    """
    size = min(len(made_of), len(real) if real is not None else len(made_of))
    order = list(range(size))
    if ends is None and size > MAX_BARS:
        order = sorted(order, key=lambda k: -max(made_of[k], 0.0 if real is None else real[k]))[:MAX_BARS]
        first = max(range(size), key=lambda k: made_of[k])
        # of synthetic rows the commonest is named, however common others are in real ones
        order = order if first in order else [*order[:-1], first]
    apart = "" if distance is None else f" Total variation between synthetic and real: {distance:.3f}."
    bars = [(words[k] if ends is None else "", made_of[k], None if real is None else real[k]) for k in order]
    most = max(bars, key=lambda bar: bar[1], default=None)
    most_word = "" if ends is not None or most is None else f" Most frequent: {clean(most[0])}, {100 * most[1]:.1f} %."
    if ends is None and size:
        bars += _summed(made_of, real, order, None if others is None else others + size - len(order))
    height = 150.0 if ends is not None else 26.0 + 19.0 * len(bars)
    counted = f"{size}" if not others else f"{size + others}"
    drawn = Drawing(
        f"Column {clean(name, 60)}", f"Shares of {counted} values or ranges.{most_word}{apart}", height, 300.0
    )
    drawn.text(fitting(name, 200.0), 0.0, 14.0, "label strong")
    if distance is not None:
        drawn.text(f"differs by {100 * distance:.1f} %", 300.0, 14.0, "label end")
    top = max([share for _, *shares in bars for share in shares if share is not None] + [1e-9])
    if ends is None:
        _lying(drawn, bars, top)
        return drawn
    base, tall, wide = 128.0, 104.0, 300.0 / max(size, 1)
    for k, (_, share, _) in enumerate(bars):
        high = tall * share / top
        drawn.box("fill made soft", k * wide, base - high, max(wide - 0.6, 0.4), high, f"{100 * share:.1f} %")
    if real is not None:
        steps = [(x, base - tall * real[k] / top) for k in order for x in (k * wide, (k + 1) * wide)]
        drawn.path("stroke real", steps)
    drawn.line("axis", 0.0, base, 300.0, base)
    drawn.text(clean(ends[0], 20), 0.0, 143.0)
    drawn.text(clean(ends[1], 20), 300.0, 143.0, "label end")
    return drawn


Bar = tuple[str, float, float | None]


def _summed(
    made_of: Sequence[float], real: Sequence[float] | None, order: Sequence[int], count: int | None
) -> list[Bar]:
    """One bar for all categories that are not in `order`, if there are any."""
    rest = max(0.0, 1.0 - sum(made_of[k] for k in order))
    beside = None if real is None else max(0.0, 1.0 - sum(real[k] for k in order))
    if count is None:
        return [("others", rest, beside)] if max(rest, beside or 0.0) > 1e-6 else []
    return [(f"others ({count})", rest, beside)] if count else []


def _lying(drawn: Drawing, bars: Sequence[Bar], top: float) -> None:
    """Bars from left to right, one line per category."""
    left, wide = 106.0, 150.0
    for place, (word, share, real) in enumerate(bars):
        y = 24.0 + 19.0 * place
        drawn.text(fitting(word, left - 6.0), left - 6.0, y + 11.0, "label end")
        told = "" if real is None else f", of real records {100 * real:.1f} %"
        drawn.box("fill made soft", left, y, wide * share / top, 13.0, f"{clean(word)}: {100 * share:.1f} %{told}")
        if real is not None:
            x = left + wide * real / top
            drawn.line("stroke real", x, y - 2.0, x, y + 15.0)
        drawn.text(f"{100 * share:.1f} %", 300.0, y + 11.0, "label end")


def heat_map(title: str, names: Sequence[str], matrix: Sequence[Sequence[float]]) -> Drawing:
    """Numbers from −1 to 1: one hue for each sign, stronger where the number is larger."""
    size = min(len(names), MAX_SIDE)
    pairs = [(abs(matrix[i][j]), i, j) for i in range(size) for j in range(i)]
    strongest = max(pairs, default=(0.0, 0, 0))
    words = f"{size} columns."
    if pairs:
        first, second = clean(names[strongest[1]], 40), clean(names[strongest[2]], 40)
        words += f" Strongest: {first} and {second}, {matrix[strongest[1]][strongest[2]]:.2f}."
    left, wide = 96.0, WIDTH - 96.0 - 4.0
    cell = wide / max(size, 1)
    drawn = Drawing(title, words, 24.0 + wide + 4.0)
    drawn.text(fitting(title, WIDTH), 0.0, 14.0, "label strong")
    for i in range(size):
        if cell >= 9.0 or i % 2 == 0:
            drawn.text(fitting(names[i], left - 6.0), left - 6.0, 24.0 + (i + 0.5) * cell + 4.0, "label end")
        for j in range(size):
            value = 1.0 if i == j else min(max(float(matrix[i][j]), -1.0), 1.0)
            note = f"{clean(names[i], 40)}, {clean(names[j], 40)}: {value:.2f}"
            place = left + j * cell, 24.0 + i * cell
            drawn.box("cell", *place, cell - 1.0, cell - 1.0)
            drawn.box(
                f"fill {'made' if value >= 0 else 'real'}", *place, cell - 1.0, cell - 1.0, note, opacity=abs(value)
            )
    return drawn


def roc_curves(title: str, curves: Mapping[str, tuple[str, Points]]) -> Drawing:
    """True against false positive rates; name → (class of its line, points)."""
    drawn = Drawing(
        title, "; ".join(clean(name, 60) for name in curves) + ". Higher and further left is better.", 250.0
    )
    scale = _Scale(drawn, (0.0, 1.0), (0.0, 1.0))
    for share in (0.0, 0.5, 1.0):
        scale.below(share, f"{100 * share:.0f} %")
    scale.sides(lambda v: f"{100 * v:.0f} %")
    scale.names("false alarms", "found")
    drawn.path("axis dashed", [scale(0.0, 0.0), scale(1.0, 1.0)])
    for place, (name, (look, points)) in enumerate(curves.items()):
        held = [scale(min(max(x, 0.0), 1.0), min(max(y, 0.0), 1.0)) for x, y in points]
        drawn.path(f"stroke {look}", held)
        y = drawn.height - _BOTTOM - 12.0 - 16.0 * place
        drawn.line(f"stroke {look}", 176.0, y - 4.0, 196.0, y - 4.0)
        drawn.text(fitting(name, WIDTH - 202.0), 202.0, y)
    return drawn


def confusion_map(title: str, matrix: Sequence[Sequence[int]], names: Sequence[str]) -> Drawing:
    """What records of each class (rows) were taken for (columns); shares of the row's records."""
    size = min(len(matrix), MAX_SIDE)
    right = sum(matrix[k][k] for k in range(size))
    count = max(sum(map(sum, matrix)), 1)
    wrong = max(((matrix[i][j], i, j) for i in range(size) for j in range(size) if i != j), default=(0, 0, 0))
    words = f"{100 * right / count:.1f} % of {count} records are right."
    if wrong[0]:
        words += (
            f" Most often mistaken: {clean(names[wrong[1]], 40)} for {clean(names[wrong[2]], 40)}, {wrong[0]} times."
        )
    left = 62.0
    cell = (WIDTH - left - 4.0) / max(size, 1)
    drawn = Drawing(title, words, 40.0 + size * cell + 4.0)
    drawn.text("taken for", left + size * cell / 2.0, 12.0, "label strong middle")
    for i in range(size):
        if cell >= 12.0:
            drawn.text(fitting(names[i], cell), left + (i + 0.5) * cell, 32.0, "label middle")
            drawn.text(fitting(names[i], left - 6.0), left - 6.0, 40.0 + (i + 0.5) * cell + 4.0, "label end")
        total = max(sum(matrix[i]), 1)
        for j in range(size):
            share, place = matrix[i][j] / total, (left + j * cell, 40.0 + i * cell)
            note = f"{clean(names[i], 40)} taken for {clean(names[j], 40)}: {matrix[i][j]} of {total}"
            drawn.box("cell", *place, cell - 1.0, cell - 1.0)
            look = "fill made" if i == j else "fill real"
            drawn.box(look, *place, cell - 1.0, cell - 1.0, note, opacity=0.45 * min(share, 1.0))
            if matrix[i][j] and cell >= 22.0:
                drawn.text(f"{matrix[i][j]}", place[0] + cell / 2.0, place[1] + cell / 2.0 + 4.0, "label middle")
    return drawn


def score_bars(title: str, rows: Sequence[tuple[str, str, float]], most: float = 1.0) -> Drawing:
    """Named bars of shares: (name, class of the bar, value)."""
    words = "; ".join(f"{clean(name, 60)}: {100 * value:.1f} %" for name, _, value in rows)
    drawn = Drawing(title, words + ".", 8.0 + 34.0 * len(rows))
    for place, (name, look, value) in enumerate(rows):
        y = 34.0 * place
        drawn.text(fitting(name, WIDTH - 60.0), 0.0, y + 12.0)
        drawn.text(f"{100 * value:.1f} %", WIDTH, y + 12.0, "label strong end")
        drawn.box("track", 0.0, y + 17.0, WIDTH, 10.0)
        drawn.box(f"fill {look}", 0.0, y + 17.0, WIDTH * min(max(value / most, 0.0), 1.0), 10.0)
    return drawn


def paired_dots(title: str, rows: Sequence[tuple[str, float, float]]) -> Drawing:
    """Two values per row on one scale, from 0 or below to 1 at most: (name, synthetic, real), and the gap between."""
    words = "; ".join(f"{clean(name, 60)}: synthetic {made:.2f}, real {real:.2f}" for name, made, real in rows)
    low = max(min([0.0, *(v for row in rows for v in row[1:])]), -1.0)
    drawn = Drawing(title, words + ".", 24.0 + 34.0 * len(rows))
    left, wide = 6.0, WIDTH - 12.0

    def at(value: float) -> float:
        return left + wide * _share(value, (low, 1.0))

    for place, (name, made, real) in enumerate(rows):
        y = 34.0 * place
        drawn.text(fitting(name, WIDTH - 130.0), 0.0, y + 12.0)
        drawn.text(f"{made:.2f}, real {real:.2f}", WIDTH, y + 12.0, "label end")
        drawn.line("rule", left, y + 23.0, left + wide, y + 23.0)
        drawn.line("ink", at(made), y + 23.0, at(real), y + 23.0)
        drawn.shape("circle", "fill made", cx=at(made), cy=y + 23.0, r=5.0)
        drawn.shape("rect", "fill real", x=at(real) - 2.0, y=y + 16.0, width=4.0, height=14.0)
    base = 34.0 * len(rows)
    for value in dict.fromkeys((low, 0.0, 1.0)):
        drawn.text(f"{value:.2g}", at(value), base + 14.0, "label" + (" end" if value == 1.0 else ""))
    return drawn


def claimed_bars(rows: Sequence[tuple[str, float | None, float]]) -> Drawing:
    """Attacks: the measured ε as a bar, the claimed one as a mark that no bar should pass."""
    claims = [c for _, c, _ in rows if c is not None and math.isfinite(c)]
    top = 1.1 * max([*claims, *[m for _, _, m in rows], 1e-9])
    words = "; ".join(
        f"{clean(name, 60)}: measured ≥ {seen:.3g}, claimed {'nothing' if said is None else f'{said:.3g} at most'}"
        for name, said, seen in rows
    )
    drawn = Drawing("Attacks: measured ε and claimed ε", words + ".", 8.0 + 36.0 * len(rows))
    for place, (name, said, seen) in enumerate(rows):
        y = 36.0 * place
        told = f"{seen:.3g} of {said:.3g}" if said is not None else f"{seen:.3g}"
        drawn.text(fitting(name, WIDTH - 110.0), 0.0, y + 12.0)
        drawn.text(told, WIDTH, y + 12.0, "label strong end")
        drawn.box("track", 0.0, y + 18.0, WIDTH, 10.0)
        beyond = said is not None and seen > said
        drawn.box("fill " + ("poor" if beyond else "made"), 0.0, y + 18.0, WIDTH * seen / top, 10.0)
        if said is not None:
            drawn.line("ink", WIDTH * said / top, y + 14.0, WIDTH * said / top, y + 32.0)
    return drawn


def distance_line(value: float, interval: tuple[float, float], null_level: float) -> Drawing:
    """A distance with its interval, beside what two samples of one population would show at most."""
    low, high = interval
    words = f"Distance {value:.3g}, from {low:.3g} to {high:.3g}; one population would show {null_level:.3g} at most."
    drawn = Drawing("Distance between two data sets", words, 82.0)
    top = 1.15 * max(high, null_level, value, 1e-9)
    left, wide = 12.0, WIDTH - 24.0
    drawn.line("axis", left, 44.0, left + wide, 44.0)
    drawn.box("track", left, 34.0, wide * null_level / top, 20.0)
    drawn.box("fill made soft", left + wide * low / top, 36.0, wide * (high - low) / top, 16.0)
    drawn.shape("circle", "fill made", cx=left + wide * value / top, cy=44.0, r=5.0)
    at = left + wide * value / top
    drawn.text(f"{value:.3g} ({low:.3g} to {high:.3g})", min(max(at, 60.0), WIDTH - 70.0), 24.0, "label strong middle")
    drawn.text(f"grey: one population split in two, up to {null_level:.3g}", left, 74.0)
    return drawn


class _Scale:
    """Numbers to places on a chart with two axes, and the axes themselves."""

    def __init__(self, drawn: Drawing, x: tuple[float, float], y: tuple[float, float]) -> None:
        self._drawn, self._x, self._y = drawn, x, y
        self._base = drawn.height - _BOTTOM
        drawn.line("axis", _LEFT, self._base, drawn.width - _RIGHT, self._base)
        drawn.line("axis", _LEFT, _TOP, _LEFT, self._base)

    def __call__(self, x: float, y: float) -> tuple[float, float]:
        wide, tall = self._drawn.width - _LEFT - _RIGHT, self._base - _TOP
        return _LEFT + wide * _share(x, self._x), self._base - tall * _share(y, self._y)

    def below(self, x: float, words: str) -> None:
        """A mark on the lower axis."""
        at, _ = self(x, self._y[0])
        self._drawn.line("axis", at, self._base, at, self._base + 4.0)
        self._drawn.text(words, at, self._base + 16.0, "label middle")

    def sides(self, said: object = None) -> None:
        """Marks at both ends and the middle of the left axis."""
        low, high = self._y
        for value in (low, (low + high) / 2.0, high):
            at = self(self._x[0], value)[1]
            self._drawn.line("rule", _LEFT, at, self._drawn.width - _RIGHT, at)
            words = said(value) if callable(said) else f"{value:.3g}"
            self._drawn.text(words, _LEFT - 6.0, at + 4.0, "label end")

    def names(self, x: str, y: str) -> None:
        """What the axes show."""
        middle = (_LEFT + self._drawn.width - _RIGHT) / 2.0
        self._drawn.text(x, middle, self._drawn.height - 4.0, "label middle")
        if y:
            self._drawn.text(y, 4.0, 10.0)


def _share(value: float, ends: tuple[float, float]) -> float:
    low, high = ends
    return 0.0 if high <= low else min(max((value - low) / (high - low), 0.0), 1.0)
