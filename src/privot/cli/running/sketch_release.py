"""One `privot sketch`: a sketch that is paid for once and delivered, also after a failure."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.cli import ledgers
from privot.cli.partitioned_input import PartitionOptions, expect_ledger, named_ledger, pass_bar
from privot.cli.records import check_new_file, load_points, stated
from privot.cli.sketch_files import check_one_design, public_design
from privot.cli.table_input import NO_UNIT, UnitOptions

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from privot.data.stated_facts import StatedFacts
    from privot.federation import Sketch
    from privot.ledger import Ledger
    from privot.mechanisms import SketchDesign
    from privot.partitions.source import PartitionedSource


@dataclass(frozen=True)
class SketchOptions:
    """The options of `privot sketch`, as they were typed."""

    data: str
    epsilon: float
    delta: float
    adjacency: str
    out: Path
    prototypes: str | None
    radius: float | None
    value_range: str | None
    seed: int
    classes: str | None
    shape: str | None
    words: Path | None
    ledger: Path | None
    new_records: bool
    key: Path | None
    partitions: PartitionOptions = field(default_factory=PartitionOptions)
    quiet: bool = False
    units: UnitOptions = NO_UNIT


@dataclass(frozen=True)
class SketchAnswer:
    """A sketch with its design; the ledger that paid, if any; whether an earlier attempt paid; who signed."""

    sketch: Sketch
    design: SketchDesign
    ledger: Path | None
    before: bool
    signer: str | None


def release_sketch(options: SketchOptions) -> SketchAnswer:
    """Check everything, charge the ledger of the data once, and write the sketch."""
    from privot.common.arguments import check_delta, check_epsilon
    from privot.errors import UsageError
    from privot.federation import sketch as release
    from privot.federation.wire.signing import make_key, public_name, read_key
    from privot.vault import Vault

    o = options
    check_epsilon(o.epsilon), check_delta(o.delta)
    check_new_file(o.out, "sketch")
    span = check_one_design(o.prototypes, o.value_range, o.radius)
    facts = stated(o.classes, o.shape)
    o.units.check(None, o.adjacency, o.data if o.words is None else "text")
    source = _source(o, facts)
    # nothing is clipped: every coordinate of a sketch is bounded by itself
    held: dict[str, Any] = {"clip": 1.0, "adjacency": o.adjacency, "classes": facts.count}
    held |= {"x": source, "y": None, "label": ledgers.label_of(o.data)}
    if source is not None:
        held |= o.units.held(source)
    else:
        labels = facts.count is not None
        whose: dict[str, Any] = {"unit": o.units.column, "unit_file": o.units.file}
        records = load_points(o.data, o.words, facts, labels=labels, private=True, **whose)
        if facts.count is not None and records.y is None:
            raise UsageError("--classes needs labels in the data.")
        held |= {"x": records.x, "y": records.y, **o.units.held(records)}
    design = _design(o, span, held["x"].shape[1] if source is None else source.dim, facts)
    signing = None if o.key is None else read_key(o.key) if o.key.exists() else make_key(o.key)
    signer = None if signing is None else public_name(signing)
    with ExitStack() as stack:
        if source is not None and o.ledger is not None:
            stack.enter_context(pass_bar(source, o.quiet))
            expect_ledger(source, o.ledger)
        # checked before a ledger is created, so that what cannot be used leaves none behind
        vault = Vault(**held, budget=(o.epsilon, o.delta))
        if o.ledger is None and o.data in ledgers.BUILT_IN:
            # the data is public: there is nobody whose budget could be spent
            made = release(vault, epsilon=o.epsilon, delta=o.delta, design=design, purpose=f"sketch {o.out.name}")
            made.save(o.out, signing)
            return SketchAnswer(made, design, None, False, signer)
        book, own = stack.enter_context(ledgers.paying_ledger(o.data, o.ledger, o.out))
        terms = (o.epsilon, o.delta) if own or o.new_records else None
        made, before = _paid(o, design, book, held, terms, signing)
        return SketchAnswer(made, design, book.path, before, signer)


def _source(o: SketchOptions, facts: StatedFacts) -> PartitionedSource | None:
    """Partitioned data, of which no record is read yet; None where DATA is one file."""
    from privot.data.stated_facts import StatedFacts

    if o.words is not None or o.data in ledgers.BUILT_IN:
        return None
    source = o.partitions.open(o.data, None, StatedFacts(facts.classes or 0, facts.shape), o.units.column)
    if source is not None:
        named_ledger(o.ledger)
    return source


def _design(o: SketchOptions, span: tuple[float, float] | None, dim: int, facts: StatedFacts) -> SketchDesign:
    from privot.errors import UsageError

    around = None if o.prototypes is None else load_points(o.prototypes, o.words, facts).x
    design = public_design(dim, around, span, o.radius, o.seed)
    if design.dim != dim:
        raise UsageError(f"The public data has {design.dim} columns, and DATA has {dim}: both need the same columns.")
    return design if facts.count is None else design.labelled(facts.count)


def _paid(
    o: SketchOptions,
    design: SketchDesign,
    book: Ledger,
    held: dict[str, Any],
    terms: tuple[float, float] | None,
    signing: Ed25519PrivateKey | None,
) -> tuple[Sketch, bool]:
    """The sketch that `book` pays for, or paid for in an earlier attempt; and whether it did."""
    from privot.federation.sketches.delivering import due
    from privot.federation.sketches.sketch_order import Order
    from privot.guarantee import Adjacency

    vault = ledgers.open_vault(book, terms=terms, new_records=o.new_records, where=o.data, **held)
    order = Order(design, o.epsilon, o.delta, Adjacency.parse(o.adjacency))
    plain = "".join(letter if letter.isprintable() else "?" for letter in o.out.name)
    with due(vault, order, f"sketch {plain[:100]}") as paid:
        paid.put(o.out, lambda out: paid.value.save(out, signing))
        return paid.value, paid.before
