"""`privot answer`: explains a request of `privot adapt --ask`, or answers it out of the budget of the target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privot.cli.parsing.options import AsJson, LedgerFile, NewRecords, Shape, SigningKey
from privot.cli.printing.printed_answer import print_facts, print_json


def answer(
    request: Annotated[
        Path, typer.Argument(metavar="REQUEST", help="File that privot adapt --ask wrote; it is untrusted input.")
    ],
    target: Annotated[
        str | None, typer.Argument(metavar="TARGET", help="Private records. Without them REQUEST is only explained.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Largest epsilon that the answer may cost; also the budget of TARGET if it has none."),
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Delta of that epsilon, between 0 and 1.")] = None,
    out: Annotated[Path | None, typer.Option(help="Answer file to send back.")] = None,
    ledger: LedgerFile = None,
    key: SigningKey = None,
    shape: Shape = None,
    new_records: NewRecords = False,
    as_json: AsJson = False,
) -> None:
    """Show what a request would cost, or answer it once, out of the budget of TARGET.

    The cost is computed here, from the mechanism that will run. A request that was answered before gets the same
    answer again and costs nothing; the answers are kept beside the ledger.

    Examples: privot answer request.json;
    privot answer request.json usps.npz --epsilon 1 --delta 1e-5 --out usps.release
    """
    from privot.adaptation.adaptation_request import AdaptationRequest
    from privot.cli.printing.interrupts import delivered
    from privot.cli.running.paid_answer import PaidAnswer, check_affordable
    from privot.common.arguments import check_delta, check_epsilon
    from privot.errors import UsageError

    asked = AdaptationRequest.read(request)
    cost = asked.cost()
    shown = {"digest": asked.digest(), "request": asked.to_dict(), "cost": cost.to_dict()}
    low, high = asked.features["low"], asked.features["high"]
    lines = [
        ("request", f"{asked.digest()[:16]}…: noisy sums of {asked.mechanism().features.size} public features"),
        ("of", f"{asked.records} records with {asked.features['dim']} columns, clamped to [{low:g}, {high:g}]"),
        ("costs", cost.stated()),
    ]
    if target is None:
        if any(given is not None for given in (epsilon, delta, out, ledger, key)):
            raise UsageError("To answer, give TARGET; to see what is asked, give REQUEST alone.")
        return print_json(shown) if as_json else print_facts(lines)
    if epsilon is None or delta is None or out is None:
        raise UsageError("To answer, give --epsilon, --delta and --out FILE.")
    terms = check_epsilon(epsilon), check_delta(delta)
    check_affordable(asked, terms)
    paying = PaidAnswer(asked, target, terms, out, ledger=ledger, key=key, shape=shape)
    if not as_json:
        print_facts(lines)
    paid = paying.pay(new_records)
    with delivered(out):
        if as_json:
            return print_json({**shown, "out": str(out), "ledger": str(paying.ledger), "paid": paid})
        print_facts(
            [
                ("answer", f"{out}, {out.stat().st_size} bytes"),
                ("charged to", str(paying.ledger) if paid else "nobody: this request was answered before"),
            ]
        )
