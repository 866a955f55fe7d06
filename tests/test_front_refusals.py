"""What the public names refuse: whatever is given in place of what they take, one sentence comes out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot import Adjacency, Ledger, Standing, Synthesizer, Vault, compare_sketches, sketch
from privot.accounting import Gaussian, Laplace, account
from privot.accounting.events import Renyi, Unbounded
from privot.audit import EmbeddingAttack, SketchAttack
from privot.audit.findings import Claim
from privot.common.declared import declared
from privot.errors import PrivotError, UsageError
from privot.evaluation.frechet import frechet_distance
from privot.mechanisms import Facts, MeanEmbedding, SketchDesign

pytest.importorskip("torch")
PACKAGES = (
    "accounting", "adaptation", "audit", "evaluation", "federation", "ledger", "mechanisms", "noise",
    "opening", "synthesis", "tables", "training", "transport", "valuation", "vault",
)  # fmt: skip
WRONG: dict[str, Any] = {
    "None": None, "text": "x", "number": 3, "list": [1, 2], "array": np.zeros((3, 2)), "object": object(),
}  # fmt: skip


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function and class, and the ways to make one from something else, but for those that read plain
    dictionaries, which only files of this package hold."""
    for package in ("privot", *(f"privot.{name}" for name in PACKAGES)):
        module = import_module(package)
        for name in module.__all__:
            found = getattr(module, name)
            if not callable(found) or inspect.ismodule(found) or getattr(found, "_is_protocol", False):
                continue
            if inspect.isclass(found) and issubclass(found, Enum):
                continue
            yield name, found
            made = vars(found) if inspect.isclass(found) else {}
            for other, value in made.items():
                if isinstance(value, classmethod | staticmethod) and not other.startswith(("_", "from_")):
                    yield f"{name}.{other}", getattr(found, other)


FOUND = dict(callables())


@pytest.mark.parametrize("name", sorted(FOUND))
def test_something_else_is_refused_in_one_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call = FOUND[name]
    takes = [p for p in inspect.signature(call).parameters.values() if p.kind is not p.VAR_KEYWORD]
    placed = [p for p in takes if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    must = [p for p in placed if p.default is p.empty] or placed[:1]
    named = [p.name for p in takes if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    for value in WRONG.values():
        try:
            call(*[value] * len(must), **dict.fromkeys(named, value))
        except PrivotError as error:
            sentence = str(error)
            assert "\n" not in sentence
            assert sentence.endswith((".", "…", ")"))
        except FileNotFoundError as error:
            # what opens a file may say that there is none as Python does
            assert (name.startswith("read_"), error.filename) == (True, "x")  # noqa: PT017


def vault() -> Vault:
    rows = np.random.default_rng(1).random((30, 2))
    return Vault(rows, np.arange(30) % 2, classes=2, clip=1.0, adjacency="add-remove", budget=(9.0, 1e-5))


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_methods_refuse_in_one_sentence_too(wrong: Any, tmp_path: Path) -> None:
    held = vault()
    calls: list[Callable[[], Any]] = [
        lambda: held.release(wrong),
        lambda: held.release(wrong, purpose="p"),
        lambda: held.stream(wrong, purpose="p"),
        lambda: held.check(wrong, purpose="p"),
        lambda: Synthesizer(1.0, 1e-5).fit(wrong),
        lambda: Ledger(wrong, wrong),
        lambda: sketch(wrong, epsilon=1.0, delta=1e-5),
        lambda: compare_sketches(wrong, wrong),
    ]
    for call in calls:
        with pytest.raises(PrivotError, match=r"^[^\n]*[.)…]$"):
            call()
    assert held.charges("") == 0
    if wrong is not None:
        with pytest.raises(UsageError, match="ledger must be a Ledger, got"):
            Vault(np.zeros((3, 2)), clip=1.0, adjacency="add-remove", ledger=wrong)


def test_a_refusal_names_the_parameter_what_it_takes_and_what_it_got() -> None:
    @declared(path="path", more="?list", place="?array")
    def call(path: Any, more: Any = None, *, place: Any = None) -> str:
        return "ran"

    assert call("a") == call(Path("a"), [1]) == call(path="a", place=np.zeros(2)) == "ran"
    with pytest.raises(UsageError, match=r"^path must be a path, as a string or a Path, got 3\.$"):
        call(3)
    with pytest.raises(UsageError, match=r"^more must be a list or tuple, got 'x'\.$"):
        call("a", "x")
    with pytest.raises(UsageError, match=r"^more must be a list or tuple, got \{\}\.$"):
        call("a", more={})
    with pytest.raises(UsageError, match=r"^place must be an array of numbers, got 'x'\.$"):
        call("a", place="x")
    # what is not imported has no instances
    with pytest.raises(UsageError, match=r"^graph must be a Graph, got 1\.$"):
        declared(graph="not_imported:Graph")(lambda graph: graph)(1)
    assert call.__name__ == "call"


DESIGN = SketchDesign.around(np.random.default_rng(5).normal(size=(40, 3)), prototypes=4)
PARTS = (
    "dim", "radius", "centre", "basis", "prototypes", "knots", "weights", "directions", "unmatched", "rank", "classes",
)  # fmt: skip
WRONG_PARTS = {
    **WRONG, "texts": ["a", "b"], "ragged": [[1.0], [1.0, 2.0]], "infinite": np.full((3, 2), np.inf),
    "empty": {}, "other numbers": np.zeros(5), "true": True,
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_PARTS.values(), ids=WRONG_PARTS)
@pytest.mark.parametrize("name", PARTS)
def test_each_part_of_a_design_is_refused_by_itself(name: str, wrong: Any) -> None:
    number = type(wrong) is int and name in ("dim", "radius", "directions", "rank", "classes")
    if number or (name == "basis" and wrong is WRONG["array"]):
        replace(DESIGN, **{name: wrong})  # what can be meant
        return
    with pytest.raises(PrivotError, match=r"^[^\n]*[.)…]$"):
        replace(DESIGN, **{name: wrong})


@pytest.mark.parametrize(
    ("public", "more", "said"),
    [
        ([["a", "b"]] * 9, {}, "must be numbers"),
        (np.eye(9), {"prototypes": "x"}, "prototypes must be a whole number"),
        (np.eye(9), {"directions": 2.5}, "directions must be a whole number"),
        (np.eye(9), {"principal": [1]}, "principal must be a whole number"),
    ],
)
def test_public_rows_and_how_a_design_is_made_around_them_are_checked(public: Any, more: Any, said: str) -> None:
    with pytest.raises(PrivotError, match=said):
        SketchDesign.around(public, **more)


@pytest.mark.parametrize("name", ["features", "common", "count_weight", "common_share", "sigma", "device"])
@pytest.mark.parametrize("wrong", ["x", [1, 2], np.zeros((3, 2)), object()], ids=["text", "list", "array", "object"])
def test_each_parameter_of_an_embedding_is_refused_by_itself(name: str, wrong: Any) -> None:
    class Halves:
        dim = size = 2

        def features(self, x: Any) -> Any:
            return x / 2

    if name == "device" and isinstance(wrong, str):
        return  # which devices there are is asked when one is used
    given: dict[str, Any] = {"features": Halves(), "sigma": 4.0, "common": Halves(), "common_share": 0.5}
    with pytest.raises(UsageError, match=r"^[^\n]*[.)…]$"):
        MeanEmbedding(**given | {name: wrong})


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((3, 3)), np.zeros((2, 3)), [[[1.0]]], "x", None])
def test_gaussians_of_other_sizes_have_no_distance(place: int, wrong: Any) -> None:
    given: list[Any] = [np.zeros(2), np.eye(2), np.zeros(2), np.eye(2)]
    given[place] = wrong
    with pytest.raises(UsageError, match=r"^[^\n]*[.]$"):
        frechet_distance(*given)


def test_a_class_is_checked_when_it_is_made_and_no_refusal_quotes_an_array() -> None:
    @declared(size="whole number", share="number")
    @dataclass(frozen=True)
    class Sized:
        size: int
        share: float = 0.5

    assert Sized(np.int64(2)) == Sized(2, share=0.5)  # type: ignore[arg-type]
    assert replace(Sized(2), share=np.float32(1)).share == 1.0
    assert list(inspect.signature(Sized).parameters) == ["size", "share"]
    for wrong in (2.5, True, "2"):
        with pytest.raises(UsageError, match=r"^size must be a whole number, got (2\.5|True|'2')\.$"):
            Sized(wrong)  # type: ignore[arg-type]
    # what is given in the wrong place may be records
    with pytest.raises(UsageError, match=r"^share must be a number, got ndarray of shape \(1, 2\)\.$"):
        Sized(1, np.array([[0.123, 4.5]]))  # type: ignore[arg-type]


def test_an_adjacency_may_be_a_word_wherever_one_is_stated() -> None:
    word, adjacency = "add-remove", Adjacency.ADD_REMOVE
    events = [
        Gaussian(2.0, 1.0, word), Laplace(2.0, 1.0, word), Unbounded("x", word),
        Renyi((2.0,), (0.1,), word, Standing.PROVEN),
    ]  # fmt: skip
    stated = [*events, Facts(2, None, 1.0, word), EmbeddingAttack(2.0, 1e-5, word), SketchAttack(2.0, 1e-5, word)]
    for held in stated:
        assert held.adjacency is adjacency  # type: ignore[attr-defined]
    assert DESIGN.sensitivity(word) == DESIGN.sensitivity(adjacency) < DESIGN.sensitivity("replace-one")
    assert Claim(1.0, 1e-5, word, Standing.PROVEN).adjacency is adjacency  # type: ignore[arg-type]
    assert account(events[0], delta=1e-5) == account(Gaussian(2.0, 1.0, adjacency), delta=1e-5)
    assert vault().facts.adjacency is adjacency
    for wrong in (None, 1, "neither"):
        with pytest.raises(UsageError, match=r"^Unknown adjacency .*: say add-remove or replace-one\.$"):
            Gaussian(2.0, 1.0, wrong)
        with pytest.raises(UsageError, match=r"^Unknown adjacency"):
            Facts(2, None, 1.0, wrong)
