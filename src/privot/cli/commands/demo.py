"""`privot demo`: the whole story on built-in digits. It owns no mechanism: it only tells the steps in order."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from privot.cli.parsing.options import AsJson
from privot.cli.printing.output import print_json, print_table


def demo(
    out: Annotated[
        Path | None, typer.Option(help="Folder for what is made; a new one under out/ unless given.")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Budget of the digits: ε …")] = 10.0,
    delta: Annotated[float, typer.Option(help="… at this δ.")] = 1e-5,
    steps: Annotated[int | None, typer.Option(help="Training steps, in place of the rule's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Synthesise 1,437 handwritten digits under (ε, δ), and test what was made on 360 digits kept apart.

    Examples: privot demo; privot demo --epsilon 1 --out demo-1
    """
    from dataclasses import replace

    import numpy as np

    from privot.accounting import embedding
    from privot.cli.printing.progress import training_bar
    from privot.data import load
    from privot.errors import BudgetError, UsageError
    from privot.evaluation import score
    from privot.jobs.released_files import write_json
    from privot.ledger import Ledger
    from privot.synthesis import Synthesizer
    from privot.synthesis.output.html_report import CONFIDENTIAL, write_report
    from privot.synthesis.output.output_folder import write_folder
    from privot.vault import Vault

    began = time.monotonic()

    def tell(line: str) -> None:
        if not as_json:
            typer.echo(line)

    plan = embedding(adjacency="replace-one", delta=delta, epsilon=epsilon)
    if out is None:
        out = Path("out") / datetime.now(UTC).strftime("demo-%Y%m%d-%H%M%S-%f")
    if out.exists():
        raise UsageError(f"{out} exists already: choose another folder, so that no ledger is overwritten.")
    out.mkdir(parents=True)
    terms = f"ε = {epsilon:g} at δ = {delta:g}, replace-one"
    tell(f"1. Plan. Class means of random features for {terms}, proven: σ = {plan.sigma:.4f}.")
    digits = load("digits")
    assert digits.y is not None
    # the split is by number, so it is public
    apart = np.arange(len(digits.x)) % 5 == 0
    x, y, x_test, y_test = digits.x[~apart], digits.y[~apart], digits.x[apart], digits.y[apart]
    synthesizer = Synthesizer(epsilon, delta, shape=(8, 8), low=0.0, high=1.0, seed=0)
    made = out / "synthetic"
    with Ledger.create(out / "digits.ledger") as ledger:
        vault = Vault(
            x, y, classes=10, clip=1.0, adjacency="replace-one", ledger=ledger, budget=(epsilon, delta), label="digits"
        )
        # a folder and a ledger of its own, so that whoever tries privot out spends nobody's budget
        tell(f"2. Lock up. {vault!r}; budget {terms}, in {ledger.path}: a ledger for this demonstration only.")
        if steps is not None:
            design = synthesizer.design(vault.facts)
            synthesizer.set_params(rules=replace(design.rules, steps=steps))
        tell("3. Charge, release once, then train on the release alone.")
        with training_bar(epsilon, quiet=as_json) as bar:
            synthesizer.fit(vault, folder=made, progress=bar)
        try:
            vault.release(synthesizer.design_.mechanism, purpose="demo: once more")
            refused = None
        except BudgetError as refusal:
            refused = str(refusal)
        tell(f"4. Ask again. {refused or 'The budget still covered it.'}")
        rows = ledger.verify()
    tell(f"5. Verify. The ledger's {rows} rows are intact.")
    write_folder(synthesizer, made, 5000, 0)
    sx, sy = synthesizer.sample(5000, seed=0)
    assert sy is not None
    names = ("logreg", "mlp")
    scores = {name: score(name, sx, sy, x_test, y_test) for name in names}
    real = {name: score(name, x, y, x_test, y_test) for name in names}
    privacy = f"{CONFIDENTIAL}; the figures on real were even trained on the records of the vault, without any privacy"
    write_json(made / "evaluation.json", {"scores": scores, "real": real, "privacy": privacy})
    page = write_report(made)
    guarantee, seconds = synthesizer.guarantee_, time.monotonic() - began
    if as_json:
        print_json(
            {
                "out": str(out),
                "sigma": plan.sigma,
                "guarantee": guarantee.to_dict(),
                "scores": scores,
                "real": real,
                "privacy": privacy,
                "ledger": str(ledger.path),
                "refused": refused,
                "rows": rows,
                "report": str(page),
                "seconds": seconds,
            }
        )
        return
    typer.echo("6. Evaluate on 360 digits that were never in the vault.\n")
    print_table(
        ["accuracy", "trained on synthetic", "trained on real (not private)"],
        [[name, f"{100 * scores[name]:.1f} %", f"{100 * real[name]:.1f} %"] for name in names],
    )
    typer.echo(f"\nThe scores are {privacy}.")
    typer.echo("\nGuarantee")
    typer.echo(f"  ε = {guarantee.epsilon():.6g} at δ = {delta:g}, {guarantee.adjacency}, {guarantee.standing}")
    typer.echo(f"  {guarantee.explain()}")
    typer.echo(f"\nThe whole story: {page} ({seconds:.0f} s).")
