"""`privot demo`: the whole story on built-in digits. It owns no mechanism: it only tells the steps in order."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from privot.cli.output import print_json


def demo(
    out: Annotated[
        Path | None, typer.Option(help="Folder for what is made; a new one under out/ unless given.")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Budget of the digits: ε …")] = 3.0,
    delta: Annotated[float, typer.Option(help="… at this δ.")] = 1e-5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Plan, charge and make one private release of 1,797 handwritten digits, and print its guarantee."""
    import numpy as np

    from privot.accounting import projection
    from privot.data import load
    from privot.errors import BudgetError, UsageError
    from privot.ledger import Ledger
    from privot.mechanisms import RandomProjection
    from privot.vault import Vault

    def tell(line: str) -> None:
        if not as_json:
            typer.echo(line)

    slices = 64
    plan = projection(64, slices, adjacency="replace-one", delta=delta, epsilon=epsilon)
    if out is None:
        out = Path("out") / datetime.now(UTC).strftime("demo-%Y%m%d-%H%M%S-%f")
    if out.exists():
        raise UsageError(f"{out} exists already: choose another folder, so that no ledger is overwritten.")
    out.mkdir(parents=True)
    terms = f"ε = {epsilon:g} at δ = {delta:g}, replace-one"
    tell(f"1. Plan. {slices} orthogonal projections of a digit for {terms}, proven: σ = {plan.sigma:.4f}.")
    with Ledger.create(out / "digits.ledger") as ledger:
        vault = Vault(
            load("digits").x, clip=0.5, adjacency="replace-one", ledger=ledger, budget=(epsilon, delta), label="digits"
        )
        tell(f"2. Lock up. {vault!r}; budget {terms}, in {ledger.path}.")
        release = vault.release(RandomProjection(slices=slices, sigma=plan.sigma), purpose="demo: projections")
        release.save(out / "release.npz")
        guarantee = release.guarantee
        (out / "guarantee.json").write_text(guarantee.to_json() + "\n", encoding="utf-8")
        shape = " × ".join(map(str, np.shape(release.value)))  # type: ignore[arg-type]
        tell(f"3. Charge, then release. {shape} noisy numbers in {out / 'release.npz'}.")
        try:
            vault.release(RandomProjection(slices=slices, sigma=plan.sigma), purpose="demo: once more")
            refused = None
        except BudgetError as refusal:
            refused = str(refusal)
        tell(f"4. Ask again. {refused or 'The budget still covered it.'}")
        rows = ledger.verify()
    tell(f"5. Verify. The ledger's {rows} rows are intact.\n")
    if as_json:
        print_json(
            {"out": str(out), "sigma": plan.sigma, "guarantee": guarantee.to_dict(), "refused": refused, "rows": rows}
        )
        return
    typer.echo("Guarantee")
    typer.echo(f"  ε = {guarantee.epsilon():.6g} at δ = {delta:g}, {guarantee.adjacency}, {guarantee.standing}")
    typer.echo(f"  {guarantee.explain()}")
