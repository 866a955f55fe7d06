"""From settings to a plan: what would be charged, how wrong the answer is, and the lines to copy; no record is read.

Each kind calls the library function that its command calls, so that page and command cannot differ.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from privot.accounting import embedding, gradient, projection
from privot.accounting.events import Gaussian
from privot.errors import UsageError
from privot.mechanisms import Count, Histogram, Mean
from privot.plan.plan_settings import Settings
from privot.plan.planned import DATA, Planned, call, facts_of, paid_by, plain, planned_release, words


def make_plan(settings: Settings, ledger: Path | None = None) -> Planned:
    """The plan of these settings; `ledger` is named in the lines to copy where the command would charge one."""
    if settings.kind in ("table", "images"):
        from privot.plan.synthesis_plans import synthesis_plan

        return synthesis_plan(settings, ledger)
    if settings.kind in ("mean", "count", "histogram"):
        return _summary(settings, ledger)
    return {"embedding": _embedding, "projection": _projection, "gradient": _gradient}[settings.kind](settings)


# --- simple numbers


def _summary(s: Settings, ledger: Path | None) -> Planned:
    terms: dict[str, Any] = {"epsilon": s.epsilon, "delta": s.delta}
    facts = facts_of(s, 1)
    options: dict[str, Any] = {}
    mechanism: Count | Mean | Histogram
    if s.kind == "mean":
        mechanism = Mean(0, (s.low, s.high), **terms)
        error = mechanism.margin(facts, s.records)
        options = {"column": 0, "range": f"{plain(s.low)},{plain(s.high)}"}
        said = ["0", f"range=({plain(s.low)}, {plain(s.high)})"]
        errors = [
            ("the mean", f"± {error:.4g}, in the column's unit"),
            ("of the range", f"± {100 * error / (s.high - s.low):.3g} %"),
        ]
    elif s.kind == "count":
        # of some records: the number of all of them is public under replace-one, where no release is needed
        options = {"column": 0, "between": "0,1"}
        mechanism = Count(0, between=(0.0, 1.0), **terms)
        said = ["0", "between=(0, 1)"]
        error = mechanism.margin(facts)
        errors = [("the count", f"± {error:.4g} records"), ("of all records", f"± {100 * error / s.records:.3g} %")]
    else:
        options = {"column": 0, "bins": s.classes, "range": "0,1"}
        mechanism = Histogram(0, bins=s.classes, range=(0.0, 1.0), **terms)
        said = ["0", f"bins={s.classes}", "range=(0, 1)"]
        error, usual = mechanism.margin(facts), s.records / s.classes
        errors = [
            ("each bin", f"± {error:.4g} records"),
            (f"of a usual bin ({usual:.4g} records)", f"± {100 * error / usual:.3g} %"),
        ]
    event = mechanism.event(facts)
    assert isinstance(event, Gaussian)
    plan = planned_release(event, event.sigma, event.sensitivity, s.delta)
    options |= {"epsilon": s.epsilon, "delta": s.delta, "adjacency": s.adjacency}
    if ledger is not None:
        options["ledger"] = ledger
    name = type(mechanism).__name__
    held = f'"{DATA}"', "Vectors(clip=1.0)"
    python = "\n".join(
        [
            f"from privot import {'Ledger, ' if ledger is not None else ''}{name}, Vault",
            "from privot.kinds import Vectors",
            "",
            *call("vault = Vault.open", *held, f'adjacency="{s.adjacency}"', paid_by(s, ledger)),
            *call(f"{s.kind} = {name}", *said, f"epsilon={plain(s.epsilon)}", f"delta={plain(s.delta)}"),
            f'print(vault.release({s.kind}, purpose="a {s.kind}").value)',
        ]
    )
    notes = ("The answer comes with an interval of 95 %: what is shown is half its width. It covers the noise alone.",)
    return Planned(plan, errors, ["privot", "release", s.kind, DATA, *words(options)], python, notes)


# --- what `privot account` plans


def _embedding(s: Settings) -> Planned:
    plan = embedding(adjacency=s.adjacency, delta=s.delta, epsilon=s.epsilon)
    error = plan.sigma / s.records
    errors = [
        ("each number of the mean embedding", f"noise of {error:.4g}, where a record's features have norm 1"),
        ("hidden", f"a difference of means below about {2 * error:.3g}"),
    ]
    terms = {"epsilon": s.epsilon, "delta": s.delta, "adjacency": s.adjacency}
    return Planned(plan, errors, ["privot", "account", "embedding", *words(terms)], _python("embedding", (), terms))


def _projection(s: Settings) -> Planned:
    terms = _training(s)
    plan = projection(
        s.columns, s.slices, adjacency=s.adjacency, delta=s.delta, epsilon=s.epsilon, records=s.records, batch=s.batch,
        epochs=s.epochs,
    )  # fmt: skip
    # a record of norm C has projections of size C/√columns
    usual = 0.5 / math.sqrt(s.columns)
    errors = [
        ("each projected value", f"noise of {plan.sigma:.4g}, where values are about {usual:.3g}"),
        ("the mean of a batch along one slice", f"noise of {plan.sigma / math.sqrt(s.batch):.4g}"),
    ]
    shown = {"dim": s.columns, "slices": s.slices, **terms}
    python = _python("projection", (s.columns, s.slices), terms)
    return Planned(plan, errors, ["privot", "account", "projection", *words(shown)], python)


def _gradient(s: Settings) -> Planned:
    terms = {"clipping": s.clipping, **_training(s)}
    plan = gradient(
        adjacency=s.adjacency, delta=s.delta, epsilon=s.epsilon, records=s.records, batch=s.batch, epochs=s.epochs,
        clipping=s.clipping,  # type: ignore[arg-type]
    )  # fmt: skip
    if s.clipping == "per-example":
        share = plan.sigma / s.batch
        errors = [("each number of the mean gradient", f"noise of {share:.4g}, where a gradient has norm at most 1")]
    else:
        errors = [("each number of the gradient", f"noise of {plan.sigma:.4g}, where all of it has norm at most 1")]
    return Planned(plan, errors, ["privot", "account", "gradient", *words(terms)], _python("gradient", (), terms))


def _training(s: Settings) -> dict[str, Any]:
    if s.batch > s.records:
        raise UsageError(f"A batch of {s.batch} needs at least as many records, got {s.records}.")
    terms = {"records": s.records, "batch": s.batch, "epochs": s.epochs, "epsilon": s.epsilon, "delta": s.delta}
    return {**terms, "adjacency": s.adjacency}


def _python(function: str, first: tuple[int, ...], terms: dict[str, Any]) -> str:
    said = [*map(str, first), *(f"{name}={value!r}" for name, value in terms.items())]
    lines = [f"from privot.accounting import {function}", "", *call(f"plan = {function}", *said), "print(plan.sigma)"]
    return "\n".join(lines)
