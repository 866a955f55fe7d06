"""The BBC experiment: how many words of a document come back from what FedWad, TriangleWad and a sketch send.

    python benchmarks/federation_text.py DATA_DIR [--documents 20] [--words 100]

DATA_DIR holds bbc_news.jsonl.gz (topic, text) and glove50_bbc.npz (words, vectors). A matching rate is the share of
retrieved words that stand in the document, as published; what is retrieved is the word nearest (by cosine) to each
point that was sent, or what the best attack known here makes of it. The guess needs no message at all: the commonest
words of other documents.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from privot import Vault
from privot.federation import sketch
from privot.federation.protocols.answering import drive, local_party
from privot.federation.protocols.fedwad import fedwad_steps
from privot.federation.protocols.word_vectors import WordVectors
from privot.federation.wire.messages import Interpolant, Question
from privot.mechanisms import SketchDesign
from privot.transport import exact

DELTA = 1e-5


def documents(path: Path, vectors: WordVectors, words: int) -> list[tuple[str, list[str]]]:
    """(topic, first words) of every document that is long enough."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        said = [json.loads(line) for line in lines]
    found = [(entry["topic"], vectors.words_of(entry["text"])) for entry in said]
    return [(topic, text[:words]) for topic, text in found if len(text) >= words]


def match(retrieved: list[str], document: list[str]) -> float:
    """The share of retrieved words that stand in the document."""
    held = set(document)
    return float(np.mean([word in held for word in retrieved]))


def fedwad_gamma(x: np.ndarray, y: np.ndarray, rounds: int, t: float | str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(the last γ, records of x that the other side computes from it): W(x, γ) is known to it as well."""
    seen: list[tuple[Question, Interpolant]] = []

    def watched(question: Question) -> Interpolant:
        answer = local_party(x)(question)
        seen.append((question, answer))
        return answer

    generator = np.random.default_rng(seed)
    steps = fedwad_steps(generator.standard_normal(x.shape), rounds, t=t, generator=generator)
    drive(steps, watched, local_party(y))
    question, answer = seen[-1]
    gamma = question.towards
    return gamma, undo(answer.points, gamma, question.t)


def undo(eta: np.ndarray, gamma: np.ndarray, t: float) -> np.ndarray:
    """x from η = (1 − t)·x + t·γ_σ: the optimal plan from η to γ is the plan from x."""
    where = exact(eta, gamma).plan.argmax(1)
    return (eta - t * gamma[where]) / (1.0 - t)


def from_sketch(made: object, design: SketchDesign, vectors: WordVectors, count: int) -> list[str]:
    """The `count` heaviest words of the non-negative combination of vocabulary that explains the noisy sums best."""
    parts = design.coordinates(vectors.vectors)
    weights = {name: design.weights[name] for name in parts}
    table = np.concatenate([parts[name] * weights[name] for name in parts], axis=1).T
    target = np.concatenate([made.value[name] * weights[name] for name in parts])  # type: ignore[attr-defined]
    found, _ = nnls(table, target, maxiter=20 * table.shape[0])
    best = np.argsort(found)[::-1][:count]
    return [vectors.words[k] for k in best if found[k] > 0.0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--words", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=20)
    a = parser.parse_args()
    vectors = WordVectors.load(a.folder / "glove50_bbc.npz")
    texts = documents(a.folder / "bbc_news.jsonl.gz", vectors, a.words)
    generator = np.random.default_rng(5)
    chosen = generator.choice(len(texts), 2 * a.documents, replace=False)
    held = set(chosen.tolist())
    common = Counter(word for k, (_, text) in enumerate(texts) if k not in held for word in set(text))
    guess = [word for word, _ in common.most_common(a.words)]
    public = np.concatenate([vectors.cloud(text) for k, (_, text) in enumerate(texts[:400]) if k not in held])
    pick = generator.choice(len(public), 2000, replace=False)
    designs = {
        "plain": SketchDesign.plain(vectors.vectors.shape[1], 8.0),
        "around public words": SketchDesign.around(public[pick], seed=1),
    }
    rates: dict[str, list[float]] = {}

    def note(name: str, retrieved: list[str], document: list[str]) -> None:
        rates.setdefault(name, []).append(match(retrieved, document) if retrieved else 0.0)

    for first, second in chosen.reshape(-1, 2):
        mu = texts[first][1]
        x = vectors.cloud(mu)
        note("the guess, nothing sent", guess, mu)
        for kind, y in (("different", vectors.cloud(texts[second][1])), ("identical", x.copy())):
            for t in ("random", 0.5):
                gamma, back = fedwad_gamma(x, y, a.rounds, t, int(first))
                note(f"FedWad, γ, t = {t}, {kind}", vectors.nearest(gamma), mu)
                note(f"FedWad, records computed, t = {t}, {kind}", vectors.nearest(back), mu)
        gamma = np.random.default_rng(int(first)).standard_normal(x.shape)
        for scale in (1.0, 10.0):
            plan = exact(x, gamma * scale).plan
            eta = 0.5 * x + 0.5 * (plan @ (gamma * scale)) * len(x)
            note(f"triangle, η, random γ of deviation {scale:g}", vectors.nearest(eta), mu)
            note(
                f"triangle, records computed, random γ of deviation {scale:g}",
                vectors.nearest(undo(eta, gamma * scale, 0.5)),
                mu,
            )
        for name, design in designs.items():
            for epsilon in (1.0, 10.0):
                vault = Vault(x, clip=1.0, adjacency="replace-one", budget=(epsilon, DELTA))
                made = sketch(vault, epsilon=epsilon, delta=DELTA, design=design)
                note(f"sketch, {name}, ε = {epsilon:g}", from_sketch(made, design, vectors, a.words), mu)
    print(f"{a.documents} documents of {a.words} words; sketches at δ = {DELTA:g}, replace-one, proven")
    print("sent,matching rate,least,most")
    for name, found in rates.items():
        print(f"{name},{np.mean(found):.3f},{min(found):.3f},{max(found):.3f}", flush=True)


if __name__ == "__main__":
    main()
