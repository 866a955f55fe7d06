"""`privot sketch DATA`: one private, signed sketch to send to somebody."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.commands.synth import KNOWN, default_ledger, open_ledger
from privot.cli.parsing.options import AsJson, NewRecords, Shape
from privot.cli.printing.output import print_facts, print_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from privot.federation import Sketch


def sketch(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A file (.npz, .csv, IDX …), images by class, or digits."),
    ],
    epsilon: Annotated[float, typer.Option(help="What the sketch may cost: ε …")],
    delta: Annotated[float, typer.Option(help="… at this δ.")],
    adjacency: Annotated[str, typer.Option(help="replace-one or add-remove.")],
    out: Annotated[Path, typer.Option(help="The sketch.")],
    prototypes: Annotated[
        str | None, typer.Option(help="PUBLIC data to build the sketch around; the same for all who compare.")
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="Without prototypes: a public guess of the largest usual norm of a record.")
    ] = None,
    span: Annotated[
        tuple[float, float] | None,
        typer.Option("--range", help="Without prototypes, better: the public range of every column, low and high."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the public directions; the same for all who compare.")] = 0,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="N|NAMES",
            help="Keep the classes apart, so that OTDD can be told: how many there are, or the names of a folder's.",
        ),
    ] = None,
    shape: Shape = None,
    words: Annotated[
        Path | None,
        typer.Option(
            help="Public word vectors (.npz: words, vectors); DATA is a text, one record per word with a vector."
        ),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger that pays; DATA.ledger beside the data unless given.")
    ] = None,
    new_records: NewRecords = False,
    key: Annotated[
        Path | None, typer.Option(help="Private key that signs; made, with its .pub, if there is none.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Release one private sketch of DATA; anybody may compare it with others of the same design, for ever.

    Example: privot sketch digits --epsilon 1 --delta 1e-5 --adjacency replace-one --range 0 1 --out a.sketch
    """
    from privot.cli.ledgers import label_of, open_vault
    from privot.cli.records import stated
    from privot.cli.sketch_files import in_words, load_points, summary
    from privot.common.arguments import check_delta, check_epsilon
    from privot.errors import UsageError
    from privot.federation import sketch as release_sketch
    from privot.federation.sketches.delivering import due
    from privot.federation.sketches.sketch_order import Order
    from privot.federation.wire.signing import make_key, public_name, read_key
    from privot.guarantee import Adjacency
    from privot.ledger import Ledger
    from privot.mechanisms import SketchDesign
    from privot.vault import Vault
    from privot.vault.budget import row_digests

    check_epsilon(epsilon)
    check_delta(delta)
    _check_place(out)
    if sum(given is not None for given in (prototypes, radius, span)) != 1:
        raise UsageError("Say --prototypes FILE (public data), --range LOW HIGH or --radius NUMBER, and only one.")
    facts = stated(classes, shape)
    count = facts.count
    records = load_points(data, words, facts, labels=count is not None, private=True)
    if count is not None and records.y is None:
        raise UsageError("--classes needs labels in the data.")
    if prototypes is not None:
        design = SketchDesign.around(load_points(prototypes, words, facts).x, seed=seed)
    elif span is not None:
        design = SketchDesign.box(records.x.shape[1], *span, seed=seed)
    else:
        assert radius is not None
        design = SketchDesign.plain(records.x.shape[1], radius, seed=seed)
    if design.dim != records.x.shape[1]:
        raise UsageError(f"The public data has {design.dim} columns, DATA has {records.x.shape[1]}.")
    if count is not None:
        design = design.labelled(count)
    held: dict[str, Any] = {"clip": 1.0, "adjacency": adjacency, "classes": count, "label": label_of(data)}
    held |= {"x": records.x, "y": records.y}
    signing = None if key is None else read_key(key) if key.exists() else make_key(key)
    # nothing is clipped: every coordinate of a sketch is bounded by itself
    charged, before, purpose = None, False, f"sketch {out.name}"
    with ExitStack() as stack:
        # checked before a ledger is made, so that what cannot be used leaves none behind
        vault = Vault(**held, budget=(epsilon, delta))
        if ledger is not None:
            charged = stack.enter_context(Ledger.open(ledger))
        elif data not in KNOWN:
            charged = stack.enter_context(open_ledger(default_ledger(data, out), False))
        if charged is None:
            # everybody has it: there is nobody whose budget could be spent
            made = release_sketch(vault, epsilon=epsilon, delta=delta, design=design, purpose=purpose)
            made.save(out, signing)
        else:
            # a ledger that is named has a budget for the records; only the one beside them may be new
            terms = (epsilon, delta) if ledger is None or new_records else None
            vault = open_vault(charged, terms=terms, new_records=new_records, **held)
            order = Order(design, epsilon, delta, Adjacency.parse(adjacency))
            name = charged.fingerprint({"x": row_digests(records.x, held["y"])})
            folder = charged.path.with_name(charged.path.name + ".sketches")
            with due(vault, order, folder, name, purpose) as found:
                made, before = found.sketch, found.before
                _deliver(made, out, signing)
    signer = None if signing is None else public_name(signing)
    if as_json:
        print_json(
            {
                "out": str(out),
                "design": design.digest(),
                "sigma": made.public["sigma"],
                "seed": seed,
                "signer": signer,
                "ledger": None if charged is None else str(charged.path),
                "guarantee": summary(made.guarantee),
            }
        )
        return
    payer = "nobody: this data is built in" if charged is None else str(charged.path)
    payer += ", in an earlier attempt: this is the sketch that it paid for" if before else ""
    print_facts(
        [
            ("sketch", f"{out}, {out.stat().st_size} bytes"),
            ("design", f"{design.digest()[:16]}…: only sketches of one design can be compared"),
            ("privacy", in_words(made.guarantee)),
            ("charged to", payer),
            ("signed by", f"{signer[:16]}…" if signer else "a key used once: changes show, but not who wrote it"),
        ]
    )


def _check_place(out: Path) -> None:
    """Refuse, before anything is paid for, a name that is taken or that nothing could be written under."""
    from privot.errors import DataError, UsageError

    if out.exists():
        raise UsageError(f"{out} exists already: a sketch that was paid for is not overwritten.")
    if not out.parent.is_dir():
        raise UsageError(f"There is no folder {out.parent}: make it before the sketch is paid for.")
    try:
        with tempfile.NamedTemporaryFile(dir=out.parent, prefix=f".{out.name}", suffix=".part"):
            pass
    except OSError as error:
        raise DataError(f"{out} cannot be written ({error.strerror}): nothing was paid.") from None


def _deliver(made: Sketch, out: Path, signing: Ed25519PrivateKey | None) -> None:
    """Write the sketch; where that fails, say that it is paid for and not lost."""
    from privot.errors import DataError

    try:
        made.save(out, signing)
    except OSError as error:
        raise DataError(
            f"{out} cannot be written ({error.strerror}): the sketch is paid for and kept beside the ledger; the same "
            "command again, with another --out if need be, writes it and costs nothing more."
        ) from None
