"""What the page is told: the plan in words and numbers, the ledger's view of it, and the lines to copy.

Only texts and plain numbers leave here; the page shows them and computes nothing.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from privot.accounting.events import Event
from privot.accounting.planning.plan_terms import Plan
from privot.accounting.units import group_event
from privot.common.privacy_unit import unit_words
from privot.common.visible import command_line
from privot.errors import PrivotError
from privot.guarantee import Adjacency
from privot.plan import measured
from privot.plan.person import epsilon_of_person
from privot.plan.plan_settings import Settings, read_settings
from privot.plan.planned import Planned
from privot.plan.plans import make_plan


def answer(asked: object, ledger: Path | None = None) -> dict[str, Any]:
    """The answer to a request, as plain JSON types; what cannot be planned is answered by the library's own sentence.

    >>> asked = {"kind": "embedding", "adjacency": "add-remove", "epsilon": 1, "delta": 1e-5, "records": 1000, "person": 1}
    >>> round(answer(asked)["numbers"]["sigma"], 3)
    3.731
    >>> answer({"kind": "embedding"})["refused"][:37]
    'Choose which data sets are neighbours'
    """  # noqa: E501
    try:
        settings = read_settings(asked)
        planned = make_plan(settings, ledger)
        plan = planned.plan
        return {
            "headline": f"σ = {plan.sigma:.4g}",
            "promise": f"{plan.guarantee.stated()}; unit: {unit_words(plan.guarantee.unit)}",
            "facts": _facts(plan),
            "errors": [list(row) for row in planned.errors],
            "notes": list(planned.notes),
            "people": _people(settings, plan),
            "measured": [measured.in_words(r) for r in measured.nearest(settings.kind, settings.epsilon)],
            "caution": measured.CAUTION,
            "ledger": None if ledger is None else ledger_view(ledger, plan.event, settings.kind),
            "command": command_line(planned.command),
            "python": planned.python,
            "explanation": plan.guarantee.explain(),
            "numbers": _numbers(planned),
        }
    except PrivotError as error:
        return {"refused": str(error)}


def _facts(plan: Plan) -> list[list[str]]:
    cost = plan.guarantee
    rows = [
        ["ε, as it is counted", f"{cost.epsilon():.6g} at δ = {cost.at_delta:g}"],
        ["adjacency", str(cost.adjacency)],
        ["unit", unit_words(cost.unit)],
        ["standing", str(cost.standing)],
        ["sampling", cost.sampling],
        ["steps", str(plan.steps)],
    ]
    return rows if math.isnan(plan.sensitivity) else [*rows, ["sensitivity", f"{plan.sensitivity:.6g}"]]


def _numbers(planned: Planned) -> dict[str, Any]:
    """What `privot account --json` answers; a number that JSON cannot express is null."""
    found = planned.plan.to_dict()
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in found.items()}


def _people(settings: Settings, plan: Plan) -> str:
    if settings.person == 1:
        return "Somebody with one record in the data is promised what is said above."
    found = epsilon_of_person(plan.event, plan.guarantee, settings.person)
    cost = plan.guarantee
    if not math.isfinite(found):
        return f"Somebody with {settings.person} records is promised nothing at δ = {cost.at_delta:g}."
    said = (
        f"Somebody with {settings.person} records is promised ε = {found:.4g} at δ = {cost.at_delta:g}, "
        f"{cost.adjacency}, {cost.standing}: less than somebody with one."
    )
    if cost.adjacency is not Adjacency.ADD_REMOVE or group_event(plan.event, settings.person) is None:
        return said
    # noise of k·σ beside a sensitivity of k·Δ costs what σ costs beside Δ
    return (
        f"{said} With --unit COLUMN --per-unit {settings.person} the unit is a person, of whom at most "
        f"{settings.person} records take part, and ε stays {cost.epsilon():.4g}: noise, and the errors above, are "
        f"{settings.person} times as large."
    )


def ledger_view(path: Path, event: Event, purpose: str) -> dict[str, Any]:
    """What each data set of the ledger may spend and has spent, and whether it would admit this plan now.

    Nothing is charged; the ledger itself is asked.
    """
    from privot.ledger import Ledger

    try:
        with Ledger.open(path) as ledger:
            rows = []
            for budget in ledger.datasets():
                spent = ledger.spent(budget.fingerprint)
                refused = None
                try:
                    ledger.check(budget.fingerprint, event, f"plan of a {purpose}")
                except PrivotError as error:
                    refused = str(error)
                used = 0.0 if spent is None else spent.epsilon()
                terms = f"at δ = {budget.delta:g}, {budget.relation}"
                rows.append(
                    {
                        "label": budget.label,
                        "spent": used if math.isfinite(used) else None,
                        "budget": budget.epsilon,
                        "share": min(1.0, used / budget.epsilon),
                        "words": f"ε = {used:.4g} of {budget.epsilon:g} is spent {terms}"
                        + ("." if spent is None else f", {spent.standing}."),
                        "refused": refused,
                        "verdict": "The ledger would admit this plan now." if refused is None else refused,
                    }
                )
            return {"file": str(path), "datasets": rows, "problem": None}
    except (PrivotError, OSError) as error:
        said = str(error) if isinstance(error, PrivotError) else f"{path} cannot be read."
        return {"file": str(path), "datasets": [], "problem": said}
