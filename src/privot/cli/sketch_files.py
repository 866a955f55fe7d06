"""`privot compare` between organisations: signed sketches, or the published protocols as simulations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.cli.printing.output import number, print_facts, print_json

if TYPE_CHECKING:
    from privot.data import Dataset, StatedFacts
    from privot.federation.sketches.sketch_comparison import Distance
    from privot.guarantee import Guarantee

VERDICTS = {
    True: "indistinguishable at this budget: two samples of one distribution look like this in more than 5 % of cases",
    False: "distinguishable: two samples of one distribution look like this in fewer than 5 % of cases",
}


def is_sketch(source: str) -> bool:
    """Whether `source` looks like a file that `privot sketch` wrote; its signature is checked later."""
    from privot.opening.archives import members_of

    return "signature.json" in members_of(source)


def load_points(
    source: str, words: Path | None, facts: StatedFacts, *, labels: bool = False, private: bool = False
) -> Dataset:
    """A data set, by what is stated about it; or, with word vectors, a text as a cloud of its words."""
    from privot.cli.records import read_records
    from privot.data import Dataset
    from privot.errors import DataError

    if words is None:
        return read_records(source, facts, labels=labels, private=private)
    from privot.federation.protocols.word_vectors import WordVectors
    from privot.opening import read_text

    try:
        text = read_text(source)
    except (OSError, UnicodeDecodeError):
        raise DataError(f"{Path(source).name!r} cannot be read as a text.") from None
    vectors = WordVectors.load(words)
    return Dataset(vectors.cloud(vectors.words_of(text)))


def summary(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee as every command that releases answers it."""
    written = guarantee.to_dict()
    return {
        "epsilon": guarantee.epsilon(),
        "delta": guarantee.at_delta,
        "adjacency": str(guarantee.adjacency),
        "standing": str(guarantee.standing),
        **{name: written[name] for name in ("sampling", "assumptions", "events")},
    }


def in_words(guarantee: Guarantee) -> str:
    """A guarantee on one line."""
    return (
        f"ε = {number(guarantee.epsilon(), 6)} at δ = {guarantee.at_delta:g}, "
        f"{guarantee.adjacency}, {guarantee.standing}"
    )


def compare_files(first: str, second: str, trust: list[Path] | None, as_json: bool) -> None:
    """Check both signatures, compare, and print both guarantees."""
    from privot.federation import Sketch, compare_sketches
    from privot.federation.wire.signing import read_public

    trusted = None if not trust else tuple(read_public(path) for path in trust)
    sketches = [Sketch.load(source, trusted) for source in (first, second)]
    found = compare_sketches(*sketches)
    if as_json:
        print_json(
            {
                "method": "sketch",
                "value": found.value,
                "w2": found.w2.to_dict(),
                "sliced": found.sliced.to_dict(),
                "otdd": None if found.otdd is None else found.otdd.to_dict(),
                "p_value": found.p_value,
                "indistinguishable": found.indistinguishable,
                "guarantees": {"a": summary(found.guarantees[0]), "b": summary(found.guarantees[1])},
                "signers": {"a": sketches[0].signer, "b": sketches[1].signer},
                "trusted": trusted is not None,
            }
        )
        return

    def tell(distance: Distance) -> str:
        low, high = distance.interval or (0.0, 0.0)
        return (
            f"{number(distance.value)}  ({number(low)} to {number(high)}: 95 % over the noise; "
            f"null level {number(distance.null_level)})"
        )

    vouched = "a trusted key" if trusted is not None else "unknown to this command: --trust names keys you know"
    print_facts(
        [
            ("W_2", tell(found.w2)),
            ("sliced W_2", tell(found.sliced)),
            *([] if found.otdd is None else [("OTDD", f"{tell(found.otdd)}, labels counted")]),
            ("verdict", f"{VERDICTS[bool(found.indistinguishable)]} (p = {number(found.p_value, 3)})"),
            ("privacy of A", in_words(found.guarantees[0])),
            ("privacy of B", in_words(found.guarantees[1])),
            ("signed by", f"{str(sketches[0].signer)[:16]}… and {str(sketches[1].signer)[:16]}…, {vouched}"),
        ]
    )


def compare_openly(
    first: str,
    second: str,
    method: str,
    p: float,
    rounds: int,
    share: str,
    defence: str,
    most: int,
    seed: int,
    allow_unproven: bool,
    as_json: bool,
    words: Path | None,
    labels: bool,
    facts: StatedFacts,
) -> None:
    """FedWad or TriangleWad on two files at hand: what the exchange would give, and that it protects nobody."""
    import numpy as np

    from privot.errors import DataError, UnprovenError, UsageError
    from privot.federation import fedwad, triangle

    if not allow_unproven:
        raise UnprovenError(f"{method} protects no record: say --allow-unproven to run it nevertheless.")
    try:
        t: Any = share if share in ("", "random") else float(share)
    except ValueError:
        raise UsageError(f"--t must be a number or random, got {share!r}.") from None
    if most < 2:
        raise UsageError("--most must be at least 2.")
    generator = np.random.default_rng(seed)
    sets = [load_points(source, words, facts, labels=labels) for source in (first, second)]
    x, y = (np.asarray(found.x, dtype=np.float64) for found in sets)
    if x.shape[1] != y.shape[1]:
        raise DataError(f"A has {x.shape[1]} columns and B has {y.shape[1]}: they must lie in one space.")
    if labels:
        if any(found.y is None for found in sets):
            raise DataError("--labels needs labels in both data sets.")
        from privot.transport._otdd import augmented_pair

        x, y = (np.asarray(side) for side in augmented_pair(x, sets[0].y, y, sets[1].y))
    x, y = (z if len(z) <= most else z[generator.choice(len(z), most, replace=False)] for z in (x, y))
    if method == "fedwad":
        found = fedwad(x, y, rounds, p, t=t or "random", seed=seed)
    elif t == "random":
        raise UsageError("triangle has one round: give --t a number.")
    else:
        found = triangle(x, y, t or 0.5, defence, p, seed=seed)
    if as_json:
        print_json(
            {
                "method": method,
                "value": found.value,
                "rounds": found.rounds,
                "bytes": found.bytes_sent,
                "used": {"a": len(x), "b": len(y)},
                "seed": seed,
                "standing": "unproven",
                "privacy": found.privacy,
            }
        )
        return
    print_facts(
        [
            (f"W_{p:g}", number(found.value, 6)),
            ("rounds", f"{found.rounds}, {found.bytes_sent} bytes"),
            ("privacy", found.privacy),
        ]
    )
