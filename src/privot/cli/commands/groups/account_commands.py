"""`privot account …`: plan a budget with no data at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing.options import AsJson, Chart, Delta, Neighbours
from privot.cli.parsing.shared_options import command_with
from privot.cli.plugged import ANY_OPTIONS
from privot.cli.printing.printed_answer import number, print_epsilons, print_facts, print_json
from privot.errors import UsageError

if TYPE_CHECKING:
    from privot.accounting.planning.plan_terms import Plan

app = typer.Typer(
    help="Plan a budget: σ from ε, ε from σ, or the steps or the batch that both pay for. No data is read.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

CLIPPING = "What is clipped: matrix (all rows as one), row (each by itself: needs --rows), or per-example (DP-SGD)."
Rows = Annotated[int | None, typer.Option(help="Generated points per step, the rows of the gradient (clipping row).")]
Epsilon = Annotated[float | None, typer.Option(help="Target epsilon; leave it out to compute it.")]
Sigma = Annotated[float | None, typer.Option(help="Standard deviation of the noise; leave it out to compute it.")]
Records = Annotated[int | None, typer.Option(help="Number of records; needed with --batch.")]
Batch = Annotated[
    int | None,
    typer.Option(help="Records per step: fixed size (replace-one) or Poisson (add-remove). Default: all."),
]
Epochs = Annotated[float | None, typer.Option(help="Passes over the records: ⌈epochs·records/batch⌉ steps.")]
Steps = Annotated[int | None, typer.Option(help="Number of steps, in place of --epochs.")]
Clip = Annotated[float, typer.Option(help="Public bound to which norms are clipped.")]
Smallest = Annotated[float, typer.Option(help="Smallest σ.")]
Largest = Annotated[float, typer.Option(help="Largest σ.")]
Points = Annotated[int, typer.Option(help="Number of values of σ.")]


def _print(plan: Plan, as_json: bool) -> None:
    if as_json:
        print_json(plan.to_dict())
        return
    cost = plan.guarantee
    print_facts(
        [
            ("σ", number(plan.sigma, 6)),
            *([] if plan.scale is None else [("scale", number(plan.scale, 6))]),
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


@app.command(hidden=True, context_settings=ANY_OPTIONS)
def claims() -> None:
    """Say where the claims of the Wasserstein-DP paper are checked."""
    raise UsageError("privot account claims is privot study claims now, a command of privot-lab.")


def planning(
    delta: Delta,
    adjacency: Neighbours,
    epsilon: Epsilon = None,
    sigma: Sigma = None,
    records: Records = None,
    batch: Batch = None,
    epochs: Epochs = None,
    steps: Steps = None,
    as_json: AsJson = False,
) -> Callable[..., None]:
    """What prints a plan of a training: it adds the budget, and how many steps on how many records."""
    terms: dict[str, Any] = {"delta": delta, "adjacency": adjacency, "epsilon": epsilon, "sigma": sigma}
    terms |= {"records": records, "batch": batch, "epochs": epochs, "steps": steps}
    return lambda plan, *given, **more: _print(plan(*given, **more, **terms), as_json)


training = command_with(app, planning)


@training
def projection(
    show: Callable[..., None],
    dim: Annotated[int, typer.Option(help="Number of columns of the projected rows.")],
    slices: Annotated[int, typer.Option(help="Number of random directions per step.")],
    clip: Clip = 0.5,
    frame: Annotated[str, typer.Option(help="Directions: orthogonal or independent.")] = "orthogonal",
    bound: Annotated[
        str,
        typer.Option(
            help="Bound: exact, bernstein (proven, loose), clt (no bound); published or published-clt: these two as "
            "the paper counts them, their failure charged once (unproven)."
        ),
    ] = "exact",
) -> None:
    """Plan noisy random projections of every record (DP-SWD).

    Example: privot account projection --dim 784 --slices 200 --records 10000 --batch 128 --epochs 100 --epsilon 10
    --delta 1e-5 --adjacency replace-one --json
    """
    from privot.accounting import projection as plan

    show(plan, dim, slices, clip=clip, frame=frame, bound=bound)


@training
def gradient(
    show: Callable[..., None],
    clipping: Annotated[str, typer.Option(help=CLIPPING)],
    rows: Rows = None,
    clip: Clip = 1.0,
) -> None:
    """Plan noisy clipped gradients (DP-Sinkhorn, DP-SGD).

    One record moves a clipped matrix by 2C, a matrix of n rows each clipped to C by 2C√n.

    Examples: privot account gradient --clipping per-example --records 60000 --batch 50 --steps 100000 --clip 0.5
    --epsilon 10 --delta 1e-5 --adjacency add-remove; privot account gradient --clipping row --rows 50 --sigma 20
    --clip 0.5 --delta 1e-5 --adjacency add-remove
    """
    from privot.accounting import gradient as plan

    show(plan, clip=clip, clipping=clipping, rows=rows)


@app.command()
def embedding(
    delta: Delta,
    adjacency: Neighbours,
    epsilon: Epsilon = None,
    sigma: Sigma = None,
    norm: Annotated[float, typer.Option(help="Bound on the norm of one record's features.")] = 1.0,
    releases: Annotated[int, typer.Option(help="Number of releases.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Plan noisy sums of bounded features, released once or several times.

    Example: privot account embedding --epsilon 1 --delta 1e-5 --adjacency add-remove
    """
    from privot.accounting import embedding as plan

    _print(plan(adjacency=adjacency, delta=delta, sigma=sigma, epsilon=epsilon, norm=norm, releases=releases), as_json)


@app.command()
def laplace(
    adjacency: Neighbours,
    epsilon: Epsilon = None,
    scale: Annotated[float | None, typer.Option(help="Scale of the noise; leave it out to compute it.")] = None,
    sensitivity: Annotated[float, typer.Option(help="Most by which one record moves the number.")] = 1.0,
    releases: Annotated[int, typer.Option(help="Number of releases.")] = 1,
    delta: Annotated[float, typer.Option(help="Target delta; 0 is pure differential privacy.")] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Plan single numbers with Laplace noise, which is private at δ = 0 (pure differential privacy).

    Example: privot account laplace --epsilon 1 --releases 10 --adjacency add-remove
    """
    from privot.accounting import laplace as plan

    terms: dict[str, Any] = {"scale": scale, "epsilon": epsilon, "sensitivity": sensitivity, "releases": releases}
    _print(plan(adjacency=adjacency, delta=delta, **terms), as_json)


@app.command()
def compare(
    delta: Delta,
    adjacency: Neighbours,
    mechanism: Annotated[str, typer.Option(help="Mechanism: projection or gradient.")] = "projection",
    dim: Annotated[int, typer.Option(help="Number of columns (projection).")] = 784,
    slices: Annotated[int, typer.Option(help="Number of directions per step (projection).")] = 200,
    records: Records = None,
    batch: Batch = None,
    epochs: Epochs = None,
    steps: Steps = None,
    clip: Clip = 0.5,
    clipping: Annotated[str | None, typer.Option(help=CLIPPING)] = None,
    rows: Rows = None,
    smallest: Smallest = 0.3,
    largest: Largest = 10.0,
    points: Points = 12,
    out: Chart = None,
    as_json: AsJson = False,
) -> None:
    """Show ε against σ for every accountant that applies to one mechanism.

    Example: privot account compare --mechanism projection --dim 784 --slices 200 --records 10000 --batch 128
    --epochs 100 --delta 1e-5 --adjacency replace-one --out compare.png
    """
    from privot.accounting.comparison import compare as count

    answer = count(
        mechanism, adjacency=adjacency, delta=delta, dim=dim, slices=slices, records=records, batch=batch,
        epochs=epochs, steps=steps, clip=clip, smallest=smallest, largest=largest, points=points,
        clipping=clipping, rows=rows,  # type: ignore[arg-type]
    )  # fmt: skip
    if out is not None:
        from privot.cli.printing.charts import draw_comparison

        draw_comparison(answer, out)
    if as_json:
        print_json({**answer.to_dict(), "plot": None if out is None else str(out)})
        return
    typer.echo(f"ε at δ = {delta:g}, {answer.adjacency}; sampling: {answer.sampling}; {answer.steps} steps")
    typer.echo("")
    print_epsilons(answer)
    if out is not None:
        typer.echo(f"\nDrawn in {out}.")
