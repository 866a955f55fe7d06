"""Figure 6 and section 6.4: which words of a text come back from what FedWad, TriangleWad and a sketch send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from privot.audit.protocol_attacks.word_recovery import (
    CLOSED,
    ETA,
    GAMMA,
    INVERTED,
    matching_rate,
    word_rates,
    words_from_sketch,
)
from privot.errors import DataError
from privot.federation import sketch
from privot.federation.protocols.word_vectors import WordVectors
from privot.mechanisms import SketchDesign
from privot.opening import parse_json
from privot.opening.plain_files import counted
from privot.vault import Vault
from privot_lab.studies.study import StudyFinding, StudyVerdict
from privot_lab.studies.study_run import StudyRun

_COMMON = {"rounds": 20, "deviations": [1.0, 10.0], "delta": 1e-5}
SETTINGS = {
    "quick": {**_COMMON, "pairs": 4, "words": 60, "epsilons": []},
    "full": {**_COMMON, "pairs": 12, "words": 100, "epsilons": [1.0, 10.0]},
}


def compute(
    run: StudyRun,
    pairs: int,
    words: int,
    rounds: int,
    deviations: list[float],
    epsilons: list[float],
    delta: float,
) -> dict[str, Any]:
    """Matching rates over pairs of different and of identical texts, beside the commonest words of other texts.

    The paper's vectors are Word2Vec's of 300 dimensions, ours GloVe's of 50: normal γ of deviation 1 is about as wide
    as these, and many times as wide as those, so a wider γ is measured too. Sketches are (ε, δ) each, replace-one.
    """
    vectors = WordVectors.load(run.data("glove"))
    texts = _texts(run.data("bbc"), vectors, words)
    chosen = np.random.default_rng([run.seed, 5]).choice(len(texts), 2 * pairs, replace=False).reshape(-1, 2)
    rows: list[dict[str, Any]] = []
    for deviation in deviations:
        for kind in ("different", "identical"):
            make = partial(_protocols, vectors, texts, chosen, kind, rounds, deviation)
            rates = run.part(f"{kind} texts, γ of deviation {deviation:g}", make)
            rows.append({"texts": kind, "deviation": deviation, "rates": rates})
    guess = run.part("guess", partial(_guess, texts, chosen, words))
    sketches = [
        {"epsilon": e, "rate": run.part(f"sketch, ε = {e:g}", partial(_sketched, vectors, texts, chosen, e, delta))}
        for e in epsilons
    ]
    findings = _findings(rows, guess, sketches, delta)
    return {
        "rows": rows,
        "guess": guess,
        "sketches": sketches,
        "delta": delta,
        "adjacency": "replace-one",
        "findings": [f.to_dict() for f in findings],
    }


def _findings(
    rows: list[dict[str, Any]], guess: float, sketches: list[dict[str, float]], delta: float
) -> list[StudyFinding]:
    def said(name: str, kind: str) -> str:
        chosen = [row for row in rows if row["texts"] == kind]
        if name in (GAMMA, CLOSED):
            return f"{chosen[0]['rates'][name]:.0%} ({kind})"
        return ", ".join(f"{row['rates'][name]:.0%} (γ of deviation {row['deviation']:g}, {kind})" for row in chosen)

    different = [row for row in rows if row["texts"] == "different"]
    gamma, closed = different[0]["rates"][GAMMA], different[0]["rates"][CLOSED]
    back = min(row["rates"][INVERTED] for row in rows)
    out = [
        StudyFinding(
            "FedWad's messages retrieve the words of the text",
            f"γ as it is: {said(GAMMA, 'different')}, {said(GAMMA, 'identical')}; in closed form: "
            f"{said(CLOSED, 'different')}; the commonest words, without any message: {guess:.0%}",
            max(gamma, closed) > 2.0 * guess,
            published="69 % (different), 100 % (identical)",
        ),
        StudyFinding(
            "with TriangleWad most retrieved words are unrelated",
            f"η as it is: {said(ETA, 'different')}, {said(ETA, 'identical')}; inverted with the shared γ: "
            f"{said(INVERTED, 'different')}",
            StudyVerdict.REFUTED if back > 0.5 else StudyVerdict.REPRODUCED,
            published="4 % (different), 32 % (identical)",
            why="words that cannot be read off a wide γ's interpolants are computed from them by one optimal plan",
        ),
    ]
    if sketches:
        most = max(s["rate"] for s in sketches)
        out.append(
            StudyFinding(
                "only FedWad can be compared with: no private way to compare texts is measured",
                ", ".join(f"{s['rate']:.0%} (sketch, ε = {s['epsilon']:g})" for s in sketches)
                + f" at δ = {delta:g}, replace-one, proven; the commonest words: {guess:.0%}",
                StudyVerdict.CORRECTED if most <= guess + 0.05 else StudyVerdict.NOT_REPRODUCED,
                why="one sketch per text is compared, and the best attack known here retrieves no more than a guess",
            )
        )
    return out


def _texts(path: Path, vectors: WordVectors, words: int) -> list[list[str]]:
    """The first words of every text that is long enough."""
    try:
        with counted(path) as file:
            lines = file.read().decode().splitlines()
        held = [vectors.words_of(parse_json(line, path.name)["text"]) for line in lines]
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{path.name!r} cannot be read: expected lines of JSON with a text, compressed.") from None
    found = [text[:words] for text in held if len(text) >= words]
    if len(found) < 2:
        raise DataError(f"{path.name!r} holds fewer than two texts of {words} words.")
    return found


def _protocols(
    vectors: WordVectors, texts: list[list[str]], chosen: Any, kind: str, rounds: int, deviation: float
) -> dict[str, float]:
    found = [
        word_rates(
            texts[one],
            texts[one if kind == "identical" else two],
            vectors,
            rounds=rounds,
            deviation=deviation,
            seed=int(one),
        )
        for one, two in chosen
    ]
    return {name: float(np.mean([rates[name] for rates in found])) for name in found[0]}


def _others(texts: list[list[str]], chosen: Any) -> list[list[str]]:
    """Texts that take no part: what the attacker has read."""
    held = set(np.asarray(chosen).ravel().tolist())
    return [text for k, text in enumerate(texts) if k not in held]


def _guess(texts: list[list[str]], chosen: Any, words: int) -> float:
    """The mean matching rate of the commonest words of other texts: what needs no message at all."""
    common = Counter(word for text in _others(texts, chosen) for word in set(text))
    commonest = [word for word, _ in common.most_common(words)]
    return float(np.mean([matching_rate(commonest, texts[one]) for one, _ in chosen]))


def _sketched(vectors: WordVectors, texts: list[list[str]], chosen: Any, epsilon: float, delta: float) -> float:
    public = np.concatenate([vectors.cloud(text) for text in _others(texts, chosen)[:400]])
    design = SketchDesign.around(public[np.random.default_rng(5).choice(len(public), 2000, replace=False)], seed=1)
    rates = []
    for one, _ in chosen:
        vault = Vault(vectors.cloud(texts[one]), clip=1.0, adjacency="replace-one", budget=(epsilon, delta))
        made = sketch(vault, epsilon=epsilon, delta=delta, design=design)
        rates.append(matching_rate(words_from_sketch(made, design, vectors, len(texts[one])), texts[one]))
    return float(np.mean(rates))


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: words of the texts stay out of the results."""
    return []
