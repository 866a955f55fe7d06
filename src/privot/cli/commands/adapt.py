"""`privot adapt`: a classifier for private records; the command itself sees no private record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing import options as shared
from privot.cli.parsing.option_combinations import check_together
from privot.cli.parsing.options import AsJson, Device, LedgerFile, NewRecords, OptionalDelta, OptionalEpsilon, OutFolder
from privot.cli.parsing.settings import SETTINGS
from privot.cli.printing.printed_answer import print_facts, print_json
from privot.common.visible import command_line

if TYPE_CHECKING:
    from privot.adaptation.adaptation_request import AdaptationRequest
    from privot.cli.running.adapt_job import AdaptAnswer

_OPEN_OPTIONS = {
    "source", "target", "out", "epsilon", "open_", "method", "network", "classes", "shape", "value_range", "test",
    "device", "seed", "as_json",
}  # fmt: skip
"""Parameters with a meaning for a baseline without privacy."""


def adapt(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Public records with labels (.npz, .csv, a table), or digits.")
    ],
    out: OutFolder,
    target: Annotated[
        str | None, typer.Argument(metavar="TARGET", help="Private records; their labels are not read.")
    ] = None,
    epsilon: OptionalEpsilon = None,
    delta: OptionalDelta = None,
    ask: Annotated[
        Path | None, typer.Option(help="In place of TARGET: write a request for its holder to answer.")
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(metavar="N", rich_help_panel=SETTINGS, help="With --ask: public number of target records."),
    ] = None,
    answer: Annotated[
        Path | None, typer.Option(help="In place of TARGET: train the job in OUT on the answer to its request.")
    ] = None,
    trust: shared.Trust = None,
    adjacency: Annotated[
        str | None, typer.Option(help="Neighbouring data sets: replace-one, and with --unit add-remove.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="Method: stand-in (the default for images, the only one for tables), embedding (the default for "
            "vectors), or sliced."
        ),
    ] = None,
    schema: shared.SchemaFile = None,
    unit: shared.UnitColumn = None,
    per_unit: shared.RowsPerUnit = None,
    unit_file: shared.UnitFile = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", rich_help_panel=SETTINGS, help="Network: digits, features, or package.module:function."
        ),
    ] = None,
    classes: shared.Classes = None,
    shape: shared.Shape = None,
    value_range: shared.ValueRange = None,
    settings: shared.Settings = None,
    test: Annotated[
        str | None, typer.Option(help="Labelled target records to score on; what is said of them is not private.")
    ] = None,
    device: Device = "auto",
    ledger: LedgerFile = None,
    resume: shared.Resume = False,
    pay_again: shared.PayAgain = False,
    new_records: NewRecords = False,
    allow_unproven: shared.AllowUnproven = False,
    open_: shared.OpenData = False,
    checkpoint: shared.Checkpoint = 60.0,
    seed: shared.Seed = None,
    as_json: AsJson = False,
) -> None:
    """Train a classifier for private unlabelled records from public labelled ones, under (ε, δ).

    If TARGET may not leave its machine: --ask writes a request, privot answer answers it there, and --answer trains.

    Examples: privot adapt mnist.npz usps.npz --epsilon 1 --delta 1e-5 --shape 28,28 --range 0,255 --out usps-model;
    privot adapt mnist.npz --ask request.json --set records=7291 --epsilon 1 --delta 1e-5 --range 0,255 --out
    usps-model;
    privot adapt mnist.npz --answer usps.release --out usps-model;
    privot adapt public.csv private.csv --schema schema.json --epsilon 1 --delta 1e-5 --out model;
    privot adapt public.csv private.csv --schema schema.json --unit patient_id --per-unit 5 --epsilon 1 --delta 1e-5
    --out model

    Baselines without privacy, on open data: privot adapt mnist.npz usps.npz --method source|swd|dann --epsilon inf
    --open --range 0,255 --out open-usps.
    """
    from privot.cli.printing.interrupts import delivered
    from privot.cli.running.adapt_exchange import learn_from, write_request
    from privot.cli.running.adapt_job import AdaptOptions, AdaptRun, PlannedAdaptation
    from privot.cli.running.open_runs import adapt_open, is_open_run, print_open, refuse_others
    from privot.cli.table_input import UnitOptions
    from privot.errors import UsageError

    if is_open_run(epsilon, open_):
        refuse_others(context, _OPEN_OPTIONS)
        if target is None:
            raise UsageError("A baseline without privacy needs TARGET, its open records.")
        return print_open(
            adapt_open(
                source, target, out, method=method, network=network, classes=classes, shape=shape,
                value_range=value_range, test=test, device=device, seed=seed,
            ),
            as_json,
        )  # fmt: skip
    check_together(context)
    if answer is not None:
        how: dict[str, Any] = {"test": test, "trust": trust, "device": device, "network": network, "quiet": as_json}
        return _print(learn_from(context, answer, source, out, checkpoint=checkpoint, **how), out, as_json)
    if epsilon is None or delta is None or (target is None) != (ask is not None):
        raise UsageError("Give --epsilon, --delta, and either TARGET or --ask FILE.")
    planned = PlannedAdaptation(
        AdaptOptions(
            source=source, epsilon=epsilon, delta=delta, adjacency=adjacency, method=method, schema=schema,
            network=network, classes=classes, shape=shape, value_range=value_range, settings=settings, test=test,
            device=device, allow_unproven=allow_unproven, seed=seed, units=UnitOptions(unit, per_unit, unit_file),
        ),
        target,
    )  # fmt: skip
    if ask is not None:
        return _print_request(write_request(context, planned, records, ask, out), ask, out, as_json)
    assert target is not None
    job = AdaptRun(
        target=target, out=out, ledger=ledger, resume=resume, pay_again=pay_again, new_records=new_records,
        checkpoint=checkpoint, as_json=as_json,
    )  # fmt: skip
    made = planned.run(context, job)
    with delivered(out):
        return _print(made, out, as_json)


def _print_request(request: AdaptationRequest, path: Path, out: Path, as_json: bool) -> None:
    cost = request.cost()
    if as_json:
        print_json({"request": str(path), "digest": request.digest(), "out": str(out), "cost": cost.to_dict()})
        return
    there = command_line(["privot", "answer", path.name])
    print_facts(
        [
            ("request", f"{path}, {request.digest()[:16]}…"),
            ("will cost", f"the target's holder {cost.stated()}"),
            ("next", f"there: {there}; then here: privot adapt … --answer FILE --out {command_line([str(out)])}"),
        ]
    )


def _print(made: AdaptAnswer, out: Path, as_json: bool) -> None:
    from privot.cli.printing.command_warnings import with_warnings
    from privot.jobs.spending import spending_lines
    from privot.synthesis.output.html_report import CONFIDENTIAL

    adapter, accuracy, guarantee = made.adapter, made.accuracy, made.adapter.guarantee_
    assert guarantee is not None  # every method that the command offers asks the vault
    if as_json:
        answer: dict[str, Any] = {"out": str(out), **made.paid, "guarantee": guarantee.to_dict()}
        answer |= {"sigma": adapter.design_.sigma, "settings": adapter.design_.settings.to_dict()}
        answer |= {"charged": adapter.charged_, "lost": adapter.lost_}
        if made.compared is not None:
            answer |= {"source_only_accuracy": made.compared.source_only, "harmed": made.compared.harmed}
        answer |= {} if accuracy is None else {"accuracy": accuracy, "privacy": CONFIDENTIAL}
        print_json(with_warnings(answer))
        return _refuse_harm(made)
    facts = [
        ("guarantee", guarantee.stated()),
        ("charged to", made.payer),
        *[(f"ledger, {what}", words) for what, words in (spending_lines(made.spent, guarantee) if made.spent else [])],
        ("folder", f"{out}: model.safetensors, guarantee.json, report.html"),
    ]
    if adapter.lost_:
        lost = "paid for and cut short before their releases were used; the guarantee counts them"
        facts.append(("lost", f"{adapter.lost_} of {adapter.design_.settings.blocks} blocks, {lost}"))
    if accuracy is not None:
        facts.append(("accuracy", f"{100 * accuracy:.1f} % of the test records; this figure is not private"))
    if made.compared is not None:
        facts.append(
            (
                "source alone",
                f"{100 * made.compared.source_only:.1f} % of the same records, not adapted; not private either",
            )
        )
    else:
        facts.append(("source alone", "not compared: --test with labelled target records says whether this helps"))
    print_facts(facts)
    return _refuse_harm(made)


def _refuse_harm(made: AdaptAnswer) -> None:
    """End with an error where adaptation did worse than none; what was trained stays in its folder."""
    from privot.errors import ConvergenceError

    found = made.compared
    if found is not None and found.harmed:
        raise ConvergenceError(
            f"Adaptation did harm: {100 * found.adapted:.1f} % of the test records are right, and "
            f"{100 * found.source_only:.1f} % by the source alone, so do not use this model. These figures and this "
            "verdict are as confidential as the test records: choosing by them is covered by no guarantee."
        )
