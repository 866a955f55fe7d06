"""What objects show in a notebook: adjacency, unit and standing with every ε; escaped, self-contained, no record."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from privot import (
    Adjacency,
    DomainAdapter,
    Guarantee,
    Ledger,
    Mean,
    Release,
    Standing,
    Synthesizer,
    Vault,
    audit,
    compare_sketches,
    sketch,
)
from privot.accounting import Gaussian, account, embedding, projection
from privot.accounting.events import Downgraded
from privot.common.html_facts import MAX_ROWS, MAX_WORDS, html_facts
from privot.errors import BudgetError
from privot.mechanisms import Facts, RandomProjection
from privot.synthesis import Rules
from privot.synthesis.method_configs import Embedding
from privot.transport import interpolate, sinkhorn, sliced

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u202e\x00"
ALLOWED = {"table", "caption", "tbody", "tr", "th", "td"}
SECRET = 0.7182818284


class _Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def seen(shown: str) -> str:
    """The words of a display, after checking that it is nothing but a table that loads and runs nothing."""
    found = _Seen()
    found.feed(shown)
    assert found.tags <= ALLOWED
    assert found.attributes <= {"style", "scope"}
    assert not re.search(r"url\(|https?:|javascript:|@import", shown)
    return " ".join(found.words)


def shown(thing: Any) -> str:
    return seen(thing._repr_html_())


@pytest.fixture
def guarantee() -> Guarantee:
    return account(Gaussian(4.0, 1.0, Adjacency.ADD_REMOVE), 1e-5)


@pytest.fixture
def vault() -> Vault:
    return Vault(np.full((50, 2), SECRET), clip=0.5, adjacency="replace-one", budget=(10.0, 1e-5))


def fitted(vault: Vault) -> Synthesizer:
    network = {"kind": "mlp", "dim": 2, "classes": 2, "segments": [[0, 2, "interval"]], "latent": 4, "hidden": [8]}
    rules = Rules(network, steps=2, batch=16, learning_rate=1e-3)
    return Synthesizer(1.0, 1e-5, device="cpu", seed=1, method=Embedding(rules=rules)).fit(vault)


def test_a_guarantee_states_everything_that_its_number_needs(guarantee: Guarantee) -> None:
    words = shown(guarantee)
    assert f"ε = {guarantee.epsilon():.6g} at δ = 1e-05" in words
    for needed in ("add-remove", "unit one record", "proven", guarantee.sampling, *guarantee.assumptions):
        assert needed in words


def test_what_no_theorem_covers_says_so() -> None:
    event = Downgraded(Gaussian(4.0, 1.0, Adjacency.REPLACE_ONE), Standing.UNPROVEN, HOSTILE)
    words = shown(account(event, 1e-5))
    assert "NO theorem" in words
    assert "replace-one" in words


def test_an_infinite_epsilon_promises_nothing(guarantee: Guarantee) -> None:
    assert "nothing is promised" in shown(guarantee.quoted_at(0.0))


def test_hostile_words_are_shown_as_text(guarantee: Guarantee) -> None:
    hostile = Guarantee(guarantee.curve, guarantee.adjacency, guarantee.standing, HOSTILE, (HOSTILE,), guarantee.events)
    made = hostile._repr_html_()
    assert "<script" not in made
    assert "<img" not in made
    assert "\u202e" not in made
    assert "\x00" not in made
    words = seen(made)
    assert words.count("<script>alert(1)</script>") == 2


def test_long_texts_and_long_tables_are_cut() -> None:
    made = html_facts("t", [("a", "x" * 10 * MAX_WORDS), *((str(k), k) for k in range(3 * MAX_ROWS))])
    assert len(re.findall("x+…", made)[0]) == MAX_WORDS
    assert made.count("<tr>") == MAX_ROWS + 1
    assert f"{2 * MAX_ROWS + 1} more" in made
    assert "<tr>" not in html_facts("t", [("left out", None)])


def test_a_release_shows_few_numbers_and_the_shape_of_many(vault: Vault) -> None:
    release = vault.release(RandomProjection(slices=16, sigma=3.0), purpose="look")
    words = shown(release)
    assert "16 numbers" in words
    assert release.guarantee.stated().split(",")[0] in words
    assert "replace-one" in words
    small = Release({"estimate": np.array(1.25), HOSTILE: np.arange(3)}, release.guarantee, {})
    words = shown(small)
    assert "1.25" in words
    assert "0, 1, 2" in words
    assert "<script>" in words


def test_a_release_on_a_device_is_shown_by_its_shape(guarantee: Guarantee) -> None:
    torch = pytest.importorskip("torch")
    assert "3 numbers" in shown(Release(torch.zeros(3), guarantee, {}))


def test_a_ledger_shows_budget_spending_and_charges_by_its_name_alone(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "clinic.ledger") as ledger:
        assert "none is set yet" in shown(ledger)
        stated: dict[str, Any] = {"clip": 0.5, "adjacency": "replace-one", "ledger": ledger}
        vault = Vault(np.full((50, 2), SECRET), budget=(3.0, 1e-5), label="<b>clinic</b>", **stated)
        assert "nothing" in shown(ledger)
        vault.release(RandomProjection(slices=4, sigma=2.0), purpose="<i>a first look</i>")
        fingerprint = ledger.datasets()[0].fingerprint
        ledger.raise_budget(fingerprint, 4.0, "ethics <u>board</u>", i_am_the_steward=True)
        words = shown(ledger)
        spent = ledger.spent(fingerprint)
        assert spent is not None
        for needed in ("<b>clinic</b>", "<i>a first look</i>", "ethics <u>board</u>", spent.stated(), "ε = 4 at"):
            assert needed in words
        assert "per record" in words
        assert str(tmp_path) not in words
        assert fingerprint not in words
        assert str(SECRET) not in words


def test_a_ledger_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "clinic.ledger")
    ledger.close()
    assert "not read" in shown(ledger)


def test_estimators_show_what_they_ask_and_then_what_they_cost() -> None:
    x, y = np.random.default_rng(0).uniform(size=(200, 2)), np.arange(200) % 2
    vault = Vault(x, y, classes=2, clip=2.0, adjacency="add-remove", budget=(1.0, 1e-5))
    assert "not fitted; asked for: ε = 1.0 at δ = 1e-05" in shown(Synthesizer(1.0, 1e-5))
    assert "not fitted" in shown(DomainAdapter(1.0, 1e-5))
    made = fitted(vault)
    words = shown(made)
    assert made.guarantee_.stated().split(",")[0] in words
    for needed in ("add-remove", "unit one record", "proven"):
        assert needed in words
    assert not any(f"{number:.6g}" in words for number in x.ravel())
    bundle = made._repr_mimebundle_(include=None, exclude=None)
    assert bundle == {"text/plain": repr(made), "text/html": made._repr_html_()}


def test_a_private_mean_shows_estimate_interval_and_guarantee() -> None:
    vault = Vault(np.full((50, 1), SECRET), clip=1.0, adjacency="add-remove", budget=(1.0, 1e-5))
    release = vault.release(Mean(0, range=(0, 1), epsilon=1.0, delta=1e-5), purpose="mean")
    words = shown(release)
    assert f"{float(release.value['estimate']):.6g}" in words
    assert "low" in words
    assert "high" in words
    with pytest.raises(BudgetError):
        vault.release(Mean(0, range=(0, 1), epsilon=1.0, delta=1e-5), purpose="again")


def test_sketches_and_their_comparison_show_both_guarantees() -> None:
    rows = np.random.default_rng(0).normal(size=(2, 100, 3))
    made = [
        sketch(Vault(x, clip=3.0, adjacency="replace-one", budget=(5.0, 1e-5)), epsilon=5.0, delta=1e-5) for x in rows
    ]
    assert "100 records (public) in 3 dimensions" in shown(made[0])
    assert "signed by nobody yet" in shown(made[0])
    found = compare_sketches(*made, draws=100)
    words = shown(found)
    assert f"{found.value:.4g}, 95 % over the noise" in words
    assert words.count("replace-one, proven") == 2
    assert "p-value" not in shown(compare_sketches(*made, draws=0))


@pytest.mark.parametrize("refuted", [False, True])
def test_findings_show_claim_measurement_and_verdict(refuted: bool) -> None:
    facts = Facts(dim=4, records=20, clip=0.5, adjacency=Adjacency.REPLACE_ONE)
    found = audit(RandomProjection(slices=4, sigma=3.0), facts, delta=1e-5, runs=40, trials=2000)  # type: ignore[operator]
    words = shown(type(found)(**{**vars(found), "refuted": refuted, "name": HOSTILE}))
    assert ("REFUTED" in words) is refuted
    assert ("proves nothing" in words) is not refuted
    for needed in ("replace-one", "unit one record", "proven", f"ε ≤ {found.claim.epsilon():.6g}", "<script>"):
        assert needed in words


def test_results_of_transport_show_value_solver_and_that_nothing_is_private() -> None:
    g = np.random.default_rng(0)
    x, y = g.normal(size=(20, 2)), g.normal(size=(20, 2))
    found = sinkhorn(x, y, reg=0.5)
    words = shown(found)
    assert f"{found.value:.6g}" in words
    assert f"converged after {found.iterations} iterations" in words
    assert "privacy none" in words
    plain = shown(sliced(x, y, slices=10, seed=1))
    assert "iterations" not in plain
    assert "privacy none" in plain
    # many numbers are shown by their shape, also as tensors that ask for gradients
    moved = interpolate(x, y, 0.5)
    assert f"array of shape {moved.value.shape}" in shown(moved)
    single = torch.tensor(x, requires_grad=True)
    assert f"{found.value:.6g}" in shown(sinkhorn(single, torch.tensor(y), reg=0.5))


def test_plans_show_noise_and_guarantee() -> None:
    planned = embedding(epsilon=1.0, delta=1e-5, adjacency="add-remove")
    words = shown(planned)
    assert f"σ = {planned.sigma:.6g}" in words
    assert "add-remove" in words
    assert "records per step" not in words
    sampled = projection(
        dim=16, slices=8, records=1000, batch=10, epochs=1, sigma=2.0, delta=1e-5, adjacency="replace-one"
    )
    assert "10 records per step" in shown(sampled)
