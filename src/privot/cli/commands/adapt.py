"""`privot adapt`: it reads the private target straight into a vault and does not see it after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.commands.answer import asked_facts, check_together, facts_of_job, learn_from, write_request
from privot.cli.commands.synth import default_ledger, open_ledger
from privot.cli.parsing.options import AsJson, Classes, Device, NewRecords, Shape
from privot.cli.parsing.typed_values import read_pair
from privot.cli.printing.output import print_facts, print_json
from privot.cli.records import read_records, stated

if TYPE_CHECKING:
    from privot.adaptation import AdaptationConfig, DomainAdapter
    from privot.adaptation.adaptation_design import AdaptationDesign
    from privot.data import Dataset, StatedFacts
    from privot.guarantee import Adjacency
    from privot.jobs.job import Job
    from privot.ledger import Ledger
    from privot.mechanisms.mechanism import Facts
    from privot.vault import Vault


def adapt(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Public records with labels (.npz, .csv), or digits.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for everything that is made.")],
    target: Annotated[
        str | None, typer.Argument(metavar="TARGET", help="Private records; their labels are not read.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="What this adaptation may cost the target: ε …")] = None,
    delta: Annotated[float | None, typer.Option(help="… at this δ.")] = None,
    ask: Annotated[
        Path | None, typer.Option(help="In place of TARGET: write the request for whoever holds it (privot answer).")
    ] = None,
    records: Annotated[int | None, typer.Option(help="With --ask: the public number of target records.")] = None,
    answer: Annotated[
        Path | None, typer.Option(help="In place of TARGET: train the job in OUT on the answer to its request.")
    ] = None,
    trust: Annotated[
        list[Path] | None, typer.Option(help="With --answer: public keys (.pub) whose answers are accepted.")
    ] = None,
    adjacency: Annotated[str, typer.Option(help="replace-one, the only one it works under.")] = "replace-one",
    method: Annotated[str, typer.Option(help="embedding, sliced, dp-dann, or published (unproven).")] = "embedding",
    network: Annotated[str | None, typer.Option(help="digits, features, or package.module:function.")] = None,
    classes: Classes = None,
    shape: Shape = None,
    value_range: Annotated[str | None, typer.Option("--range", help="Public range of all values: 0,1.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE, in place of a rule's choice; may be repeated.")
    ] = None,
    test: Annotated[str | None, typer.Option(help="Held-out target records with labels, to score on.")] = None,
    device: Device = "auto",
    ledger: Annotated[Path | None, typer.Option(help="The ledger; TARGET.ledger beside the data unless given.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the job in OUT, without paying twice.")] = False,
    pay_again: Annotated[bool, typer.Option(help="With --resume: charge again for releases that were lost.")] = False,
    new_records: NewRecords = False,
    allow_unproven: Annotated[bool, typer.Option(help="Allow a method without a theorem.")] = False,
    checkpoint: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    seed: Annotated[int | None, typer.Option(help="Seed of everything but the noise.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train a classifier for private unlabelled records from public labelled ones, under (ε, δ).

    Where TARGET may not leave its machine, --ask writes a request, privot answer answers it there, and --answer trains.

    Examples: privot adapt mnist.npz usps.npz --epsilon 1 --delta 1e-5 --shape 28,28 --range 0,255 --out usps-model;
    privot adapt mnist.npz --ask request.json --records 7291 --epsilon 1 --delta 1e-5 --range 0,255 --out usps-model;
    privot adapt mnist.npz --answer usps.release --out usps-model
    """
    from privot.adaptation import DomainAdapter
    from privot.adaptation.adaptation_config import METHODS, UNPROVEN
    from privot.cli.ledgers import charges, check_no_job, check_same_records, label_of, second_charges, spent_in_ledger
    from privot.cli.parsing.recalled_options import KEY, kept
    from privot.cli.printing.interrupts import telling
    from privot.cli.printing.progress import training_bar
    from privot.common.arguments import check_delta, check_epsilon
    from privot.errors import UnprovenError, UsageError
    from privot.guarantee import Adjacency
    from privot.jobs.job import NAME, Job, prepared
    from privot.vault import Vault

    check_together(context)
    if answer is not None:
        facts = facts_of_job(out)
        held_out = _held_out(test, facts)
        adapter, signer = learn_from(context, answer, source, facts, out, trust, device, checkpoint, network, as_json)
        payer = f"whoever answered, signed {signer[:16]}…"
        return _finish(adapter, out, {"signer": signer}, payer, held_out, as_json)
    if epsilon is None or delta is None or (target is None) != (ask is not None):
        raise UsageError("Say TARGET (or --ask FILE in its place), --epsilon and --delta.")
    check_epsilon(epsilon), check_delta(delta)
    # the mechanism's name is taken for the method's
    method = "sliced" if method == "projection" else method
    if method not in METHODS or method == "source":
        raise UsageError(f"Unknown method {method!r}: say {', '.join(m for m in METHODS if m != 'source')}.")
    if method in UNPROVEN and not allow_unproven:
        raise UnprovenError(f"No theorem covers the method {method}: add --allow-unproven to use it nevertheless.")
    neighbours = Adjacency.parse(adjacency)
    if neighbours is not Adjacency.REPLACE_ONE:
        raise UsageError("Adaptation counts under replace-one neighbours: say --adjacency replace-one.")
    low, high = _range(value_range, source)
    facts = stated(classes, shape)
    public = read_records(source, facts)
    held_out = _held_out(test, facts)
    adapter = DomainAdapter(
        epsilon, delta, method=method, network=network, shape=facts.shape, low=low, high=high, device=device,
        seed=seed, allow_unproven=allow_unproven,
    )  # fmt: skip
    asked = {"method": method, "network": network, "shape": shape, "low": low, "high": high, "set": settings or []}
    asked |= {"epsilon": epsilon, "delta": delta, "seed": seed, "classes": classes}
    if ask is not None:
        design = _designed(adapter, asked_facts(public.x, records), (public.x, public.y), settings)
        return write_request(context, ask, design, asked, out, as_json)
    assert target is not None
    going_on = resume and (out / NAME).exists()
    if going_on:
        check_same_records(new_records)
        job = Job.open(out)
        _check_same(job, asked)
    else:
        check_no_job(out)
        context.with_resource(prepared(out))
    # read before a ledger is made: what cannot be used leaves none behind
    read = [] if going_on else [read_records(target, facts, labels=False, private=True).x]
    if read:
        # designed before a ledger is made, too: the first run sets the budget, and must be one that can run
        known = Vault(read[0], clip=1.0, adjacency=neighbours, budget=(epsilon, delta)).facts
        design = _designed(adapter, known, (public.x, public.y), settings)
    with open_ledger(ledger or default_ledger(target, out), going_on) as book:

        def open_vault() -> Vault:
            # handed on, not kept: from here on only the vault has them
            held = read.pop() if read else read_records(target, facts, labels=False, private=True).x
            # a job that goes on has a budget already: what its folder says may not set one, in whichever ledger
            terms = None if going_on else (epsilon, delta)
            return _vault(held, label_of(target), neighbours, book, terms, new_records)

        opened: Callable[[], Vault] = open_vault
        if not going_on:
            vault = open_vault()
            told = {"asked": asked, "design": design.to_dict(), "ledger": book.identity}
            job = Job.start(out, {**told, KEY: kept(context, book.path)})
            opened = lambda: vault  # noqa: E731

        with job.alone(), telling("adapt", job, charges(book)):
            with training_bar(epsilon, quiet=as_json) as tell, second_charges():
                adapter.run(
                    job,
                    (public.x, public.y),
                    opened,
                    charges(book),
                    ledger=book.identity,
                    pay_again=pay_again,
                    progress=tell,
                    every=checkpoint,
                )
            spent = spent_in_ledger(book, job)
            paid = {"ledger": str(book.path), "spent_in_ledger": spent}
            _finish(adapter, out, paid, str(book.path), held_out, as_json, spent)


def _finish(
    adapter: DomainAdapter,
    out: Path,
    paid: dict[str, Any],
    payer: str,
    held_out: Dataset | None,
    as_json: bool,
    spent: dict[str, Any] | None = None,
) -> None:
    """Leave model, guarantee and report in `out`, score if there is something to score on, and say so."""
    from privot.adaptation.model_folder import write_evaluation, write_report
    from privot.jobs.spending import said, write_spent
    from privot.synthesis.output.html_report import CONFIDENTIAL

    accuracy = None
    adapter.save(out)
    write_spent(out, spent)
    if held_out is not None:
        accuracy = adapter.score(held_out.x, held_out.y)
        write_evaluation(out, accuracy, len(held_out.x))
    write_report(out)
    guarantee = adapter.guarantee_
    assert guarantee is not None  # every method that the command offers asks the vault
    if as_json:
        answer: dict[str, Any] = {"out": str(out), **paid, "guarantee": guarantee.to_dict()}
        answer |= {"sigma": adapter.design_.sigma, "settings": adapter.design_.settings.to_dict()}
        answer |= {"charged": adapter.charged_, "lost": adapter.lost_, "stopped": adapter.stopped_}
        print_json(answer if accuracy is None else {**answer, "accuracy": accuracy, "privacy": CONFIDENTIAL})
        return
    facts = [
        ("guarantee", guarantee.stated()),
        ("charged to", payer),
        *[(f"ledger, {what}", words) for what, words in (said(spent, guarantee) if spent else [])],
        ("folder", f"{out}: model.safetensors, guarantee.json, report.html"),
    ]
    if adapter.lost_:
        lost = "paid for and cut short before their releases were used; the guarantee counts them"
        facts.append(("lost", f"{adapter.lost_} of {adapter.design_.settings.blocks} blocks, {lost}"))
    if adapter.stopped_:
        facts.append(("stopped", "the budget had no room for the blocks that were left; training used the others"))
    if accuracy is not None:
        facts.append(("accuracy", f"{100 * accuracy:.1f} % of held-out records; that figure is not private"))
    print_facts(facts)


def _held_out(test: str | None, facts: StatedFacts) -> Dataset | None:
    from privot.errors import UsageError

    held_out = None if test is None else read_records(test, facts, part="test")
    if held_out is not None and held_out.y is None:
        raise UsageError("The test records have no labels to score against: name them y.")
    return held_out


def _designed(
    adapter: DomainAdapter, facts: Facts, source: tuple[Any, Any], given: list[str] | None
) -> AdaptationDesign:
    """What the adapter decides, with what the user set in place of it."""
    design = adapter.design(facts, source)
    if given:
        adapter.settings = _changed(design.settings, given)
        design = adapter.design(facts, source)
    return design


def _vault(
    rows: Any, label: str, adjacency: Adjacency, book: Ledger, terms: tuple[float, float] | None, new_records: bool
) -> Vault:
    """Straight from the file into a vault; the ledger's own budget if it knows the records, else `terms`."""
    from privot.cli.ledgers import open_vault

    # mechanisms here bound what they compute themselves; the clip only has to be a number
    held: dict[str, Any] = {"x": rows, "clip": 1.0, "adjacency": adjacency, "label": label}
    return open_vault(book, terms=terms, new_records=new_records, **held)


def _check_same(job: Job, asked: dict[str, Any]) -> None:
    """A job goes on with what it was started with."""
    from privot.errors import DataError, UsageError

    if "request" in job.settings:
        raise UsageError(f"The job in {job.folder} asked somebody else: go on with privot adapt --answer.")
    found = job.settings.get("asked")
    if not isinstance(found, dict) or "ledger" not in job.settings or set(found) != set(asked):
        raise DataError(f"The job in {job.folder} was not started by privot adapt: go on with it where it was started.")
    job.check_same(asked, found)


def _changed(settings: AdaptationConfig, given: list[str]) -> AdaptationConfig:
    """`settings` with what the user set in place of it."""
    from privot.errors import UsageError
    from privot.opening import parse_json

    names = {f.name for f in fields(settings)} - {"method", "network"}
    changes: dict[str, Any] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in names:
            raise UsageError(f"There is no setting {name!r}: say one of {', '.join(sorted(names))}.")
        try:
            changes[name] = parse_json(value)
        except ValueError:
            changes[name] = value
        if not isinstance(changes[name], int | float | str | None):
            raise UsageError(f"A setting is written NAME=VALUE, got {text!r}.")
    try:
        return replace(settings, **changes)
    except TypeError:
        raise UsageError(f"A setting has a value of the wrong kind: {', '.join(given)}.") from None


def _range(text: str | None, source: str) -> tuple[float, float]:
    """The public range of the records; only that of the built-in digits is known."""
    from privot.errors import UsageError

    if text is None:
        if source == "digits":
            return 0.0, 1.0
        raise UsageError("The range of values is public and has to be stated: give --range LOW,HIGH.")
    return read_pair(text)
