"""`privot account …`: plan a budget with no data at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.commands.claims import claims
from privot.cli.parsing.options import AsJson
from privot.cli.printing.output import number, print_facts, print_json, print_table

if TYPE_CHECKING:
    from privot.accounting.planning import Plan

app = typer.Typer(
    help="Plan a budget: σ from ε, ε from σ, or the steps or the batch that both pay for. No data is read.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

app.command("claims", epilog="Example: privot account claims --plot claims.png")(claims)

Adjacency = Annotated[str, typer.Option(help="Who are neighbours: replace-one or add-remove. There is no default.")]
Delta = Annotated[float, typer.Option(help="δ, strictly between 0 and 1.")]
Epsilon = Annotated[float | None, typer.Option(help="ε to meet; leave out to have it answered.")]
Sigma = Annotated[float | None, typer.Option(help="Standard deviation of the noise; leave out to have it answered.")]
Records = Annotated[int | None, typer.Option(help="Number of records; needed with a batch.")]
Batch = Annotated[
    int | None,
    typer.Option(help="Records per step: fixed size (replace-one) or Poisson (add-remove). Without it, all of them."),
]
Epochs = Annotated[float | None, typer.Option(help="Passes over the records: ⌈epochs·records/batch⌉ steps.")]
Steps = Annotated[int | None, typer.Option(help="Number of steps, in place of --epochs.")]
Clip = Annotated[float, typer.Option(help="Public bound to which norms are clipped.")]


def _answer(plan: Plan, as_json: bool) -> None:
    if as_json:
        print_json(plan.to_dict())
        return
    cost = plan.guarantee
    print_facts(
        [
            ("σ", number(plan.sigma, 6)),
            ("ε", f"{number(cost.epsilon(), 6)} at δ = {cost.at_delta:g}"),
            ("adjacency", str(cost.adjacency)),
            ("standing", str(cost.standing)),
            ("sampling", cost.sampling),
            ("steps", str(plan.steps)),
            ("sensitivity", number(plan.sensitivity, 6)),
        ]
    )
    typer.echo("")
    typer.echo(cost.explain())


@app.command(
    epilog="Example: privot account projection --dim 784 --slices 200 --records 10000 --batch 128 --epochs 100 "
    "--epsilon 10 --delta 1e-5 --adjacency replace-one --json"
)
def projection(
    dim: Annotated[int, typer.Option(help="Dimension of the rows that are really projected.")],
    slices: Annotated[int, typer.Option(help="Number of random directions per step.")],
    delta: Delta,
    adjacency: Adjacency,
    epsilon: Epsilon = None,
    sigma: Sigma = None,
    records: Records = None,
    batch: Batch = None,
    epochs: Epochs = None,
    steps: Steps = None,
    clip: Clip = 0.5,
    frame: Annotated[str, typer.Option(help="Directions: orthogonal frames, or independent ones.")] = "orthogonal",
    bound: Annotated[
        str, typer.Option(help="exact, or as published: bernstein (proven, loose) or clt (no bound).")
    ] = "exact",
    as_json: AsJson = False,
) -> None:
    """Random projections of every record plus noise (DP-SWD)."""
    from privot.accounting import projection as plan

    _answer(
        plan(
            dim,
            slices,
            adjacency=adjacency,
            delta=delta,
            sigma=sigma,
            epsilon=epsilon,
            records=records,
            batch=batch,
            epochs=epochs,
            steps=steps,
            clip=clip,
            frame=frame,  # type: ignore[arg-type]
            bound=bound,  # type: ignore[arg-type]
        ),
        as_json,
    )


@app.command(
    epilog="Example: privot account gradient --records 60000 --batch 50 --steps 100000 --clip 0.5 --epsilon 10 "
    "--delta 1e-5 --adjacency add-remove"
)
def gradient(
    delta: Delta,
    adjacency: Adjacency,
    epsilon: Epsilon = None,
    sigma: Sigma = None,
    records: Records = None,
    batch: Batch = None,
    epochs: Epochs = None,
    steps: Steps = None,
    clip: Clip = 1.0,
    clipping: Annotated[
        str, typer.Option(help="whole: one clipped matrix (DP-Sinkhorn); per-example: a sum of clipped ones (DP-SGD).")
    ] = "whole",
    as_json: AsJson = False,
) -> None:
    """Clipped gradients plus noise (DP-Sinkhorn, DP-SGD)."""
    from privot.accounting import gradient as plan

    _answer(
        plan(
            adjacency=adjacency,
            delta=delta,
            sigma=sigma,
            epsilon=epsilon,
            records=records,
            batch=batch,
            epochs=epochs,
            steps=steps,
            clip=clip,
            clipping=clipping,  # type: ignore[arg-type]
        ),
        as_json,
    )


@app.command(epilog="Example: privot account embedding --epsilon 1 --delta 1e-5 --adjacency add-remove")
def embedding(
    delta: Delta,
    adjacency: Adjacency,
    epsilon: Epsilon = None,
    sigma: Sigma = None,
    norm: Annotated[float, typer.Option(help="Bound on the norm of one record's features.")] = 1.0,
    releases: Annotated[int, typer.Option(help="How often an embedding is released.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Sums of bounded features plus noise, released once."""
    from privot.accounting import embedding as plan

    _answer(plan(adjacency=adjacency, delta=delta, sigma=sigma, epsilon=epsilon, norm=norm, releases=releases), as_json)


@app.command(
    epilog="Example: privot account compare --mechanism projection --dim 784 --slices 200 --records 10000 --batch 128 "
    "--epochs 100 --delta 1e-5 --adjacency replace-one --out compare.png"
)
def compare(
    delta: Delta,
    adjacency: Adjacency,
    mechanism: Annotated[str, typer.Option(help="projection or gradient.")] = "projection",
    dim: Annotated[int, typer.Option(help="Dimension (projection).")] = 784,
    slices: Annotated[int, typer.Option(help="Directions per step (projection).")] = 200,
    records: Records = None,
    batch: Batch = None,
    epochs: Epochs = None,
    steps: Steps = None,
    clip: Clip = 0.5,
    smallest: Annotated[float, typer.Option(help="Smallest σ drawn.")] = 0.3,
    largest: Annotated[float, typer.Option(help="Largest σ drawn.")] = 10.0,
    points: Annotated[int, typer.Option(help="How many σ.")] = 12,
    out: Annotated[Path | None, typer.Option(help="Where to draw ε against σ (.png, .svg or .pdf).")] = None,
    as_json: AsJson = False,
) -> None:
    """ε against σ for every accountant that applies to one mechanism."""
    from privot.accounting.comparison import compare as count

    answer = count(
        mechanism,
        adjacency=adjacency,
        delta=delta,
        dim=dim,
        slices=slices,
        records=records,
        batch=batch,
        epochs=epochs,
        steps=steps,
        clip=clip,
        smallest=smallest,
        largest=largest,
        points=points,
    )
    if out is not None:
        from privot.cli.printing.charts import draw_comparison

        draw_comparison(answer, out)
    facts: dict[str, Any] = answer.to_dict()
    if as_json:
        print_json({**facts, "plot": None if out is None else str(out)})
        return
    typer.echo(f"ε at δ = {delta:g}, {answer.adjacency}; sampling: {answer.sampling}; {answer.steps} steps")
    typer.echo("")
    header = ["accountant", "standing", *(f"σ={s:.3g}" for s in answer.sigmas)]
    rows = [[c.name, str(c.standing), *(number(e, 4) for e in c.epsilons)] for c in answer.curves]
    print_table(header, rows)
    if out is not None:
        typer.echo(f"\nDrawn in {out}.")
