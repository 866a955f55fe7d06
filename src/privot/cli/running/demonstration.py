"""What `privot demo` runs: the whole story on built-in digits, step by step, with a ledger of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.guarantee import Guarantee
    from privot.synthesis import Synthesizer
    from privot.vault import Vault

CLASSIFIERS = ("logreg", "mlp")


@dataclass(frozen=True)
class Digits:
    """The digits that go into the vault, and those kept apart for the test."""

    x: Any
    y: Any
    x_test: Any
    y_test: Any


@dataclass(frozen=True)
class DemoAnswer:
    """What the demonstration ends with."""

    sigma: float
    guarantee: Guarantee
    scores: dict[str, float]
    real: dict[str, float]
    privacy: str
    ledger: Path
    refused: str | None
    rows: int
    report: Path


def demonstrate(
    out: Path, epsilon: float, delta: float, steps: int | None, quiet: bool, tell: Callable[[str], None]
) -> DemoAnswer:
    """Plan, lock up, charge, release, train, ask again, verify and evaluate; `tell` hears of every step."""
    from privot.accounting import embedding
    from privot.cli.printing.progress import training_bar
    from privot.common.files import is_taken
    from privot.errors import UsageError
    from privot.ledger import Ledger
    from privot.synthesis import Synthesizer
    from privot.synthesis.output.output_folder import write_folder
    from privot.vault import Vault

    plan = embedding(adjacency="replace-one", delta=delta, epsilon=epsilon)
    if is_taken(out):
        raise UsageError(f"{out} exists already: choose another folder, so that no ledger is overwritten.")
    out.mkdir(parents=True)
    terms, made = f"ε = {epsilon:g} at δ = {delta:g}, replace-one", out / "synthetic"
    tell(f"1. Plan. Class means of random features for {terms}, proven: σ = {plan.sigma:.4f}.")
    digits = _split()
    synthesizer = Synthesizer(epsilon, delta, shape=(8, 8), low=0.0, high=1.0, seed=0)
    # a folder and a ledger of its own, so that trying privot out spends nobody's budget
    with Ledger.create(out / "digits.ledger") as ledger:
        held: dict[str, Any] = {"classes": 10, "clip": 1.0, "adjacency": "replace-one", "label": "digits"}
        vault = Vault(digits.x, digits.y, **held, ledger=ledger, budget=(epsilon, delta))
        tell(f"2. Lock up. {vault!r}; budget {terms}, in {ledger.path}: a ledger for this demonstration only.")
        if steps is not None:
            _set_steps(synthesizer, vault, steps)
        tell("3. Charge, release once, then train on the release alone.")
        with training_bar(epsilon, quiet=quiet) as bar:
            synthesizer.fit(vault, folder=made, progress=bar)
        refused = _ask_again(synthesizer, vault)
        tell(f"4. Ask again. {refused or 'The budget still covered it.'}")
        rows = ledger.verify()
    tell(f"5. Verify. The ledger's {rows} rows are intact.")
    write_folder(synthesizer, made, 5000, 0)
    scores, real, privacy, page = _evaluate(synthesizer, digits, made)
    return DemoAnswer(plan.sigma, synthesizer.guarantee_, scores, real, privacy, ledger.path, refused, rows, page)


def _split() -> Digits:
    import numpy as np

    from privot.data import load

    digits = load("digits")
    assert digits.y is not None
    # the split is by number, so it is public
    apart = np.arange(len(digits.x)) % 5 == 0
    return Digits(digits.x[~apart], digits.y[~apart], digits.x[apart], digits.y[apart])


def _set_steps(synthesizer: Synthesizer, vault: Vault, steps: int) -> None:
    design = synthesizer.design(vault.facts)
    synthesizer.set_params(rules=replace(design.rules, steps=steps))


def _ask_again(synthesizer: Synthesizer, vault: Vault) -> str | None:
    """The refusal of a second release; None where the budget covered it."""
    from privot.errors import BudgetError

    try:
        vault.release(synthesizer.design_.mechanism, purpose="demo: once more")
    except BudgetError as refusal:
        return str(refusal)
    return None


def _evaluate(
    synthesizer: Synthesizer, digits: Digits, made: Path
) -> tuple[dict[str, float], dict[str, float], str, Path]:
    """Accuracies trained on synthetic and on real digits, what is private about them, and the report."""
    from privot.evaluation import score
    from privot.jobs.released_files import write_json
    from privot.synthesis.output.html_report import CONFIDENTIAL, write_report

    x, y = synthesizer.sample(5000, seed=0)
    assert y is not None
    test = digits.x_test, digits.y_test
    scores = {name: score(name, x, y, *test) for name in CLASSIFIERS}
    real = {name: score(name, digits.x, digits.y, *test) for name in CLASSIFIERS}
    privacy = f"{CONFIDENTIAL}; the figures on real were even trained on the records of the vault, without any privacy"
    write_json(made / "evaluation.json", {"scores": scores, "real": real, "privacy": privacy})
    return scores, real, privacy, write_report(made)
