"""Which words of a text come back from what protocols send: `python benchmarks/audit_words.py TEXTS VECTORS`.

TEXTS is a `.jsonl.gz` of {"topic", "text"}, VECTORS a `.npz` of `words` and `vectors`. Two texts a trial, their
distinct words (without the commonest) as embeddings. Protocols run as the library runs them, and attacks see messages
only. Matching rate = share of words that are retrieved rightly.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re

import numpy as np
from audit_protocols import inverted, play_fedwad, play_triangle

from privot.audit.attacks.reconstruction import invert_fedwad, nearest_words

ROUNDS = 20
COMMON = 300
"""Words so common that they say nothing: left out, as the published experiment leaves out stop words."""


def main() -> None:
    """Print mean matching rates over pairs of texts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
        heard = play_triangle(x, y, "random")
        one, two, _ = play_fedwad(x, y, ROUNDS)
        # the other party holds its own records, the last γ it was asked about, and both last distances
        seen, far, near = two[-1][0].towards, one[-1][1].distance, two[-1][1].distance
        held = {
            "FedWad, γ read as it is": seen,
            "FedWad, closed form": invert_fedwad(seen, y, far, near),
            "TriangleWad, η read as it is": heard[0][1].points,
            "TriangleWad, shared γ, inverted": inverted(heard),
        }
        for name, points in held.items():
            got = set(nearest_words(points, vectors).tolist())
            rates.setdefault(name, []).append(float(np.mean([w in got for w in words])))
    print("| message | matching rate, mean of pairs |\n|---|---|")
    for name, found_rates in rates.items():
        print(f"| {name} | {np.mean(found_rates):.3f} |")


if __name__ == "__main__":
    main()
