"""Which words of a text come back from what protocols send: `python benchmarks/audit_words.py TEXTS VECTORS`.

TEXTS is a `.jsonl.gz` of {"topic", "text"}, VECTORS a `.npz` of `words` and `vectors`. Two texts a trial, their
distinct words (without the commonest) as embeddings; matching rate = share of words that are retrieved rightly.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re

import numpy as np
from audit_protocols import fedwad, moved

from privot.audit.protocols import distance, invert_fedwad, invert_shared, nearest_words

COMMON = 300
"""Words so common that they say nothing: left out, as the published experiment leaves out stop words."""


def main() -> None:
    """Print mean matching rates over pairs of texts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("texts")
    parser.add_argument("vectors")
    parser.add_argument("--pairs", type=int, default=10)
    said = parser.parse_args()
    with np.load(said.vectors, allow_pickle=False) as file:
        vocabulary, vectors = [str(w) for w in file["words"]], file["vectors"].astype(np.float64)
    index = {word: i for i, word in enumerate(vocabulary)}
    with gzip.open(said.texts, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    generator = np.random.default_rng(0)
    rates: dict[str, list[float]] = {}
    for _ in range(said.pairs):
        both = []
        for text in (texts[i] for i in generator.choice(len(texts), 2, replace=False)):
            found = dict.fromkeys(index.get(w, -1) for w in re.findall(r"[a-z]+", text.lower()))
            both.append([i for i in found if i >= COMMON])
        n = min(map(len, both))
        words = np.array(both[0][:n])
        x, y = vectors[words], vectors[both[1][:n]]
        gamma = generator.standard_normal(x.shape)
        eta = moved(x, gamma, 0.5)
        seen = fedwad(x, y, 20, generator)
        far, near = distance(x, seen), distance(seen, y)
        held = {
            "FedWad, γ read as it is": seen,
            "FedWad, closed form": invert_fedwad(seen, y, far, near),
            "TriangleWad, η read as it is": eta,
            "TriangleWad, shared γ, inverted": invert_shared(eta, gamma, 0.5),
        }
        for name, points in held.items():
            got = set(nearest_words(points, vectors).tolist())
            rates.setdefault(name, []).append(float(np.mean([w in got for w in words])))
    print("| message | matching rate, mean of pairs |\n|---|---|")
    for name, found_rates in rates.items():
        print(f"| {name} | {np.mean(found_rates):.3f} |")


if __name__ == "__main__":
    main()
