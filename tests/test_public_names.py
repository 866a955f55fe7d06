"""What `from privot import …` gives, and that importing privot costs next to nothing."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import privot
from privot.audit.attacks.embedding_attack import EmbeddingAttack

HOMES = {
    "Adjacency": "privot.guarantee",
    "Count": "privot.mechanisms",
    "DomainAdapter": "privot.adaptation",
    "Guarantee": "privot.guarantee",
    "Histogram": "privot.mechanisms",
    "Ledger": "privot.ledger",
    "Mean": "privot.mechanisms",
    "Quantiles": "privot.mechanisms",
    "Release": "privot.release",
    "Schema": "privot.tables",
    "Standing": "privot.guarantee",
    "Synthesizer": "privot.synthesis",
    "Vault": "privot.vault",
    "compare_sketches": "privot.federation",
    "load": "privot.data.loading",
    "sketch": "privot.federation",
}


def run(code: str) -> str:
    """What a fresh interpreter prints, warnings being errors."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize(("name", "home"), HOMES.items())
def test_a_public_name_is_the_one_of_its_package(name: str, home: str) -> None:
    assert getattr(privot, name) is getattr(import_module(home), name)


def test_all_public_names_are_listed() -> None:
    assert set(privot.__all__) == {*HOMES, "audit"}
    assert set(privot.__all__) <= set(dir(privot))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'privot' has no attribute 'nonsense'$"):
        _ = privot.nonsense
    with pytest.raises(ImportError, match="cannot import name 'nonsense' from 'privot'"):
        exec("from privot import nonsense")  # the statement itself is what is tested


def test_importing_privot_imports_no_heavy_package() -> None:
    code = "import sys, privot; print([m for m in ('numpy', 'torch', 'scipy', 'sklearn') if m in sys.modules])"
    assert run(code).strip() == "[]"


def test_listing_the_names_imports_no_heavy_package() -> None:
    assert run("import sys, privot; dir(privot); print('numpy' in sys.modules)").strip() == "False"


def test_importing_privot_takes_under_a_tenth_of_a_second() -> None:
    code = "import time; t = time.perf_counter(); import privot; print(time.perf_counter() - t)"
    # the fastest of five: the machine may be busy with something else
    assert min(float(run(code)) for _ in range(5)) < 0.1


@pytest.mark.parametrize(
    "first",
    ["from privot import audit", "import privot.audit; audit = privot.audit", "import privot; audit = privot.audit"],
)
def test_audit_is_the_package_and_can_be_called_however_it_was_imported(first: str) -> None:
    code = f"{first}; import types; print(isinstance(audit, types.ModuleType), callable(audit), audit.Finding.__name__)"
    assert run(code).split() == ["True", "True", "Finding"]


def test_calling_the_audit_package_audits() -> None:
    from privot import audit

    attack = EmbeddingAttack(2.0, 1e-5, privot.Adjacency.ADD_REMOVE)
    found = audit(attack, runs=0, trials=2000)  # type: ignore[operator]
    assert isinstance(found, audit.Finding)
    assert not found.refuted
    assert audit.__doc__ == import_module("privot.audit").__doc__
