"""What `privot demo` runs: two clinics that may not share their patients, told step by step; it owns no mechanism.

All patients are invented and the digits are built in, so nobody's budget is spent. Every ledger, file and page lies in
one new folder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.cli.running.demo_runs import invented_clinics as clinics
from privot.cli.running.demo_runs.demo_page import DemoAnswer

if TYPE_CHECKING:
    from privot.ledger import Ledger
    from privot.tables import TableCodec
    from privot.vault import Vault

Tell = Callable[..., None]
"""Hears the title of a step, or lines below it."""

SKETCH, TABLE, DIGITS = 2.0 / 15.0, 1.0 / 3.0, 2.0 / 5.0
"""Shares of ε: one sketch (there are two), the synthetic table, the synthetic digits; they add up to 1."""
ADJACENCY = "add-remove"
SAMPLES = 5000
CANDIDATES, ATTACK_STEPS, RUNS, TRIALS = 300, 150, 100, 200_000
"""A short audit: records of its own, steps of training on them, runs of the mechanism, trials of its noise."""


def demonstrate(out: Path, epsilon: float, delta: float, steps: int | None, tell: Tell, quiet: bool) -> DemoAnswer:
    """Compare, release, score, attack, refuse, report; `tell` hears of every step."""
    from privot.common.arguments import check_delta, check_epsilon
    from privot.common.extras import require
    from privot.common.files import is_taken
    from privot.errors import StoppedError, UsageError

    check_epsilon(epsilon), check_delta(delta)
    require("The demonstration needs", "synthesis", "torch", "safetensors", "jinja2")
    if is_taken(out):
        raise UsageError(f"{out} exists already: choose another folder, so that no ledger is overwritten.")
    try:
        return _Story(out, epsilon, delta, steps, tell, quiet).run()
    except StoppedError:
        # it says how one release goes on; a demonstration tells its story again, so what its ledgers hold is said
        raise KeyboardInterrupt from None


class _Story:
    """One run of the demonstration."""

    def __init__(self, out: Path, epsilon: float, delta: float, steps: int | None, tell: Tell, quiet: bool) -> None:
        self.out, self.epsilon, self.delta, self.steps = out, epsilon, delta, steps
        self.tell, self.quiet = tell, quiet
        self.answer = DemoAnswer(out)

    @property
    def codec(self) -> TableCodec:
        """How patients become rows of numbers, by their public schema."""
        from privot.tables import Schema, TableCodec

        return TableCodec(Schema.from_dict(clinics.SCHEMA))

    def run(self) -> DemoAnswer:
        """All steps in order."""
        from privot.cli.running.demo_runs.demo_page import write_demo_page
        from privot.ledger import Ledger

        self.tell(
            "Two clinics, North and South, may not share their patients. (All are invented; the digits are public.)"
        )
        self.out.mkdir(parents=True)
        self._write_data()
        with (
            Ledger.create(self.out / "north.csv.ledger") as north,
            Ledger.create(self.out / "south.csv.ledger") as south,
            Ledger.create(self.out / "digits.npz.ledger") as lab,
        ):
            mine = self._clinic("north", north, (SKETCH + TABLE) * self.epsilon)
            theirs = self._clinic("south", south, SKETCH * self.epsilon)
            digits = self._digits(lab)
            self._compare(mine, theirs)
            self._release_table(mine, north)
            self._release_digits(digits, lab)
            self._score()
            self._attack()
            self._refuse(mine)
            self._total({"north.csv": north, "south.csv": south, "digits.npz": lab})
        self.answer.report = write_demo_page(self.answer, self.epsilon, self.delta)
        return self.answer

    def _write_data(self) -> None:
        import numpy as np

        from privot.data.loading import load
        from privot.tables import Schema, write_table

        schema = Schema.from_dict(clinics.SCHEMA)
        schema.save(self.out / "schema.json")
        for seed, (name, clinic, count) in enumerate(
            (
                ("north", "north", clinics.PATIENTS),
                ("south", "south", clinics.PATIENTS),
                ("registry", "north", clinics.REGISTRY),
            )
        ):
            write_table(clinics.invent(clinic, count, seed), self.out / f"{name}.csv", schema)
        digits = load("digits")
        assert digits.y is not None
        # the split is by number, so it is public
        apart = np.arange(len(digits.x)) % 5 == 0
        parts = {"x_train": digits.x[~apart], "y_train": digits.y[~apart]}
        np.savez_compressed(self.out / "digits.npz", **parts, x_test=digits.x[apart], y_test=digits.y[apart])

    def _clinic(self, name: str, ledger: Ledger, epsilon: float) -> Vault:
        from privot.vault import Vault

        terms: dict[str, Any] = {"adjacency": ADJACENCY, "ledger": ledger, "budget": (epsilon, self.delta)}
        return Vault.open(self.out / f"{name}.csv", self.out / "schema.json", **terms)

    def _digits(self, ledger: Ledger) -> Vault:
        from privot.kinds import Images
        from privot.vault import Vault

        terms: dict[str, Any] = {"ledger": ledger, "budget": (DIGITS * self.epsilon, self.delta)}
        return Vault.open(self.out / "digits.npz", Images((8, 8), classes=10, clip=1.0), adjacency=ADJACENCY, **terms)

    def _compare(self, mine: Vault, theirs: Vault) -> None:
        import numpy as np

        from privot.federation import Sketch, compare_sketches, sketch
        from privot.mechanisms import SketchDesign

        self.tell("1. Two clinics compare their patients, and show each other none.")
        # all that can occur lies within this radius of the middle, by the public schema; around public records a sketch
        # would tell more, but comparing those needs a further package
        middle = np.array([1.0 if c.is_number else len(c.words) - 1.0 for c in self.codec.features]) / 2.0
        design = SketchDesign.plain(len(middle), float(np.linalg.norm(middle)), centre=middle)
        made = []
        for name, vault in (("north", mine), ("south", theirs)):
            terms: dict[str, Any] = {"epsilon": SKETCH * self.epsilon, "delta": self.delta}
            file = self.out / f"{name}.sketch"
            sketch(vault, **terms, design=design, purpose="sketch to compare").save(file)
            made.append(Sketch.load(file))
        found = self.answer.comparison = compare_sketches(*made)
        size = (self.out / "south.sketch").stat().st_size / 1000.0
        far = found.sliced
        assert far.interval is not None
        assert far.null_level is not None
        self.tell(
            f"   Each sends one sketch, {size:.0f} kB of noisy sums: {made[0].guarantee.stated()}.",
            f"   Sliced Wasserstein distance {far.value:.3f} ({far.interval[0]:.3f} to {far.interval[1]:.3f}); one "
            f"clinic split in two would show at most {far.null_level:.3f}.",
            "   They could pool their data."
            if found.indistinguishable
            else "   Their patients differ: do not just pool them.",
        )

    def _release_table(self, vault: Vault, ledger: Ledger) -> None:
        from privot.synthesis import Synthesizer

        self.tell("2. North releases synthetic patients.")
        made = Synthesizer(TABLE * self.epsilon, self.delta, seed=0, kind=self.codec)
        self._fit(made, vault, ledger, self.out / "table")
        self.answer.table["guarantee"] = made.guarantee_
        self.tell(
            f"   {SAMPLES} rows in {self.out / 'table' / 'synthetic.csv'}: {made.guarantee_.stated()}.",
        )

    def _release_digits(self, vault: Vault, ledger: Ledger) -> None:
        from privot.kinds import Images
        from privot.synthesis import Embedding, Synthesizer

        self.tell("3. Its laboratory releases synthetic handwriting.")
        made = Synthesizer(DIGITS * self.epsilon, self.delta, seed=0, kind=Images((8, 8)))
        if self.steps is not None:
            made.set_params(method=Embedding(replace(made.design(vault.facts, vault.kind).rules, steps=self.steps)))
        self._fit(made, vault, ledger, self.out / "digits")
        self.answer.digits["guarantee"] = made.guarantee_
        self.tell(f"   {SAMPLES} images in {self.out / 'digits' / 'synthetic.npz'}: {made.guarantee_.stated()}.")

    def _fit(self, made: Any, vault: Vault, ledger: Ledger, folder: Path) -> None:
        from privot.cli.printing.progress import training_bar
        from privot.jobs.charges import spent_in_ledger
        from privot.jobs.job import Job
        from privot.synthesis.output.output_folder import write_folder

        with training_bar(made.epsilon, quiet=self.quiet) as bar:
            made.fit(vault, folder=folder, progress=bar)
        write_folder(made, folder, SAMPLES, 0, spent=spent_in_ledger(ledger, Job.open(folder)))

    def _score(self) -> None:
        from privot.cli.running.evaluations import evaluate_arrays, evaluate_table_data, keep_evaluation

        self.tell("4. Models learn from synthetic records only, and are tested on real ones that anybody may see.")
        codec, out = self.codec, self.out
        folder, test, private = out / "table", str(out / "registry.csv"), str(out / "north.csv")
        found = evaluate_table_data(str(folder), folder, test, codec=codec, private=private, public_test=True, seed=0)
        keep_evaluation(folder, found)
        self.answer.table |= {"scores": found["auc"], "real": found["real_auc"]}
        folder, test = out / "digits", str(out / "digits.npz")
        common: dict[str, Any] = {"classes": "10", "shape": "8,8", "inception": None, "takes": (0.0, 1.0)}
        seen = evaluate_arrays(
            str(folder), folder, test, **common, private=test, public_test=True, device="cpu", seed=0
        )
        keep_evaluation(folder, seen)
        self.answer.digits |= {"scores": seen["scores"], "real": seen["real"]}
        best = max(seen["scores"], key=lambda name: seen["scores"][name])
        auc = found["auc"]["logistic"], found["real_auc"]["logistic"]
        self.tell(
            f"   Who comes back to hospital? Area under the ROC curve {auc[0]:.3f}; trained on the real patients "
            f"{auc[1]:.3f} (logistic regression).",
            f"   Which digit is it? {100 * seen['scores'][best]:.1f} % right; trained on the real images "
            f"{100 * seen['real'][best]:.1f} % ({best}, the best of {len(seen['scores'])}).",
        )

    def _attack(self) -> None:
        from privot.audit.findings import Finding, broken
        from privot.audit.targets.synth_folder import audit_folder

        self.tell("5. An attacker tries to find out who was in the data.")
        effort: dict[str, Any] = {"candidates": CANDIDATES, "steps": ATTACK_STEPS, "runs": RUNS, "trials": TRIALS}
        found = audit_folder(self.out / "digits", **effort)
        findings, tests = found.findings, found.tests
        self.answer.findings, self.answer.membership = findings, tests
        attack = next(f for f in findings if isinstance(f, Finding))
        ours, copier = tests[0], tests[len(tests) // 2]
        verdict = "REFUTED" if attack.refuted else "not refuted"
        self.tell(
            f"   Measured: ε ≥ {attack.epsilon():.2f} where ε ≤ {attack.claim.epsilon():.2f} is claimed, at "
            f"δ = {attack.claim.delta:g}, {attack.claim.adjacency}, {attack.claim.standing}: {verdict}.",
            f"   Of a record that was in and one that was not, it picks the right one {100 * ours.auc:.0f} % of the "
            f"time (a coin: 50 %); against a generator that copies its records, {100 * copier.auc:.0f} %.",
            *[f"   Failed: {name}." for name in broken(findings)],
        )

    def _refuse(self, mine: Vault) -> None:
        from privot.errors import BudgetError
        from privot.synthesis import Synthesizer

        self.tell("6. North asks for one release too many.")
        again = Synthesizer(TABLE * self.epsilon, self.delta, seed=1, kind=self.codec)
        try:
            again.fit(mine)
        except BudgetError as refusal:
            self.answer.refused = str(refusal)
        self.tell(f"   The ledger: {self.answer.refused or 'The budget still covered it.'}")

    def _total(self, ledgers: dict[str, Ledger]) -> None:
        for name, ledger in ledgers.items():
            (budget,) = ledger.datasets()
            spent = ledger.spent(budget.fingerprint)
            assert spent is not None
            self.answer.spent[name] = spent
            self.answer.rows += ledger.verify()
