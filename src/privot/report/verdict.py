"""The verdict on a release in plain words: what is promised to whom, what it cost, and the fine print behind both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from privot import guarantee as curves
from privot.guarantee import Adjacency, Guarantee, Standing
from privot.jobs.spending import budget_of, spent_rows
from privot.report.html_page import Card, Chart, Code, Items, Paragraph, Part, Rows, Section
from privot.report.page_charts import budget_bar, odds, privacy_curve

STRONG, MODERATE, WEAK = 1.0, 3.0, 8.0
"""Where our words for ε change. They are a convention, not a theorem; the page says so."""
_LEAST_DELTA, _LARGEST_DELTA = 1e-12, 0.1
"""Between which δ the curve is drawn."""
_WORDS = (
    (STRONG, "good", "A strong promise"),
    (MODERATE, "good", "A moderate promise"),
    (WEAK, "fair", "A weak promise"),
    (math.inf, "poor", "Hardly a promise"),
)
_SEVERAL = " Somebody with several records in the data is promised less."
_CONVENTION = (
    f"Our words: strong up to ε = {STRONG:g}, moderate up to {MODERATE:g}, weak up to {WEAK:g}. They are a convention; "
    "the numbers are what holds."
)


def in_words(guarantee: Guarantee) -> tuple[str, str]:
    """(good, fair or poor; the promise in three words)."""
    if guarantee.standing is not Standing.PROVEN or not math.isfinite(guarantee.epsilon()):
        return "poor", "No proven promise"
    _, look, words = next(row for row in _WORDS if guarantee.epsilon() <= row[0])
    return look, words


def percent_up(share: float) -> str:
    """A probability in percent, rounded up, with as many digits as it takes not to call it certain.

    >>> percent_up(0.54971), percent_up(0.999961), percent_up(1.0)
    ('55.0 %', '99.997 %', '100 %')
    """
    if share >= 1.0:
        return "100 %"
    places = min(8, max(1, math.ceil(-math.log10(100.0 * (1.0 - share)))))
    percent = math.ceil(share * 100.0 * 10**places) / 10**places
    return "100 %" if percent >= 100.0 else f"{percent:.{places}f} %"


def promise_card(guarantee: Guarantee | None, what: str) -> Card:
    """What is promised, and to whom."""
    title = "What is promised, and to whom"
    if guarantee is None:
        return Card(title, [Paragraph("Nothing was released: no private record was looked at.", "verdict")], "good")
    look, words = in_words(guarantee)
    neighbours = {
        Adjacency.ADD_REMOVE: "any one record had not been in the data, or one more had been",
        Adjacency.REPLACE_ONE: "any one record had been another one",
    }[guarantee.adjacency]
    whom, less = "To everybody whose record is in the data, one record each", _SEVERAL
    if guarantee.unit is not None:
        unit = guarantee.unit
        neighbours = f"everything of any one {unit.name} had not been in the data, or that of one more had been"
        same = f"all rows with the same {unit.name}; at most {unit.rows} of them are used"
        whom, less = f"To every {unit.name} in the data ({same})", ""
    epsilon, delta = guarantee.epsilon(), guarantee.at_delta
    parts: list[Part] = [Paragraph(f"{words}: {guarantee.stated()}.", "verdict")]
    if guarantee.standing is not Standing.PROVEN:
        parts.append(Paragraph("No theorem stands behind this number: it must not be relied on to protect anybody."))
    elif math.isfinite(epsilon):
        guess = guarantee.best_guess()
        parts += [
            Paragraph(
                f"{whom}: {what} would have come out almost the "
                f"same if {neighbours}. Who sees all of it, and must guess at even odds which of the two it was, is "
                f"right at most {percent_up(guess)} of the time."
            ),
            Chart(odds(guess, percent_up(guess))),
        ]
        by_quote = 1.0 - (1.0 - delta) / (1.0 + math.exp(min(epsilon, 500.0)))
        parts.append(
            Paragraph(
                f"From ε and δ alone the bound would be {percent_up(by_quote)}; the whole curve below says more. "
                f"{_CONVENTION}{less}",
                "quiet",
            )
        )
    else:
        parts.append(Paragraph("At this δ nothing is promised."))
    return Card(title, parts, look)


def cost_card(folder: Path, guarantee: Guarantee | None) -> Card:
    """What it cost, and what is left in the budget."""
    title = "What it cost, and what is left"
    if guarantee is None:
        return Card(title, [Paragraph("It cost nothing.", "verdict")])
    parts: list[Part] = [Paragraph(f"This release cost {guarantee.stated()}.", "verdict")]
    budget = budget_of(folder)
    if budget is None:
        parts.append(
            Paragraph("This folder does not say which budget paid for it: ask the ledger (privot ledger show).")
        )
    else:
        parts += [Chart(budget_bar(*budget), f"Both numbers {budget[2]}."), Paragraph(_left(*budget[:2]))]
    parts += [
        Paragraph(f"{words}.") for what, words in spent_rows(folder, guarantee) if what == "more than the guarantee"
    ]
    return Card(title, parts)


def _left(spent: float, budget: float) -> str:
    if spent >= 0.999 * budget:
        return "The budget is spent: the ledger refuses every further release from these records."
    return (
        "For all releases from these records that the ledger knew when this page was written. Releases are counted "
        "together, which is less than adding up: a little more than the difference may fit."
    )


def curve_section(guarantee: Guarantee) -> Section:
    """ε at every δ."""
    # the δ at which a written guarantee tabulates ε: those are counted already
    deltas = [d for d in curves.TABLE_DELTAS if _LEAST_DELTA <= d <= _LARGEST_DELTA]
    points = [(d, guarantee.epsilon(d)) for d in (*deltas, guarantee.at_delta)]
    curve = privacy_curve(points, (guarantee.at_delta, guarantee.epsilon()))
    said = (
        f"{guarantee.relation}, {guarantee.standing}. δ bounds the probability with which the promise of ε may fail. "
        "One release satisfies all these pairs at once."
    )
    return Section("The promise at other δ", [Chart(curve, said)])


def fine_print(folder: Path, guarantee: Guarantee | None, facts: Sequence[Sequence[str]], command: str) -> Section:
    """Everything for those who check: assumptions, events, the ledger's numbers, configuration, command."""
    parts: list[Part] = []
    if guarantee is not None:
        events = [[str(number), event_words(event)] for number, event in enumerate(guarantee.events, 1)]
        parts += [
            Paragraph(guarantee.explain()),
            Rows("What was paid for", ["event", "as it is counted"], events),
        ]
        if guarantee.assumptions:
            parts += [Paragraph("What the promise rests on, besides the mathematics:"), Items(guarantee.assumptions)]
    rows = spent_rows(folder, guarantee)
    if rows:
        parts.append(Rows("What the ledger holds", [], rows))
    parts.append(Rows("How it was made", [], facts))
    if command:
        said = "The same command again pays again and draws other noise: the numbers above hold, the samples differ."
        parts += [Paragraph("The command that makes such a folder:"), Code(command), Paragraph(said, "quiet")]
    return Section("Fine print", parts, folded=True)


def event_words(event: Any) -> str:
    """An event's fields in words, those of an event inside it in brackets."""
    if not isinstance(event, Mapping):
        return f"{event:.6g}" if isinstance(event, float) else str(event)
    said = [str(event["kind"])] if "kind" in event else []
    for name, value in event.items():
        if isinstance(value, Mapping):
            said.append(f"{name} ({event_words(value)})")
        elif name != "kind" and isinstance(value, int | float | str):
            said.append(f"{name} {event_words(value)}")
        elif isinstance(value, list | tuple) and any(isinstance(v, Mapping) for v in value):
            said.append(f"{name}: " + "; ".join(f"({event_words(v)})" for v in value))
    return ", ".join(said)
