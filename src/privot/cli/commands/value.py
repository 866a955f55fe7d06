"""`privot value PARTY…`: what parties are worth to a validation set, from sketches or from plain data; no vault."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.commands.compare import NO_PRIVACY
from privot.cli.parsing.options import AsJson, Classes, Shape
from privot.cli.printing.output import number, print_facts, print_json, print_table

if TYPE_CHECKING:
    from privot.data import StatedFacts
    from privot.federation import Sketch
    from privot.valuation import Contributions
    from privot.valuation.labelled_records import Labelled

Trust = Annotated[list[Path] | None, typer.Option(help="Public keys (.pub) whose sketches are accepted.")]


def value(
    parties: Annotated[
        list[str],
        typer.Argument(metavar="PARTY…", help="Labelled sketches of one design; or labelled data, all of it."),
    ],
    validation: Annotated[str, typer.Option(help="What they are valued against: one more of the same kind.")],
    trust: Trust = None,
    draws: Annotated[int, typer.Option(help="Simulations of the noise behind intervals; 0 leaves them out.")] = 100,
    seed: Annotated[int, typer.Option(help="Of random orders, for more than 10 parties; recorded.")] = 0,
    classes: Classes = None,
    shape: Shape = None,
    out: Annotated[Path | None, typer.Option(help="Where to draw the values.")] = None,
    as_json: AsJson = False,
) -> None:
    """Values of parties to a validation set: Shapley values of how much nearer their pooled records come to it.

    From sketches it is post-processing, free of charge. From plain data it is an exact answer, with no privacy.
    It is about parties: no private protocol can let a server find bad records, see privot points.

    Example: privot value north.sketch south.sketch --validation hub.sketch --out values.png
    """
    from privot.cli import sketch_files
    from privot.cli.records import stated
    from privot.errors import DataError, UsageError
    from privot.transport.slice_directions import check_seed
    from privot.valuation import value_records, value_sketches

    check_seed(seed)
    if draws < 0 or 0 < draws < 100:
        raise UsageError("--draws must be 0, or at least 100.")
    if out is not None:
        from privot.cli.printing.charts import check_ending

        check_ending(out)
    sources = [*parties, validation]
    resolved = [str(Path(source).resolve()) for source in sources]
    if len(set(resolved)) < len(resolved):
        twice = sources[next(k for k, name in enumerate(resolved) if name in resolved[:k])]
        raise UsageError(f"{twice!r} is given twice: each party once, and the validation side is none of them.")
    kinds = [sketch_files.is_sketch(source) for source in sources]
    if any(kinds) and not all(kinds):
        other = sources[kinds.index(False)]
        if other != "digits" and not Path(other).exists():
            raise DataError(f"There is no file {other!r}: give sketches that `privot sketch` wrote.")
        raise DataError(
            f"{other!r} is no sketch or a damaged one, and others are: give sketches of one design, or data only."
        )
    names = [Path(source).stem for source in parties]
    names = names if len(set(names)) == len(names) else list(parties)
    answer: dict[str, Any] = {"method": "sketches" if kinds[0] else "records"}
    if kinds[0]:
        from privot.cli.printing.progress import counting_bar

        read, trusted = read_sketches(sources, trust)
        with counting_bar("simulating the noise", quiet=as_json) as tell:
            found = value_sketches(read[:-1], read[-1], draws=draws, seed=seed, tell=tell)
        answer |= {
            "privacy": "each party's and the validation side's own: valuing sketches costs nothing more",
            "guarantees": {
                "parties": [sketch_files.summary(g) for g in found.guarantees],
                "validation": sketch_files.summary(read[-1].guarantee),
            },
            "signers": [sketch.signer for sketch in read],
            "trusted": trusted,
        }
    else:
        if trust:
            raise UsageError("--trust is about sketches, and these are none.")
        facts = stated(classes, shape)
        target = labelled_records(validation, "the validation set", facts)
        held = [labelled_records(source, name, facts) for source, name in zip(parties, names, strict=True)]
        found = value_records(held, target, seed)
        answer |= {"privacy": NO_PRIVACY, "guarantees": None, "signers": None, "trusted": False}
    answer = {
        "parties": _told(found, names),
        **_game(found, names),
        **answer,
        "plot": None if out is None else str(out),
    }
    if out is not None:
        from privot.cli.printing.charts import draw_values

        draw_values(answer["parties"], bool(kinds[0]), out)
    if as_json:
        print_json(answer)
    else:
        _say(answer, found)


def _told(found: Contributions, names: list[str]) -> list[dict[str, Any]]:
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
    """What was played, and which pairs the noise leaves open."""
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


def _say(answer: dict[str, Any], found: Contributions) -> None:
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
            f"{_share(answer['worth'])}, the sum of values; 1 is records like V's, 0 is nothing but V's middle",
        ),
        ("Shapley values", f"of {how}; left out is what all lose without the party"),
    ]
    if answer["undecided"] is not None:
        open_signs = [p["name"] for p in answer["parties"] if not p["told_from_zero"]]
        facts.append(("not told from 0", ", ".join(open_signs) or "none: the noise leaves every sign alone"))
        open_pairs = [" and ".join(pair) for pair in answer["undecided"]]
        shown = "; ".join(open_pairs[:10]) + (f"; and {len(open_pairs) - 10} more" if len(open_pairs) > 10 else "")
        facts.append(("order left open", shown or "none: the noise leaves the order of every pair alone"))
    if answer["guarantees"] is None:
        facts.append(("privacy", answer["privacy"]))
    else:
        from privot.cli.sketch_files import in_words

        for party, guarantee in zip(answer["parties"], found.guarantees, strict=True):
            facts.append((f"privacy of {party['name']}", in_words(guarantee)))
        assert found.validation is not None
        facts.append(("privacy of V", in_words(found.validation)))
        signers = ", ".join(f"{str(signer)[:16]}…" for signer in answer["signers"])
        facts.append(("signed by", f"{signers}: {vouched(bool(answer['trusted']))}"))
    print_facts(facts)


def _share(value: float) -> str:
    """Four places, as shares have them; a party in other units may be worth −10³⁰."""
    return f"{value:.4f}" if abs(value) < 1e6 else number(value)


def read_sketches(sources: list[str], trust: list[Path] | None) -> tuple[list[Sketch], bool]:
    """Sketches with good signatures, and whether those are of keys that were named."""
    from privot.federation import Sketch
    from privot.federation.wire.signing import read_public

    trusted = None if not trust else tuple(read_public(path) for path in trust)
    return [Sketch.load(source, trusted) for source in sources], trusted is not None


def vouched(trusted: bool) -> str:
    """What is known of the keys behind signatures."""
    return "trusted keys" if trusted else "unknown to this command (--trust names keys you know)"


def labelled_records(source: str, name: str, facts: StatedFacts) -> Labelled:
    """The labelled records of a file, called `name` in errors; `facts` number the classes of every side alike."""
    from privot.cli.records import read_records
    from privot.valuation.labelled_records import Labelled

    found = read_records(source, facts)
    return Labelled.of(found.x, found.y, name)
