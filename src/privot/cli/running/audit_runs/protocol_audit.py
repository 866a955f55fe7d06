"""One `privot audit protocol A B`: FedWad and TriangleWad between two open data sets, attacked by their messages."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.cli.ledgers import refuse_guarded
from privot.cli.parsing.typed_values import read_pair, read_shape
from privot.cli.records import read_records, same_space, stated

if TYPE_CHECKING:
    from privot.audit.findings import Check

NOTHING_PROTECTED = "none: A and B are open data by declaration, and nothing is protected"
RECORDS = 300
CANDIDATES = 10_000
"""Most records among which a message has to hide its own."""


@dataclass(frozen=True)
class ProtocolOptions:
    """The options that only `privot audit protocol` has, as they were typed; None or False where they were not."""

    data: list[str] | None = None
    open_: bool = False
    rounds: int | None = None
    shape: str | None = None
    value_range: str | None = None
    words: Path | None = None
    out: Path | None = None

    def refuse_any(self, target: str) -> None:
        """Refuse what another audit would ignore: it reads nobody's records."""
        from privot.errors import UsageError

        for field in fields(self):
            if getattr(self, field.name) not in (None, False):
                named = {"data": "A second argument", "open_": "--open", "value_range": "--range"}
                option = named.get(field.name, f"--{field.name}")
                raise UsageError(f"{option} works with privot audit protocol only, and this is {target}.")


@dataclass(frozen=True)
class ProtocolAnswer:
    """What was found, and the files that were drawn."""

    findings: list[Check]
    details: dict[str, Any]
    pictures: tuple[Path, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The answer of the command, as plain JSON types."""
        return {
            "target": "protocol",
            "privacy": NOTHING_PROTECTED,
            "findings": [f.to_dict() for f in self.findings],
            **self.details,
            "pictures": [str(path) for path in self.pictures],
        }


def audit_protocol(
    asked: ProtocolOptions, *, records: int | None, epsilon: float | None, delta: float
) -> ProtocolAnswer:
    """Run both protocols between A and B, attack what A sends, and draw what came back."""
    from privot.errors import UsageError

    if asked.data is None or len(asked.data) != 2:
        raise UsageError("privot audit protocol needs two data sets: privot audit protocol A B --open.")
    if not asked.open_:
        raise UsageError(
            "privot audit protocol reads the records of A and B and shows what comes back of them: add --open to state "
            "that both are open data, which nothing has to protect."
        )
    refuse_guarded(*asked.data)
    rounds = 20 if asked.rounds is None else asked.rounds
    if asked.words is not None:
        return _of_texts(asked, asked.data, rounds, epsilon)
    return _of_records(asked, asked.data, rounds, RECORDS if records is None else records, epsilon, delta)


def _of_records(
    asked: ProtocolOptions, data: list[str], rounds: int, records: int, epsilon: float | None, delta: float
) -> ProtocolAnswer:
    import numpy as np

    from privot.audit.protocol_attacks.record_recovery import recover_records
    from privot.errors import UsageError

    facts = stated(None, asked.shape)
    first, second = (np.asarray(read_records(d, facts, labels=False).x, dtype=np.float64) for d in data)
    same_space(first, second)
    if data[0] == data[1]:
        # one open data set stands for both sides: halves of it
        order = np.random.default_rng(0).permutation(len(first))
        first, second = first[order[: len(order) // 2]], first[order[len(order) // 2 :]]
    if records < 10:
        raise UsageError(f"--records must be at least 10, got {records}.")
    first, second = _scaled(first, second, asked.value_range)
    generator = np.random.default_rng(1)
    first, second = (z[generator.permutation(len(z))] for z in (first, second))
    # what is left over is the attacker's: public records, and candidates
    size = min(records, len(first), max(10, len(second) // 2))
    x, y, others, rest = first[:size], second[:size], first[size:], second[size:]
    if len(y) < size or len(rest) < 10:
        raise UsageError(f"B has {len(second)} records: an attack needs at least 20, half of them as public knowledge.")
    found = recover_records(x, y, rest, np.vstack([others, rest])[:CANDIDATES], rounds=rounds)
    findings = found.findings()
    details = {"records": size, "dimension": x.shape[1], **found.to_dict()}
    if epsilon is not None:
        from privot.audit.protocol_attacks.sketch_recovery import recover_from_sketches
        from privot.common.arguments import check_delta, check_epsilon

        terms = (check_epsilon(epsilon), check_delta(delta))
        sketches = recover_from_sketches(x, y, rest, others, epsilon=terms[0], delta=terms[1])
        findings += sketches.findings()
        details["sketch"] = sketches.to_dict()
    return ProtocolAnswer(findings, details, _drawn(asked, found))


def _scaled(first: Any, second: Any, stated_range: str | None) -> tuple[Any, Any]:
    """Both in [−1, 1]: by the stated range, or by that of the data, which are open."""
    from privot.errors import DataError, UsageError

    if stated_range is None:
        low, high = min(first.min(), second.min()), max(first.max(), second.max())
        if not low < high:
            raise DataError("All values of both data sets are equal: there is nothing to recover.")
    else:
        low, high = read_pair(stated_range)
        if not low < high:
            raise UsageError(f"--range must be LOW,HIGH with LOW below HIGH, got {stated_range!r}.")
    return tuple((z - low) / (high - low) * 2.0 - 1.0 for z in (first, second))


def _drawn(asked: ProtocolOptions, found: Any) -> tuple[Path, ...]:
    """Histograms, and images where a shape is stated, in the folder `out`."""
    if asked.out is None:
        return ()
    from privot.audit.protocol_attacks.normality import draw_histograms
    from privot.audit.statistics.recovery import draw_recoveries
    from privot.common.files import write_whole
    from privot.errors import DataError

    shape = read_shape(asked.shape)
    files = {"histograms.png": draw_histograms(list(found.normality))}
    if shape is not None:
        files["records.png"] = draw_recoveries(list(found.shown), tuple(shape), -1.0, 1.0)
    try:
        asked.out.mkdir(parents=True, exist_ok=True)
        for name, picture in files.items():
            write_whole(asked.out / name, picture, mode=0o644)
    except OSError as error:
        raise DataError(f"The pictures cannot be written to {asked.out} ({error.strerror}).") from None
    return tuple(asked.out / name for name in files)


def _of_texts(asked: ProtocolOptions, data: list[str], rounds: int, epsilon: float | None) -> ProtocolAnswer:
    from privot.audit.findings import Check
    from privot.audit.protocol_attacks.word_recovery import word_rates
    from privot.errors import DataError, UsageError
    from privot.federation.protocols.word_vectors import WordVectors
    from privot.opening import read_text

    given = {"--epsilon": epsilon, "--shape": asked.shape, "--range": asked.value_range, "--out": asked.out}
    for option, value in given.items():
        if value is not None:
            raise UsageError(f"{option} cannot be combined with --words: leave it out.")
    assert asked.words is not None
    vectors = WordVectors.load(asked.words)
    try:
        first, second = (vectors.words_of(read_text(d)) for d in data)
    except OSError:
        raise DataError("A and B cannot be read as text.") from None
    rates = word_rates(first, second, vectors, rounds=rounds)
    findings = [
        Check(f"words: {name}", rate < 0.5, f"{rate:.1%} of the retrieved words stand in A")
        for name, rate in rates.items()
    ]
    return ProtocolAnswer(findings, {"matching_rates": rates, "words": min(len(first), len(second))})
