"""Numbers and events that a stranger states: what would overflow, crash or take minutes is refused when it is read."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privot import Vault
from privot.accounting import Composed, Gaussian, Laplace, Repeated, account, read_guarantee
from privot.accounting.events import Projection, Sampled
from privot.accounting.sampling import FixedSize
from privot.cli import run
from privot.errors import DataError
from privot.federation import Sketch, compare_sketches, sketch
from privot.federation.wire.messages import decode, encode
from privot.federation.wire.signing import seal
from privot.guarantee import Adjacency
from privot.mechanisms import SketchDesign
from privot.mechanisms.sketching.sketch_design import BLOCKS
from privot.opening.limits import EVENTS_VARIABLE

A, R = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
SCALED: tuple[dict[str, Any], ...] = ({"radius": 1e-12}, {"radius": 1e30})
ROWS = np.random.default_rng(0).normal(size=(60, 5))


def made(seed: int, classes: int = 0) -> Sketch:
    rows = np.random.default_rng(seed).normal(size=(100, 5))
    labels = np.arange(100) % classes if classes else None
    vault = Vault(rows, labels, clip=9.0, classes=classes or None, adjacency="replace-one", budget=(5.0, 1e-5))
    design = SketchDesign.around(ROWS, prototypes=4, directions=3, principal=2)
    return sketch(vault, epsilon=5.0, delta=1e-5, design=design.labelled(classes) if classes else design)


@pytest.fixture(scope="module")
def pair() -> tuple[Sketch, Sketch]:
    return made(1), made(2)


def stating(found: Sketch, **facts: Any) -> bytes:
    """The bytes of a sketch that says other things about itself; its guarantee says the same, where it must."""
    said, arrays = decode(found.to_bytes(), "sketch", dict.fromkeys(BLOCKS, 1))
    said["public"] = {**said["public"], **facts}
    if "sigma" in facts:
        event = Gaussian(float(facts["sigma"]), said["guarantee"]["events"][0]["sensitivity"], R)
        said["guarantee"] = account(event, 1e-5).to_dict()
    return encode("sketch", said, arrays)


@pytest.mark.parametrize("sigma", [1e30, 1e10, 1e-10, 1e-30])
def test_a_sketch_that_states_noise_nobody_adds_ends_compare_with_exit_code_3(
    sigma: float, pair: tuple[Sketch, Sketch], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, data in (("a", pair[0].to_bytes()), ("b", stating(pair[1], sigma=sigma))):
        (tmp_path / f"{name}.sketch").write_bytes(seal(data, Ed25519PrivateKey.generate()))
    assert run(["compare", str(tmp_path / "a.sketch"), str(tmp_path / "b.sketch")]) == 3
    said = capsys.readouterr().err
    assert "σ outside 1e-09 to 1e+09" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "facts",
    [
        {"dim": 0}, {"dim": 10**12}, {"rank": 1e90}, {"rank": 1e-90}, {"seed": -1}, {"seed": 10**30}, {"classes": -1},
        {"classes": 10**6}, {"records": 1}, {"records": 10**15}, {"radius": 1e-300}, {"radius": 1e99},
        {"unmatched": [[1.0, 1e90, 0.3]]}, {"unmatched": [[1e90, 0.3, 0.3]]}, {"unmatched": [[1.0, 1e-90, 0.3]]},
        {"weights": dict.fromkeys(BLOCKS, 1e-90)}, {"weights": dict.fromkeys(BLOCKS, 1e90)}, {"knots": [0.0, 1e-300]},
    ],
)  # fmt: skip
def test_every_number_of_a_sketch_has_a_range(facts: dict[str, Any], pair: tuple[Sketch, Sketch]) -> None:
    with pytest.raises(DataError):
        Sketch.from_bytes(stating(pair[0], **facts))


@pytest.mark.slow
@pytest.mark.parametrize("labelled", [False, True])
def test_sketches_whose_numbers_lie_at_the_ends_of_their_ranges_are_compared(labelled: bool) -> None:
    base, other = made(3, 2 if labelled else 0), made(4, 2 if labelled else 0)
    for facts in ({"sigma": 1e-9}, {"sigma": 1e9}, {"rank": 1e6}, {"records": 2}, {"records": 2**40 - 1}, *SCALED):
        if "radius" in facts:
            scale = (facts["radius"] / base.public["radius"]) ** 2
            facts = {**facts, "knots": [k * scale for k in base.public["knots"]]}
        a, b = (Sketch.from_bytes(stating(s, **facts)) for s in (base, other))
        with np.errstate(all="raise", under="ignore"):
            assert np.isfinite(compare_sketches(a, b, draws=100).value), facts


def stated(event: Any) -> str:
    """A guarantee's text as a stranger could write it: the events cost nothing to write."""
    fields = account(Gaussian(1.0, 1.0, event.adjacency if hasattr(event, "adjacency") else R), 1e-5).to_dict()
    fields["events"] = [event.to_dict()]
    fields["curve"] = [{"delta": 1e-5, "epsilon": None}]
    fields["epsilon"] = None
    return json.dumps(fields)


def test_a_guarantee_of_many_distinct_events_is_refused_at_once(tmp_path: Path) -> None:
    many = {
        "projections": Composed(tuple(Projection(784, 100, 50.0 + i, 1.0, R) for i in range(200))),
        "laplace": Composed(tuple(Laplace(100.0 + i, 1.0, R) for i in range(3000))),
        "sampled": Composed(
            tuple(Sampled(Gaussian(1.0 + i / 100, 1.0, R), FixedSize(100, 60_000)) for i in range(3000))
        ),
    }
    for event in many.values():
        start = time.process_time()
        with pytest.raises(DataError, match="distinct events where at most 16"):
            read_guarantee(stated(event))
        assert time.process_time() - start < 10.0
    (tmp_path / "guarantee.json").write_text(stated(many["projections"]))
    assert run(["audit", str(tmp_path / "guarantee.json")]) == 3


def test_equal_and_gaussian_events_are_counted_however_many_they_are() -> None:
    equal = Composed(tuple(Projection(50, 10, 9.0, 1.0, R) for _ in range(3000)))
    repeated = account(Repeated(Projection(50, 10, 9.0, 1.0, R), 3000), 1e-5)
    assert read_guarantee(stated(equal)).epsilon() == repeated.epsilon()
    several = Composed(tuple(Gaussian(50.0 + i, 1.0, R) for i in range(3000)))
    shift = np.sqrt(sum((50.0 + i) ** -2 for i in range(3000)))
    one = account(Gaussian(1.0 / float(shift), 1.0, R), 1e-5)
    assert read_guarantee(stated(several)).epsilon() == pytest.approx(one.epsilon(), rel=1e-9)


def test_the_number_of_events_is_raised_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    event = Composed(tuple(Projection(50, 10, 9.0 + i, 1.0, R) for i in range(17)))
    with pytest.raises(DataError, match=EVENTS_VARIABLE):
        read_guarantee(stated(event))
    monkeypatch.setenv(EVENTS_VARIABLE, "17")
    assert read_guarantee(stated(event)).epsilon() == account(event, 1e-5).epsilon()
