"""`privot sketch`, and `privot compare` on sketches: signed, verified and paid for, with documented exit codes."""

from __future__ import annotations

import errno
import json

import numpy as np
import pytest

from privot.cli import run
from privot.federation import Sketch
from privot.federation.sketches import delivering, signed_sketch
from privot.ledger import Ledger

pytestmark = pytest.mark.slow

TERMS = ["--epsilon", "5", "--delta", "1e-5", "--adjacency", "replace-one"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    g = np.random.default_rng(0)
    np.save("a.npy", g.normal(size=(300, 5)))
    np.save("b.npy", g.normal(size=(300, 5)) + 2.0)
    np.save("public.npy", g.normal(size=(200, 5)) + 1.0)
    return tmp_path


def test_two_sketches_are_compared_with_both_guarantees(capsys, folder) -> None:
    for name in "ab":
        order = ["sketch", f"{name}.npy", *TERMS, "--prototypes", "public.npy", "--out", f"{name}.sketch"]
        assert run([*order, "--key", f"{name}.key", "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["guarantee"]["epsilon"] <= 5.0
        assert said["guarantee"]["standing"] == "proven"
        assert {"delta", "adjacency", "sampling", "assumptions", "events"} <= set(said["guarantee"])
    trust = ["--trust", "a.key.pub", "--trust", "b.key.pub"]
    assert run(["compare", "a.sketch", "b.sketch", *trust, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == "sketch"
    assert found["indistinguishable"] is False
    assert found["sliced"]["value"] == pytest.approx(2.0, rel=0.2)
    assert found["guarantees"]["a"]["epsilon"] == found["guarantees"]["b"]["epsilon"] <= 5.0
    assert run(["compare", "a.sketch", "b.sketch", "--method", "sketch"]) == 0
    told = capsys.readouterr().out
    assert "privacy of A" in told
    assert "privacy of B" in told
    assert "distinguishable" in told


def test_wrong_options_and_damaged_or_untrusted_sketches_are_refused(capsys, folder) -> None:
    # three sketches of one file are paid for here
    assert run(["ledger", "init", "a.npy.ledger", "--data", "a.npy", "--epsilon", "40", *TERMS[2:]]) == 0
    sketch = ["sketch", "a.npy", *TERMS, "--radius", "3"]
    assert run([*sketch, "--out", "a.sketch"]) == 0
    assert run([*sketch, "--out", "a.sketch"]) == 2
    assert run([*sketch, "--out", "nowhere/a.sketch"]) == 2
    assert run(["sketch", "a.npy", *TERMS, "--out", "c.sketch"]) == 2
    assert run([*sketch, "--range", "0,1", "--out", "c.sketch"]) == 2
    assert run(["sketch", "a.npy", *TERMS, "--range", "-4,4", "--out", "c.sketch"]) == 0
    data = bytearray((folder / "a.sketch").read_bytes())
    data[-400] ^= 1
    (folder / "changed.sketch").write_bytes(data)
    capsys.readouterr()
    assert run(["compare", "a.sketch", "changed.sketch", "--method", "sketch"]) == 3
    assert capsys.readouterr().err.count("\n") == 1
    assert run(["compare", "a.sketch", "a.npy", "--method", "sketch"]) == 3
    assert run(["compare", "a.sketch", "missing.sketch", "--method", "sketch"]) == 3
    (folder / "other.pub").write_text("11" * 32)
    assert run(["compare", "a.sketch", "a.sketch", "--trust", "other.pub"]) == 3
    assert run([*sketch[:-1], "4", "--out", "d.sketch"]) == 0
    assert run(["compare", "a.sketch", "d.sketch"]) == 3


def test_a_named_ledger_pays_once_and_then_refuses(capsys, folder) -> None:
    assert run(["ledger", "init", "a.ledger", "--data", "a.npy", *TERMS]) == 0
    order = ["sketch", "a.npy", *TERMS, "--radius", "3", "--ledger", "a.ledger"]
    assert run([*order, "--out", "a.sketch"]) == 0
    assert run([*order, "--out", "again.sketch"]) == 4
    assert not (folder / "again.sketch").exists()
    with Ledger.open("a.ledger") as ledger:
        assert [e.purpose.partition(" (release ")[0] for e in ledger.entries()] == ["sketch a.sketch"]


def test_the_ledger_beside_the_data_pays_by_default(capsys, folder) -> None:
    order = ["sketch", "a.npy", *TERMS, "--radius", "3"]
    # what cannot be released leaves no ledger behind
    np.save("narrow.npy", np.arange(36.0).reshape(9, 4))
    assert run(["sketch", "a.npy", *TERMS, "--prototypes", "narrow.npy", "--out", "a.sketch"]) == 2
    assert not (folder / "a.npy.ledger").exists()
    capsys.readouterr()
    assert run([*order, "--out", "a.sketch", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ledger"] == str(folder / "a.npy.ledger")
    assert run([*order, "--out", "again.sketch"]) == 4
    assert not (folder / "again.sketch").exists()
    # what privot synth spent is spent here too
    synth = ["synth", "b.npy", *TERMS, "--range=-4,6", "--out", "b", "--set", "steps=2", "--samples", "4"]
    assert run(synth) == 0
    assert run(["sketch", "b.npy", *TERMS, "--radius", "3", "--out", "b.sketch"]) == 4
    # nobody's records
    for name in ("x", "y"):
        assert run(["sketch", "digits", *TERMS, "--range", "0,1", "--out", f"{name}.sketch"]) == 0
    assert not (folder / "digits.ledger").exists()


def test_changed_records_under_the_same_name_need_new_records(capsys, folder) -> None:
    order = ["sketch", "a.npy", *TERMS, "--radius", "3"]
    assert run([*order, "--out", "a.sketch"]) == 0
    np.save("a.npy", np.load("b.npy"))
    capsys.readouterr()
    assert run([*order, "--out", "b.sketch"]) == 4
    assert "--new-records" in capsys.readouterr().err
    assert run([*order, "--new-records", "--out", "b.sketch"]) == 0


def test_a_sketch_that_cannot_be_written_is_not_paid_for(capsys, folder) -> None:
    order = ["sketch", "a.npy", *TERMS, "--radius", "3"]
    # nobody, not even root, can make a file there
    assert run([*order, "--out", "/proc/a.sketch"]) == 3
    assert "nothing was paid" in capsys.readouterr().err
    assert not (folder / "a.npy.ledger").exists()


def test_constant_public_data_is_refused_before_the_charge(capsys, folder) -> None:
    np.save("same.npy", np.repeat(np.load("public.npy")[:1], 50, 0))
    assert run(["sketch", "a.npy", *TERMS, "--prototypes", "same.npy", "--out", "a.sketch"]) == 3
    assert capsys.readouterr().err.count("\n") == 1
    assert not (folder / "a.npy.ledger").exists()


@pytest.mark.parametrize("public", [["--range", "0,1e308"], ["--radius", "1e200"], ["--radius", "1e-300"]])
def test_ranges_and_radii_that_overflow_are_refused_before_the_charge(capsys, folder, public) -> None:
    assert run(["sketch", "a.npy", *TERMS, *public, "--out", "a.sketch"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (folder / "a.npy.ledger").exists()


@pytest.mark.parametrize("broken", ["save", "keep"])
def test_a_paid_sketch_that_could_not_be_written_is_delivered_later(capsys, folder, monkeypatch, broken) -> None:
    order = ["sketch", "a.npy", *TERMS, "--radius", "3"]
    kept = folder / "a.npy.ledger.sketches"
    whole = delivering.write_whole

    def full(path, content, **more) -> None:
        if path.suffix != ".secret":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        whole(path, content, **more)

    with monkeypatch.context() as patch:
        patch.setattr(signed_sketch if broken == "save" else delivering, "write_whole", full)
        for name in ("x", "y"):
            assert run([*order, "--out", f"{name}.sketch"]) == 3
            assert "costs nothing more" in capsys.readouterr().err
            assert not (folder / f"{name}.sketch").exists()
    paid = [path.read_bytes() for path in kept.glob("*.paid")]
    assert len(paid) == (broken == "save")
    # another name and another key: the same release, signed again
    assert run([*order, "--out", "z.sketch", "--key", "z.key"]) == 0
    made = Sketch.load("z.sketch")
    assert [made.to_bytes()] == paid or not paid
    assert [path.name for path in kept.iterdir()] == [".lock"]
    with Ledger.open("a.npy.ledger") as ledger:
        assert len(ledger.entries()) == 1
    # delivered: whoever asks again asks for another one
    assert run([*order, "--out", "again.sketch"]) == 4


def test_a_sketch_is_compared_with_sketches_only(capsys, folder) -> None:
    for name in "ab":
        assert run(["sketch", f"{name}.npy", *TERMS, "--radius", "3", "--out", f"{name}.sketch"]) == 0
    capsys.readouterr()
    assert run(["compare", "a.sketch", "a.npy"]) == 3
    assert "'a.npy' is no sketch" in capsys.readouterr().err
    assert run(["compare", "gone.sketch", "b.sketch"]) == 3
    assert "'gone.sketch' is no sketch" in capsys.readouterr().err
    # a picture that is not drawn is not passed over in silence
    assert run(["compare", "a.sketch", "b.sketch", "--out", "map.png"]) == 2


def test_published_protocols_need_allow_unproven(capsys, folder) -> None:
    for method in ("triangle", "fedwad"):
        order = ["compare", "a.npy", "b.npy", "--method", method, "--most", "60", "--set", "rounds=5"]
        assert run(order) == 5
        capsys.readouterr()
        assert run([*order, "--allow-unproven", "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["standing"] == "unproven"
        assert said["value"] == pytest.approx(4.9, rel=0.3)
    assert run(["compare", "a.npy", "b.npy", "--method", "triangle", "--set", "t=x", "--allow-unproven"]) == 2
    assert run(["compare", "a.npy", "b.npy", "--method", "triangle", "--set", "t=random", "--allow-unproven"]) == 2
