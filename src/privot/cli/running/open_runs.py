"""`--epsilon inf --open`: baselines without privacy, on data that is stated to be open.

No vault is opened, no ledger is opened and no guarantee is made: what is left behind says that nothing is protected.
Data that a ledger lies beside is refused.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import typer

from privot.cli.ledgers import refuse_guarded
from privot.cli.parsing.settings import spelled
from privot.cli.records import read_range, read_records, stated

NOTHING_PROTECTED = "none: the data is open by declaration (--open), and nothing is protected"
STATEMENT = "open.json"
"""In place of a guarantee."""


def is_open_run(epsilon: float | None, open_: bool) -> bool:
    """Whether this is a baseline without privacy; refuses one half of it without the other.

    An infinite ε must never be reached by a slip, and open data needs no ε.
    """
    from privot.errors import UsageError

    infinite = epsilon is not None and math.isinf(epsilon) and epsilon > 0.0
    if infinite and not open_:
        raise UsageError(
            "--epsilon inf protects nobody: add --open to state that the data is open, or give a finite ε."
        )
    if open_ and not infinite:
        raise UsageError("--open states that nothing is to be protected, and works with --epsilon inf only.")
    return infinite


def refuse_others(context: typer.Context, allowed: set[str]) -> None:
    """Refuse every option that was typed and has no meaning without privacy: budgets, ledgers, resuming."""
    from privot.errors import UsageError

    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name not in allowed and source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT"):
            raise UsageError(
                f"{spelled(parameter)} has no meaning with --epsilon inf: nothing is protected, and nobody pays."
            )


def adapt_open(
    source: str,
    target: str,
    out: Path,
    *,
    method: str | None,
    network: str | None,
    classes: str | None,
    shape: str | None,
    value_range: str | None,
    test: str | None,
    device: str,
    seed: int | None,
) -> dict[str, Any]:
    """Train `source`, `swd` or `dann` on open data, and leave predictions and a statement in `out`."""
    import numpy as np

    from privot.adaptation.open_adaptation import OPEN_METHODS, adapt_openly
    from privot.errors import UsageError

    if method is None:
        raise UsageError(f"Name the baseline: --method {', '.join(OPEN_METHODS)}.")
    refuse_guarded(*(data for data in (source, target, test) if data is not None))
    facts = stated(classes, shape)
    low, high = read_range(value_range, source)
    public, held = read_records(source, facts), read_records(target, facts, labels=False)
    held_out = None if test is None else read_records(test, facts, part="test")
    if public.y is None or (held_out is not None and held_out.y is None):
        raise UsageError("The source and the test records need labels: name them y.")
    _check_new(out)
    adapter = adapt_openly(
        (public.x, public.y), held.x, method, shape=facts.shape, low=low, high=high, network=network, device=device,
        seed=0 if seed is None else seed,
    )  # fmt: skip
    answer: dict[str, Any] = {"method": method, "records": {"source": len(public.x), "target": len(held.x)}}
    if held_out is not None:
        answer["accuracy"] = adapter.score(held_out.x, held_out.y)
    _make(out)
    np.save(out / "predicted.npy", adapter.predict(held.x))
    return _stated(out, answer)


def synth_open(
    data: str,
    out: Path,
    *,
    method: str,
    classes: str | None,
    shape: str | None,
    value_range: str | None,
    samples: int,
    steps: int | None,
    device: str,
    seed: int | None,
) -> dict[str, Any]:
    """Train a generator on open data without noise, and leave samples and a statement in `out`."""
    from privot.cli.running.synth_runs.synth_options import BUILT_IN_FACTS
    from privot.errors import UsageError
    from privot.synthesis.open_generators import OPEN_METHODS, train_generator_openly
    from privot.synthesis.output.numbers_output import write_samples

    if method not in OPEN_METHODS:
        raise UsageError(f"Unknown open baseline {method!r}: use {', '.join(OPEN_METHODS)}.")
    if samples < 1:
        raise UsageError(f"--samples must be at least 1, got {samples}.")
    refuse_guarded(data)
    known = BUILT_IN_FACTS.get(data, {})
    facts = stated(classes, shape)
    side = facts.shape or known.get("shape")
    low, high = read_range(value_range, data)
    held = read_records(data, facts)
    count = 0 if held.y is None else int(held.y.max()) + 1
    _check_new(out)
    made = train_generator_openly(
        held.x, held.y, method=method, classes=count, shape=side, low=low, high=high, steps=steps, device=device,
        seed=0 if seed is None else seed,
    )  # fmt: skip
    x, y = made.sample(samples, seed=0 if seed is None else seed)
    _make(out)
    write_samples(out / "open-synthetic.npz", x, y, side, held.names)
    answer = {"method": method, "records": len(held.x), "samples": samples, "steps": made.steps, "loss": made.loss}
    return _stated(out, answer)


def _stated(out: Path, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with its statement, also kept in `out`."""
    from privot.common.files import write_whole

    whole = {"out": str(out), "privacy": NOTHING_PROTECTED, **answer}
    write_whole(out / STATEMENT, (json.dumps(whole, indent=1, ensure_ascii=False) + "\n").encode(), mode=0o644)
    return whole


def _check_new(out: Path) -> None:
    from privot.errors import DataError, UsageError

    try:
        taken = out.exists() and (not out.is_dir() or any(out.iterdir()))
    except OSError as error:
        raise DataError(f"{out} cannot be read ({error.strerror}).") from None
    if taken:
        raise UsageError(f"{out} is not empty: name a new folder, so that no open result lies beside a private one.")


def _make(out: Path) -> None:
    from privot.errors import DataError

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{out} cannot be made ({error.strerror}).") from None


def print_open(answer: dict[str, Any], as_json: bool) -> None:
    """Print the answer; the first line says that nothing is protected."""
    from privot.cli.printing.printed_answer import print_facts, print_json

    if as_json:
        print_json(answer)
        return
    facts = [("privacy", answer["privacy"])]
    facts += [(name, _shown(value)) for name, value in answer.items() if name not in ("privacy", "out")]
    print_facts([*facts, ("folder", f"{answer['out']}: {STATEMENT} states that nothing is protected")])


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
