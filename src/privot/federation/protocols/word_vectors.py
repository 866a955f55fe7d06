"""Documents as clouds of public word vectors, so that everything that compares points can compare texts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from privot.errors import DataError
from privot.federation.wire.messages import Array
from privot.opening.archives import read_arrays

MAX_WORDS = 5_000_000
_WORD = re.compile(r"[a-z]+")


class WordVectors:
    """Public vectors by word. A document is one point per word, in the order of the text, without stop words."""

    def __init__(self, words: list[str], vectors: Any) -> None:
        self.words = list(words)
        self.vectors: Array = np.array(vectors, dtype=np.float64)
        if self.vectors.ndim != 2 or len(self.words) != len(self.vectors) or not np.isfinite(self.vectors).all():
            raise DataError("Word vectors must be finite numbers of shape (words, dimension), one row per word.")
        self._at = {word: k for k, word in enumerate(self.words)}
        norm = np.linalg.norm(self.vectors, axis=1, keepdims=True)
        self._unit = self.vectors / np.where(norm > 0.0, norm, 1.0)

    @classmethod
    def load(cls, path: str | Path) -> WordVectors:
        """From a `.npz` file with `words` (text) and `vectors` (numbers)."""
        try:
            held = read_arrays(path, ("words", "vectors"))
            if len(held["words"]) > MAX_WORDS:
                raise DataError(f"{str(path)!r} holds more than {MAX_WORDS} words: keep those that the texts use.")
            return cls([str(word) for word in held["words"]], held["vectors"])
        except DataError:
            raise
        except FileNotFoundError:
            raise DataError(f"There is no file of word vectors {str(path)!r}.") from None
        except Exception:  # a damaged file can raise nearly anything
            raise DataError(f"{str(path)!r} holds no arrays called words and vectors.") from None

    def words_of(self, text: str) -> list[str]:
        """The words of a text that have vectors, without stop words."""
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return [word for word in _WORD.findall(text.lower()) if word in self._at and word not in ENGLISH_STOP_WORDS]

    def cloud(self, words: list[str]) -> Array:
        """One point per word, (words, dimension)."""
        if not words:
            raise DataError("The text holds no word that has a vector.")
        return np.asarray(self.vectors[[self._at[word] for word in words]])

    def nearest(self, points: Array) -> list[str]:
        """For each point the word whose vector has the largest cosine with it."""
        out = []
        for start in range(0, len(points), 256):
            best = (points[start : start + 256] @ self._unit.T).argmax(1)
            out += [self.words[k] for k in best]
        return out
