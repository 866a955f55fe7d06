"""`privot ledger …`: its answers; a refusal changes nothing."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from privot.accounting import Gaussian, Laplace
from privot.accounting.laws import gaussian
from privot.cli import run
from privot.errors import BudgetError
from privot.guarantee import Adjacency
from privot.ledger import Ledger

BUDGET = "--epsilon 3 --delta 1e-5 --adjacency replace-one".split()


def test_a_ledger_is_created_shown_and_verified(capsys, tmp_path):
    file = str(tmp_path / "digits.ledger")
    assert run(["ledger", "init", file, "--data", "digits", *BUDGET, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["budget"]["epsilon"] == 3
    assert made["budget"]["adjacency"] == "replace-one"
    assert run(["ledger", "show", file, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["datasets"]
    assert shown[0]["spent_epsilon"] == 0
    assert run(["ledger", "verify", file]) == 0
    assert "intact" in capsys.readouterr().out
    # the same terms again change nothing, others are refused
    assert run(["ledger", "init", file, "--data", "digits", *BUDGET]) == 0
    assert run(["ledger", "init", file, "--data", "digits", "--epsilon", "9", *BUDGET[2:]]) == 2
    capsys.readouterr()
    assert run(["ledger", "verify", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"ledger": file, "rows": 2, "intact": True}


def test_a_second_data_set_in_a_ledger_needs_new_records(capsys, tmp_path):
    file = str(tmp_path / "two.ledger")
    np.save(tmp_path / "a.npy", np.eye(4))
    assert run(["ledger", "init", file]) == 0
    for data, stated in (("digits", []), (str(tmp_path / "a.npy"), ["--new-records"])):
        assert run(["ledger", "init", file, "--data", data, *BUDGET, *stated]) == 0
        assert data.split("/")[-1] in capsys.readouterr().out
    assert run(["ledger", "show", file]) == 0
    assert capsys.readouterr().out.count("budget") == 2
    # setting the first one's again answers with its budget, not with the last one's
    assert run(["ledger", "init", file, "--data", "digits", *BUDGET]) == 0
    assert "digits may spend" in capsys.readouterr().out


def test_a_budget_is_raised_by_the_steward_and_shown_for_ever(capsys, tmp_path):
    file = str(tmp_path / "digits.ledger")
    assert run(["ledger", "init", file, "--data", "digits", *BUDGET]) == 0
    asked = ["ledger", "raise", file, "--epsilon", "5", "--reason", "ethics board, 12 May"]
    capsys.readouterr()
    assert run(asked) == 2
    assert "--i-am-the-steward" in capsys.readouterr().err
    assert run([*asked[:-2], "--i-am-the-steward"]) == 2
    assert "--reason" in capsys.readouterr().err
    assert run([*asked, "--i-am-the-steward"]) == 0
    assert "may now spend ε = 5" in capsys.readouterr().out
    assert run([*asked, "--i-am-the-steward"]) == 2  # not more than it has
    capsys.readouterr()
    assert run(["ledger", "show", file]) == 0
    shown = capsys.readouterr().out
    assert "from ε = 3 to ε = 5" in shown
    assert "ethics board, 12 May" in shown
    assert "░" * 40 in shown
    assert run(["ledger", "show", file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["datasets"][0]
    assert found["epsilon"] == 5
    assert [r["before"] for r in found["raises"]] == [3]


def test_spending_is_shown_as_a_bar(capsys, tmp_path):
    file = tmp_path / "half.ledger"
    with Ledger.create(file) as ledger:
        ledger.set_budget("a" * 64, 2.0, 1e-5, "add-remove", "half")
        shift = gaussian.largest_shift(1.0, 1e-5)
        ledger.charge("a" * 64, Gaussian(1.0, shift, Adjacency.ADD_REMOVE), "half of it")
    assert run(["ledger", "show", str(file)]) == 0
    assert "█" * 20 + "░" * 20 + " 50 %" in capsys.readouterr().out


def test_the_page_of_a_ledger_says_what_the_ledger_says(capsys, tmp_path):
    file, page = tmp_path / "half.ledger", tmp_path / "half.html"
    with Ledger.create(file) as ledger:
        ledger.set_budget("a" * 64, 2.0, 1e-5, "add-remove", "half")
        ledger.charge("a" * 64, Gaussian(5.0, 1.0, Adjacency.ADD_REMOVE), "a first look")
        ledger.raise_budget("a" * 64, 3.0, "ethics board", i_am_the_steward=True)
    assert run(["ledger", "show", str(file), "--out", str(page), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["page"] == str(page)
    (held,) = said["datasets"]
    shown = page.read_text()
    for words in (
        f"Spent: ε = {held['spent_epsilon']:.6g} of 3 at δ = 1e-05, add-remove, proven.",
        f"<td>{held['entries'][0]['epsilon']:.6g}</td>", "a first look", "ethics board", "1 charge;", "half.ledger",
    ):  # fmt: skip
        assert words in shown, words
    assert str(tmp_path) not in shown
    assert "<script" not in shown
    # a page is not written over, and is a page
    assert run(["ledger", "show", str(file), "--out", str(page)]) == 2
    assert run(["ledger", "show", str(file), "--out", str(tmp_path / "half.png")]) == 2
    assert not (tmp_path / "half.png").exists()


def test_a_copy_with_a_budget_of_its_own_is_warned_of(capsys, tmp_path):
    rows = np.random.default_rng(0).normal(size=(30, 3))
    np.save(tmp_path / "export.npy", rows)
    (tmp_path / "work").mkdir()
    np.save(tmp_path / "work" / "copy.npy", rows[::-1])
    np.save(tmp_path / "work" / "other.npy", rows + 1.0)
    first = ["ledger", "init", str(tmp_path / "export.npy.ledger"), "--data", str(tmp_path / "export.npy"), *BUDGET]
    assert run(first) == 0
    assert "Warning" not in capsys.readouterr().err
    assert run(first) == 0  # the same budget again is no second one
    assert "Warning" not in capsys.readouterr().err
    (tmp_path / "work" / "broken.ledger").write_text("not a ledger")
    for name, warned in (("copy", True), ("other", False)):
        data = str(tmp_path / "work" / f"{name}.npy")
        assert run(["ledger", "init", f"{data}.ledger", "--data", data, *BUDGET]) == 0
        said = capsys.readouterr().err
        assert ("guards these very records (export.npy)" in said) is warned
        assert ("--ledger" in said) is warned
        # what cannot be read as a ledger is not passed over in silence
        assert "broken.ledger guards these very records is not known" in said
    # and by a command that pays at once
    np.save(tmp_path / "work" / "again.npy", rows)
    release = ["release", "mean", str(tmp_path / "work" / "again.npy"), "--column", "0", "--range", "-3,3"]
    assert run([*release, *BUDGET, "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("guards these very records (") == 2
    answer = json.loads(printed.out)
    assert answer["ledger"].endswith("again.npy.ledger")
    # the same sentences are in the answer
    assert [f"Warning: {sentence}" for sentence in answer["warnings"]] == printed.err.splitlines()
    assert run([*release, "--epsilon", "0.1", *BUDGET[2:], "--json"]) in (0, 4)
    assert "Warning" not in capsys.readouterr().err  # the budget is set: nothing new is promised


def test_a_failure_of_a_neighbouring_ledger_that_guards_the_records_is_not_hidden(capsys, tmp_path, monkeypatch):
    rows = np.random.default_rng(0).normal(size=(30, 3))
    for name in ("export", "copy"):
        np.save(tmp_path / f"{name}.npy", rows)
    words = ["ledger", "init", str(tmp_path / "export.npy.ledger"), "--data", str(tmp_path / "export.npy"), *BUDGET]
    assert run(words) == 0
    capsys.readouterr()

    def fail(self, fingerprint, mark=""):
        raise BudgetError("What was spent cannot be counted.")

    monkeypatch.setattr(Ledger, "spent", fail)
    words = ["ledger", "init", str(tmp_path / "copy.npy.ledger"), "--data", str(tmp_path / "copy.npy"), *BUDGET]
    assert run(words) == 4
    assert "cannot be counted" in capsys.readouterr().err


def test_an_existing_ledger_is_not_created_again(capsys, tmp_path):
    file = str(tmp_path / "a.ledger")
    assert run(["ledger", "init", file]) == 0
    capsys.readouterr()
    assert run(["ledger", "init", file]) == 2
    assert "a.ledger exists already" in capsys.readouterr().err


def test_a_data_set_of_one_record_leaves_no_ledger_behind(tmp_path):
    np.save(tmp_path / "one.npy", np.eye(1, 4))
    assert run(["ledger", "init", str(tmp_path / "new.ledger"), "--data", str(tmp_path / "one.npy"), *BUDGET]) == 3
    assert [p.name for p in tmp_path.iterdir()] == ["one.npy"]


def test_an_edited_row_is_detected(capsys, tmp_path):
    file = str(tmp_path / "digits.ledger")
    assert run(["ledger", "init", file, "--data", "digits", *BUDGET]) == 0
    with sqlite3.connect(file) as raw:
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {name}")
        raw.execute("UPDATE ledger SET body = replace(body, '3.0', '9.0')")
    capsys.readouterr()
    for command in ("verify", "show"):
        assert run(["ledger", command, file]) == 3
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["show", "missing.ledger"], 3),
        (["verify", "missing.ledger"], 3),
        (["init", "new.ledger", "--data", "digits"], 2),
        (["init", "new.ledger", "--data", "missing.npz", *BUDGET], 3),
        (["init", "new.ledger", "--data", "digits", "--epsilon", "-1", *BUDGET[2:]], 2),
        (["init", "new.ledger", "--data", "digits", "--epsilon", "1", "--delta", "2", *BUDGET[4:]], 2),
        (["init", "new.ledger", "--data", "digits", *BUDGET[:4], "--adjacency", "both"], 2),
        (["init", "no/such/folder/new.ledger"], 3),
        (["show", "."], 3),
        (["frobnicate"], 2),
    ],
)
def test_refused_commands_create_no_file(capsys, tmp_path, monkeypatch, arguments, code):
    monkeypatch.chdir(tmp_path)
    assert run(["ledger", *arguments]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_help_loads_no_numeric_library(tmp_path):
    """`privot --help` must answer at once, so it may load neither NumPy nor anything heavier."""
    script = (
        "import sys; from privot.cli import run; assert run(['--help']) == 0; "
        "print([m for m in ('numpy', 'scipy', 'torch', 'sklearn', 'matplotlib', 'sqlite3') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[-1] == "[]"


def test_accounting_loads_no_tensor_library():
    script = (
        "import sys, privot.accounting; "
        "print([m for m in ('torch', 'sklearn', 'matplotlib', 'scipy.stats') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_show_lists_the_epsilon_of_each_entry_at_the_delta_of_the_budget(capsys, tmp_path):
    file = tmp_path / "a.ledger"
    add, delta = Adjacency.ADD_REMOVE, 1e-6
    events = [Gaussian(30.0, 1.0, add), Laplace(20.0, 1.0, add), Gaussian(30.0, 1.0, add)]
    with Ledger.create(file) as ledger:
        name = ledger.fingerprint({"x": np.eye(3)})
        ledger.set_budget(name, 2.0, delta, add, "clinic")
        for event in events:
            ledger.charge(name, event, "a count")
        together = ledger.spent(name).epsilon()
    assert run(["ledger", "show", str(file), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["datasets"]
    # closed forms: of a Gaussian with shift 1/30; Laplace at δ: e^ε ≥ (1 − δ)²·e^{1/20}, from δ = 1 − e^{(ε − 1/20)/2}
    exact = [gaussian.epsilon(1 / 30, delta), 1 / 20 + 2 * np.log1p(-delta), gaussian.epsilon(1 / 30, delta)]
    assert [e["epsilon"] for e in shown["entries"]] == pytest.approx(exact, rel=1e-3)
    assert {e["standing"] for e in shown["entries"]} == {"proven"}
    assert shown["spent_epsilon"] == together
    assert run(["ledger", "show", str(file)]) == 0
    told = capsys.readouterr().out
    assert "ε at δ = 1e-06, add-remove" in told
    assert f"{exact[0]:.4g}"[:5] in told
    assert f"ε = {together:.6g} at δ = 1e-06, add-remove, proven" in told
