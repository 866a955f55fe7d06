"""`privot adapt` on two machines: `--ask` writes a request, `privot answer` answers it, `--answer` trains on that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.commands.synth import default_ledger, open_ledger
from privot.cli.parsing.options import AsJson, NewRecords, Shape
from privot.cli.printing.output import print_facts, print_json
from privot.cli.records import read_records, stated

if TYPE_CHECKING:
    from privot.adaptation import DomainAdapter
    from privot.adaptation.adaptation_design import AdaptationDesign
    from privot.data import StatedFacts
    from privot.mechanisms.mechanism import Facts

_ALWAYS = {"source", "out", "device", "as_json"}
_ASKING = {"ask", "records", "epsilon", "delta", "adjacency", "method", "network", "value_range", "settings"}
_READING = {"classes", "shape"}
_GOES_WITH = {
    "answer": {"answer", "trust", "test", "checkpoint", "network"},
    "ask": {*_ASKING, *_READING, "seed", "allow_unproven"},
}
"""What may be said beside what."""


def check_together(context: typer.Context) -> None:
    """Refuse options that say nothing here: `--answer` goes on with what was asked, `--ask` sees no target."""
    given = {p.name: p for p in context.command.params if p.name and _is_given(context, p.name)}
    for mode, fitting in _GOES_WITH.items():
        if mode in given:
            _refuse([p for name, p in given.items() if name not in fitting | _ALWAYS], f"with --{mode}")
            return
    _refuse([p for name, p in given.items() if name in ("records", "trust")], "with TARGET")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _refuse(parameters: list[Any], where: str) -> None:
    from privot.errors import UsageError

    if parameters:
        p = parameters[0]
        shown = p.opts[0] if p.param_type_name == "option" else str(p.name).upper()
        raise UsageError(f"{shown} cannot be combined {where}: leave it out.")


def asked_facts(x: Any, records: int | None) -> Facts:
    """What is public about a target that is elsewhere: as many columns as the source, and the stated number of rows."""
    from privot.errors import UsageError
    from privot.guarantee import Adjacency
    from privot.mechanisms.mechanism import Facts

    if records is None or records < 2:
        raise UsageError("The number of target records is public and has to be stated: give --records N, at least 2.")
    return Facts(x.shape[1], records, 1.0, Adjacency.REPLACE_ONE)


def write_request(
    context: typer.Context, path: Path, design: AdaptationDesign, asked: dict[str, Any], out: Path, as_json: bool
) -> None:
    """Start the job in `out` and write what it asks to `path`."""
    from privot.adaptation.adaptation_request import AdaptationRequest
    from privot.common.files import write_whole
    from privot.errors import UsageError
    from privot.jobs.job import Job, prepared

    request = AdaptationRequest.of(design)
    cost = request.cost()
    if path.exists() or not path.parent.is_dir():
        raise UsageError(f"{path} exists already, or its folder does not: choose another name for the request.")
    context.with_resource(prepared(out))
    Job.start(out, {"asked": asked, "design": design.to_dict(), "request": request.digest()})
    # it is public: whoever carries it may read it
    write_whole(path, request.to_bytes(), mode=0o644, fresh=True)
    if as_json:
        print_json({"request": str(path), "digest": request.digest(), "out": str(out), "cost": cost.to_dict()})
        return
    print_facts(
        [
            ("request", f"{path}, {request.digest()[:16]}…"),
            ("will cost", f"the target's holder {cost.stated()}"),
            ("next", f"there: privot answer {path.name}; then here: privot adapt … --answer FILE --out {out}"),
        ]
    )


def facts_of_job(out: Path) -> StatedFacts:
    """What was stated about the records when the job in `out` began."""
    from privot.errors import DataError
    from privot.jobs.job import Job

    said = Job.open(out).settings.get("asked", {})
    classes, shape = (said.get(name) if isinstance(said, dict) else None for name in ("classes", "shape"))
    if not all(value is None or isinstance(value, str) for value in (classes, shape)):
        raise DataError(f"The job in {out} does not say its classes and shape as text: restore its job.json.")
    return stated(classes, shape)


def learn_from(
    context: typer.Context,
    answer: Path,
    source: str,
    facts: StatedFacts,
    out: Path,
    trust: list[Path] | None,
    device: str,
    checkpoint: float,
    network: str | None,
    as_json: bool,
) -> tuple[DomainAdapter, str]:
    """The adapter trained on an answer to the request of the job in `out`, and who signed that."""
    from privot.adaptation import DomainAdapter
    from privot.adaptation.adaptation_answer import read_answer
    from privot.adaptation.adaptation_design import AdaptationDesign
    from privot.adaptation.adaptation_request import AdaptationRequest
    from privot.cli.printing.progress import training_bar
    from privot.errors import DataError
    from privot.federation.wire.signing import read_public
    from privot.jobs.job import Job
    from privot.opening import read_bytes

    job = Job.open(out)
    context.with_resource(job.alone())
    if "request" not in job.settings:
        raise DataError(f"The job in {out} asked nobody: start one with privot adapt --ask.")
    design = AdaptationDesign.from_dict(job.settings.get("design", {}))
    request = AdaptationRequest.of(design)
    if request.digest() != job.settings["request"]:
        raise DataError(f"The job in {out} was changed after it asked: restore it, or ask anew.")
    trusted = None if not trust else tuple(read_public(path) for path in trust)
    release, signer = read_answer(read_bytes(answer), request, trusted)
    public, config = read_records(source, facts), design.networks
    adapter = DomainAdapter(
        design.epsilon, design.delta, network=network, shape=config["shape"], low=config["low"],
        high=config["high"], settings=design.settings, device=device, seed=design.seed,
    )  # fmt: skip
    with training_bar(design.epsilon, quiet=as_json) as tell:
        adapter.learn(job, release, (public.x, public.y), progress=tell, every=checkpoint)
    return adapter, signer


def answer(
    request: Annotated[
        Path, typer.Argument(metavar="REQUEST", help="What privot adapt --ask wrote; it is not trusted.")
    ],
    target: Annotated[
        str | None, typer.Argument(metavar="TARGET", help="Private records. Without them REQUEST is only explained.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="The most the answer may cost, and all that TARGET grants if it has no budget: ε …"),
    ] = None,
    delta: Annotated[float | None, typer.Option(help="… at this δ.")] = None,
    out: Annotated[Path | None, typer.Option(help="The answer, to be sent back.")] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger that pays; TARGET.ledger beside the data unless given.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Private key that signs; made, with its .pub, if there is none.")
    ] = None,
    shape: Shape = None,
    new_records: NewRecords = False,
    as_json: AsJson = False,
) -> None:
    """Show what somebody's request would cost, or answer it once, out of the budget of TARGET.

    What is paid is counted here, from the mechanism that will run. A request that was answered gets the same answer
    again and costs nothing; the answers lie beside the ledger.

    Examples: privot answer request.json;
    privot answer request.json usps.npz --epsilon 1 --delta 1e-5 --out usps.release
    """
    from privot.adaptation.adaptation_answer import answer_once, check_asked, stored
    from privot.adaptation.adaptation_request import AdaptationRequest
    from privot.cli.ledgers import label_of, open_vault
    from privot.common.arguments import check_delta, check_epsilon
    from privot.common.files import write_whole
    from privot.errors import BudgetError, DataError, UsageError
    from privot.federation.wire.signing import make_key, read_key
    from privot.guarantee import Adjacency
    from privot.vault import Vault
    from privot.vault.budget import row_digests

    asked = AdaptationRequest.read(request)
    cost = asked.cost()
    shown = {"digest": asked.digest(), "request": asked.to_dict(), "cost": cost.to_dict()}
    lines = [
        ("request", f"{asked.digest()[:16]}…: noisy sums of {asked.mechanism().features.size} public features"),
        ("of", f"{asked.records} records with {asked.features['dim']} columns, clamped to "
         f"[{asked.features['low']:g}, {asked.features['high']:g}]"),
        ("costs", cost.stated()),
    ]  # fmt: skip
    if target is None:
        if any(given is not None for given in (epsilon, delta, out, ledger, key)):
            raise UsageError("Whose records shall answer? Give TARGET, or REQUEST alone to see what it asks.")
        return print_json(shown) if as_json else print_facts(lines)
    if epsilon is None or delta is None or out is None:
        raise UsageError("To answer say --epsilon and --delta, the most that it may cost, and --out FILE.")
    terms = check_epsilon(epsilon), check_delta(delta)
    # written so that a NaN is refused
    if not asked.cost(delta).epsilon() <= epsilon:
        raise BudgetError(
            f"An answer costs {asked.cost(delta).stated()}, more than the ε = {epsilon:g} that you allow: nothing was "
            "paid."
        )
    if not out.parent.is_dir():
        raise UsageError(f"There is no folder {out.parent}: make it before the answer is paid for.")
    facts = stated(None, shape)
    rows, label = read_records(target, facts, labels=False, private=True).x, label_of(target)
    held: dict[str, Any] = {"x": rows, "clip": 1.0, "adjacency": Adjacency.REPLACE_ONE, "label": label}
    # checked before a ledger is made, so that what cannot be answered leaves none behind
    check_asked(asked, Vault(**held, budget=terms))
    place = ledger or default_ledger(target, out)
    if not place.name or place.is_dir():
        raise UsageError(f"The ledger is a file, and {str(place)!r} is a folder: name a file with --ledger.")
    answers = place.with_name(place.name + ".answers")
    if not place.exists():
        _check_free(out, None)
        if any(answers.glob("*-*.*")):
            raise DataError(f"There is no ledger {place}, but answers were paid for: restore it from a backup.")
    signing = None if key is None else read_key(key) if key.exists() else make_key(key)
    if not as_json:
        print_facts(lines)
    with open_ledger(place, False) as book:
        data = book.fingerprint({"x": row_digests(rows)})
        _check_free(out, stored(asked, answers, data))
        vault = open_vault(book, terms=terms, new_records=new_records, **held)
        made = answer_once(asked, vault, answers, data, signing)
    try:
        write_whole(out, made.content)
    except OSError as error:
        raise DataError(
            f"{out} cannot be written ({error.strerror}): the answer is paid for and kept, so answer once more with "
            "another --out, which costs nothing."
        ) from None
    if as_json:
        print_json({**shown, "out": str(out), "ledger": str(place), "paid": made.paid})
        return
    print_facts(
        [
            ("answer", f"{out}, {out.stat().st_size} bytes"),
            ("charged to", str(place) if made.paid else "nobody: it was answered before, and this is that answer"),
        ]
    )


def _check_free(out: Path, earlier: Path | None) -> None:
    """Refuse a name that something else has than the `earlier` answer."""
    from privot.errors import UsageError

    if out.exists() and not (earlier is not None and earlier.exists() and earlier.read_bytes() == out.read_bytes()):
        raise UsageError(f"{out} exists already and is not this answer: an answer overwrites nothing.")
