"""`privot value PARTY…`: what parties contribute to a validation set, from sketches or from plain data; no vault."""

from __future__ import annotations

from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing import options as shared
from privot.cli.parsing.options import AsJson, Chart, Classes, PublicSeed, Shape
from privot.cli.printing.guarantee_words import NO_PRIVACY, summary
from privot.cli.printing.printed_answer import number, print_facts, print_json, print_table

if TYPE_CHECKING:
    from privot.data.stated_facts import StatedFacts
    from privot.valuation.party_values import Contributions


def value(
    parties: Annotated[
        list[str],
        typer.Argument(metavar="PARTY…", help="Labelled sketches of one design; or labelled data for all of them."),
    ],
    validation: Annotated[str, typer.Option(help="Validation set: one more of the same kind.")],
    trust: shared.Trust = None,
    draws: Annotated[int, typer.Option(help="Simulations of the noise behind the intervals; 0: no intervals.")] = 100,
    seed: PublicSeed = 0,
    classes: Classes = None,
    shape: Shape = None,
    out: Chart = None,
    as_json: AsJson = False,
) -> None:
    """Compute the Shapley value of every party: how much nearer its records bring all of them to a validation set.

    From sketches this is post-processing and costs nothing. From plain data it is an exact answer without privacy.
    Values are about parties: no private protocol lets a server find bad records; see privot points.

    Example: privot value north.sketch south.sketch --validation hub.sketch --out values.png
    """
    from privot.cli.records import stated
    from privot.errors import UsageError
    from privot.transport.slice_directions import check_seed

    check_seed(seed)
    if draws < 0 or 0 < draws < 100:
        raise UsageError(f"--draws must be 0, or at least 100, got {draws}.")
    if out is not None:
        from privot.report.chart_files import check_ending

        check_ending(out)
    by_sketches = _are_sketches([*parties, validation])
    names = [Path(source).stem for source in parties]
    names = names if len(set(names)) == len(names) else list(parties)
    if by_sketches:
        found, more = _value_sketches(parties, validation, trust, draws, seed, as_json)
    else:
        if trust:
            raise UsageError("--trust works with sketches only: leave it out.")
        found, more = _value_records(parties, names, validation, stated(classes, shape), seed)
    answer = {
        "parties": _parties(found, names),
        **_game(found, names),
        "method": "sketches" if by_sketches else "records",
        **more,
        "plot": None if out is None else str(out),
    }
    if out is not None:
        from privot.cli.printing.charts import draw_values

        draw_values(answer["parties"], by_sketches, out)
    return print_json(answer) if as_json else _print(answer, found)


def _are_sketches(sources: list[str]) -> bool:
    """Whether all sources are sketches; refuses a mixture, and a source that is given twice."""
    from privot.cli.sketch_files import is_sketch
    from privot.errors import DataError, UsageError

    resolved = [realpath(source) for source in sources]
    if len(set(resolved)) < len(resolved):
        twice = sources[next(k for k, name in enumerate(resolved) if name in resolved[:k])]
        raise UsageError(f"{twice!r} is given twice: name every party once, and another file for --validation.")
    kinds = [is_sketch(source) for source in sources]
    if any(kinds) and not all(kinds):
        other = sources[kinds.index(False)]
        if other != "digits" and not Path(other).exists():
            raise DataError(f"There is no file {other!r}: give sketches that `privot sketch` wrote.")
        raise DataError(
            f"{other!r} is no sketch or a damaged one, and others are: give sketches of one design, or data only."
        )
    return kinds[0]


def _value_sketches(
    parties: list[str], validation: str, trust: list[Path] | None, draws: int, seed: int, quiet: bool
) -> tuple[Contributions, dict[str, Any]]:
    from privot.cli.printing.progress import counting_bar
    from privot.cli.sketch_files import read_sketches
    from privot.common.extras import require
    from privot.valuation import value_sketches

    # said before the noise is simulated, which takes a while
    require("Values of parties by sketches need", "torch", "torch")
    require("Values of parties by sketches need", "exact", "ot")
    read, trusted = read_sketches([*parties, validation], trust)
    with counting_bar("simulating the noise", quiet=quiet) as tell:
        found = value_sketches(read[:-1], read[-1], draws=draws, seed=seed, tell=tell)
    return found, {
        "privacy": "each party's and the validation side's own: valuing sketches costs nothing more",
        "guarantees": {
            "parties": [summary(g) for g in found.guarantees],
            "validation": summary(read[-1].guarantee),
        },
        "signers": [sketch.signer for sketch in read],
        "trusted": trusted,
    }


def _value_records(
    parties: list[str], names: list[str], validation: str, facts: StatedFacts, seed: int
) -> tuple[Contributions, dict[str, Any]]:
    from privot.cli.records import labelled_records
    from privot.valuation import value_records

    target = labelled_records(validation, "the validation set", facts)
    held = [labelled_records(source, name, facts) for source, name in zip(parties, names, strict=True)]
    found = value_records(held, target, seed)
    return found, {"privacy": NO_PRIVACY, "guarantees": None, "signers": None, "trusted": False}


def _parties(found: Contributions, names: list[str]) -> list[dict[str, Any]]:
    zero = found.from_zero
    return [
        {
            "name": name,
            "value": float(found.value[k]),
            "interval": None if found.interval is None else found.interval[k].tolist(),
            "told_from_zero": None if zero is None else bool(zero[k]),
            "standard_error": None if found.error is None else float(found.error[k, k]),
            "left_out": float(found.left_out[k]),
            "distance": float(found.distance[k]),
        }
        for k, name in enumerate(names)
    ]


def _game(found: Contributions, names: list[str]) -> dict[str, Any]:
    """What was computed, and which pairs the noise leaves undecided."""
    undecided = None
    if found.decided is not None:
        pairs = [(i, j) for i in range(len(names)) for j in range(i) if not found.decided[i, j]]
        undecided = [sorted((names[i], names[j])) for i, j in pairs]
    return {
        "worth": found.worth,
        "worth_of_nobody": 0.0,
        "undecided": undecided,
        "orders": found.orders,
        "seed": found.seed,
    }


def _print(answer: dict[str, Any], found: Contributions) -> None:
    rows = []
    for party in sorted(answer["parties"], key=lambda p: -float(p["value"])):
        cells = [party["name"], _share(party["value"])]
        if found.interval is not None:
            cells.append(" to ".join(_share(end) for end in party["interval"]))
        if found.error is not None:
            cells.append(_share(party["standard_error"]))
        rows.append([*cells, _share(party["left_out"]), number(party["distance"])])
    header = ["party", "value"]
    header += ["95 % over the noise"] if found.interval is not None else []
    header += ["standard error"] if found.error is not None else []
    print_table([*header, "left out", "distance"], rows)
    how = "all coalitions" if found.orders is None else f"{found.orders} random orders of seed {found.seed}"
    facts = [
        (
            "all together",
            f"{_share(answer['worth'])}, the sum of values; 1: records like V's; 0: nothing but V's mean",
        ),
        ("Shapley values", f"of {how}; left out: what all lose without the party"),
    ]
    if answer["undecided"] is not None:
        open_signs = [p["name"] for p in answer["parties"] if not p["told_from_zero"]]
        facts.append(("not told from 0", ", ".join(open_signs) or "none: every sign is larger than the noise"))
        open_pairs = [" and ".join(pair) for pair in answer["undecided"]]
        shown = "; ".join(open_pairs[:10]) + (f"; and {len(open_pairs) - 10} more" if len(open_pairs) > 10 else "")
        facts.append(("order left open", shown or "none: every difference is larger than the noise"))
    if answer["guarantees"] is None:
        facts.append(("privacy", answer["privacy"]))
    else:
        from privot.cli.printing.guarantee_words import in_words, vouched

        for party, guarantee in zip(answer["parties"], found.guarantees, strict=True):
            facts.append((f"privacy of {party['name']}", in_words(guarantee)))
        assert found.validation is not None
        facts.append(("privacy of V", in_words(found.validation)))
        signers = ", ".join(f"{str(signer)[:16]}…" for signer in answer["signers"])
        facts.append(("signed by", f"{signers}: {vouched(bool(answer['trusted']))}"))
    print_facts(facts)


def _share(value: float) -> str:
    """Four decimal places; a party in other units may have a value of −10³⁰."""
    return f"{value:.4f}" if abs(value) < 1e6 else number(value)
