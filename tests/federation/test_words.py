"""Documents as clouds of words: read, compared and mapped back to words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from privot.cli import run
from privot.errors import DataError
from privot.federation import triangle
from privot.federation.protocols.word_vectors import WordVectors
from privot.transport import exact

WORDS = ["budget", "minister", "film", "award", "goal", "match", "the"]
VECTORS = WordVectors(WORDS, np.random.default_rng(0).normal(size=(7, 12)))


def test_a_document_is_its_words_without_stop_words() -> None:
    text = "The minister's BUDGET, the budget of a film; unknownword."
    assert VECTORS.words_of(text) == ["minister", "budget", "budget", "film"]
    assert VECTORS.cloud(["film", "goal"]).shape == (2, 12)
    with pytest.raises(DataError, match="no word"):
        VECTORS.cloud([])


def test_points_find_their_words_and_interpolants_still_reveal_them() -> None:
    document, other = ["budget", "minister", "award"], ["goal", "match", "film"]
    x, y = VECTORS.cloud(document), VECTORS.cloud(other)
    assert VECTORS.nearest(x) == document
    assert VECTORS.nearest(3 * x) == document
    assert triangle(x, y).value == pytest.approx(exact(x, y).value, rel=1e-9)
    # whoever knows γ undoes the interpolant, whatever words it looks like
    gamma = 50 * np.random.default_rng(1).normal(size=x.shape)
    plan = exact(x, gamma).plan
    eta = 0.5 * x + 0.5 * len(x) * plan @ gamma
    back = (eta - 0.5 * gamma[exact(eta, gamma).plan.argmax(1)]) / 0.5
    assert VECTORS.nearest(back) == document


def test_files(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("words.npz", words=np.array(WORDS), vectors=VECTORS.vectors.astype(np.float16))
    assert WordVectors.load("words.npz").words == WORDS
    Path("a.txt").write_text("budget minister award budget")
    Path("b.txt").write_text("goal match film goal")
    assert run(["compare", "a.txt", "b.txt", "--words", "words.npz", "--method", "exact", "--json"]) == 0
    x, y = (WordVectors.load("words.npz").cloud(Path(n).read_text().split()) for n in ("a.txt", "b.txt"))
    assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(exact(x, y).value)
    terms = ["--epsilon", "1", "--delta", "1e-5", "--adjacency", "replace-one", "--radius", "4"]
    assert run(["sketch", "a.txt", "--words", "words.npz", *terms, "--out", "a.sketch"]) == 0
    assert run(["compare", "a.txt", "missing.txt", "--words", "words.npz", "--method", "exact"]) == 3
    with pytest.raises(DataError, match="no file"):
        WordVectors.load("missing.npz")
    np.savez("odd.npz", words=np.array(WORDS[:3]), vectors=VECTORS.vectors)
    with pytest.raises(DataError, match="one row per word"):
        WordVectors.load("odd.npz")
    np.savez("other.npz", x=VECTORS.vectors)
    with pytest.raises(DataError, match="called words"):
        WordVectors.load("other.npz")
