"""What messages of `privot.federation` give away of pictures: `python benchmarks/audit_protocols.py DATA --out DIR`.

DATA is a `.npz` with x_train and x_test of pictures, or `digits`. Parties hold records of x_train, the attacker knows
x_test as public data. FedWad, TriangleWad and sketches run as the library runs them, and every attack sees messages
only. Three tables: shares of records recovered and PSNR (of the range [−1, 1]) for each defence; and for sketches what
an attack adds to its prior, the public prototypes, and what a record's own presence adds
(`privot.audit.statistics.membership_gain`), in shares of records recovered and in dB. DIR gets a grid of pictures;
those of a data set stay out of the repository.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from privot.audit.attacks.reconstruction import (
    distance,
    from_counts,
    from_sketch,
    identically_distributional,
    invert_constant,
    invert_fedwad,
    invert_shared,
    learn_inverse,
    match_candidates,
    membership_scores,
)
from privot.audit.statistics.effects import Effect
from privot.audit.statistics.membership_gain import Gain, inside_gain, membership_auc
from privot.audit.statistics.one_to_one import assignment
from privot.audit.statistics.recovery import CLEAR, Recovery, draw_recoveries, judge
from privot.audit.targets.exchange import audit_interpolants, recorded
from privot.federation import Sketch, compare_sketches, sketch
from privot.federation.protocols.answering import FederatedResult, drive, local_party
from privot.federation.protocols.fedwad import fedwad_steps
from privot.federation.protocols.triangle import defence_points, triangle_steps
from privot.federation.wire.messages import Interpolant, Question
from privot.mechanisms import SketchDesign
from privot.vault import Vault

Heard = list[tuple[Question, Interpolant]]
Array = np.ndarray

T = 0.5
SPAN = 2.0
DELTA = 1e-5
HALVINGS, FEWER = 10, 3
"""How often the pool is halved, and how often for attacks that solve transport problems."""


def pictures(source: str) -> tuple[Array, Array, tuple[int, ...]]:
    """(private, public, shape), in [−1, 1]."""
    if source == "digits":
        from sklearn.datasets import load_digits

        rows = load_digits().data / 8.0 - 1.0
        return rows[:900], rows[900:], (8, 8)
    with np.load(source, allow_pickle=False) as file:
        private, public = file["x_train"], file["x_test"]
    shape = private.shape[1:]
    first, second = (p.reshape(len(p), -1) / 127.5 - 1.0 for p in (private, public))
    return first, second, shape


def play_triangle(x: Array, y: Array, defence: str, shared: bool = True) -> Heard:
    """What x sends in TriangleWad."""
    heard: Heard = []
    own = None if shared else defence_points(defence, y, 2)
    drive(triangle_steps(defence_points(defence, x, 1), T, 2, own), recorded(local_party(x), heard), local_party(y))
    return heard


def play_fedwad(x: Array, y: Array, rounds: int) -> tuple[Heard, Heard, FederatedResult]:
    """What both sides send in FedWad, and its result."""
    generator = np.random.default_rng(3)
    one: Heard = []
    two: Heard = []
    steps = fedwad_steps(generator.standard_normal(x.shape), rounds, generator=generator)
    result = drive(steps, recorded(local_party(x), one), recorded(local_party(y), two))
    return one, two, result


def inverted(heard: Heard) -> Array:
    """The first message, by whoever asked."""
    question, said = heard[0]
    return invert_shared(said.points, question.towards, question.t)


def sketched(x: Array, epsilon: float, design: SketchDesign) -> Sketch:
    """A party's sketch, through a vault."""
    vault = Vault(x, clip=1.0, adjacency="replace-one", budget=(2.0 * epsilon, 2.0 * DELTA))
    return sketch(vault, epsilon=epsilon, delta=DELTA, design=design)


def eq5_on_sketches(x: Array, own: Array, epsilon: float, design: SketchDesign) -> Array:
    """Eq. 5 by a party that has `own` records and the other's sketch: both distances as sketches estimate them."""
    seen = sketched(x, epsilon, design)
    guess = from_sketch(seen, design, len(x))
    # of its own points an attacker can make sketches with next to no noise
    far, near = (compare_sketches(seen, sketched(z, 1e4, design), draws=0).value for z in (guess, own))
    return identically_distributional(guess, own, far, max(near - far, 1e-9), rounds=15)


def percent(effect: Effect) -> str:
    """An effect on shares, with its interval, in %."""
    return f"{100 * effect.value:+.2f} ({100 * effect.low:+.2f} to {100 * effect.high:+.2f})"


def tables(found: list[Recovery], gains: list[Gain]) -> None:
    """As Markdown."""
    print(f"| attack | recovered exactly (95 %) | PSNR ≥ {CLEAR:g} dB | median PSNR, dB |\n|---|---|---|---|")
    for r in found:
        low, high = r.exact_interval
        print(f"| {r.name} | {r.exact:.3f} ({low:.3f} to {high:.3f}) | {r.clear:.3f} | {r.psnr:.1f} |")
    print("\nshare of records recovered by the nearest guess, %; 95 % intervals")
    print(
        "| attack | recovered | prior | outside | inside | inside − prior | inside − outside | inside, not by prior |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for g in gains:
        for quality, s in (("exactly", g.exact), (f"≥ {CLEAR:g} dB", g.clear)):
            levels = f"{100 * s.prior:.2f} | {100 * s.outside:.2f} | {100 * s.inside:.2f}"
            beyond = f"{100 * s.beyond:.2f} (≤ {100 * s.beyond_at_most:.2f})"
            print(
                f"| {g.name} | {quality} | {levels} | {percent(s.over_prior)} | {percent(s.over_outside)} | {beyond} |"
            )
    print("\nmean PSNR of the nearest guess, dB; 95 % intervals")
    print("| attack | prior | outside | inside | inside − prior | inside − outside | the same, matched |")
    print("|---|---|---|---|---|---|---|")
    for g in gains:
        levels = f"{g.prior:.2f} | {g.outside:.2f} | {g.inside:.2f}"
        print(f"| {g.name} | {levels} | {g.over_prior} | {g.over_outside} | {g.by_match} |")


def main() -> None:
    """Print the tables and draw the grid."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--records", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument("--out", type=Path, help="a folder for pictures.png")
    said = parser.parse_args()
    began = time.monotonic()
    generator = np.random.default_rng(0)
    private, public, shape = pictures(said.data)
    order = generator.permutation(len(private))
    n = min(said.records, len(private) // 3)
    x, y = private[order[:n]], private[order[n : 2 * n]]
    rest = private[order[2 * n :]]
    found: list[Recovery] = []
    shown: list[tuple[str, Array]] = [("records", x)]

    def tell(name: str, guess: Array, ordered: bool = True) -> None:
        kept = guess if ordered else guess[assignment(x, guess)]
        found.append(judge(name, kept, x, SPAN))
        shown.append((name, kept))

    tell("prior: the mean public picture", np.broadcast_to(public.mean(0), x.shape))
    tell("prior: public pictures, best match", public[generator.permutation(len(public))[:n]], ordered=False)

    (question, eta), *_ = play_triangle(x, y, "constant")
    tell("TriangleWad, constant", invert_constant(eta.points, question.towards[0], question.t))
    heard = play_triangle(x, y, "random")
    shown.append(("what is sent (shared γ)", heard[0][1].points))
    tell("TriangleWad, shared random", inverted(heard))
    triangle_check = audit_interpolants("TriangleWad", heard)
    secret = play_triangle(x, y, "random", shared=False)[0][1].points
    inverse = learn_inverse(public[: min(len(public), 1000)], T, generator.standard_normal)
    tell("TriangleWad, private random, denoised", inverse(secret))
    candidates = np.vstack([x, rest[: said.candidates - n]])
    linked = float((match_candidates(secret, candidates) == np.arange(n)).mean())

    one, two, result = play_fedwad(x, y, said.rounds)
    tell("FedWad, first message, by who asked", inverted(one))
    # the other party holds its own records, the last γ it was asked about, and both last distances
    gamma, far, near = two[-1][0].towards, one[-1][1].distance, two[-1][1].distance
    shown.append((f"FedWad's γ after {said.rounds} rounds", gamma[assignment(x, gamma)]))
    tell(f"FedWad, {said.rounds} rounds, closed form, by the other party", invert_fedwad(gamma, y, far, near), False)
    tell(
        f"FedWad, {said.rounds} rounds, eq. 5, by the other party",
        identically_distributional(gamma, y, far, near, rounds=25),
        False,
    )

    known = public[generator.permutation(len(public))[: min(1000, len(public) // 2)]]
    design = SketchDesign.around(known)
    count = len(design.prototypes)
    tell(
        "prior of a sketch: its public prototypes, best match", from_counts(np.ones(count), design.prototypes, n), False
    )
    pool = np.vstack([x, y])
    gains: list[Gain] = []

    def gain(name: str, attacked: Callable[[Array], Array], halvings: int) -> None:
        gains.append(inside_gain(name, attacked, design.prototypes, pool, halvings=halvings, span=SPAN))

    gain("control: TriangleWad, shared random", lambda z: inverted(play_triangle(z, z, "random")), 2)
    areas = []
    for epsilon in (1.0, 10.0):
        name = f"sketch, ε = {epsilon:g}, δ = {DELTA:g}, replace-one, proven"
        tell(f"{name}, counts and features, best match", from_sketch(sketched(x, epsilon, design), design, n), False)
        gain(
            f"{name}, counts and features",
            lambda z, e=epsilon: from_sketch(sketched(z, e, design), design, len(z)),
            HALVINGS,
        )
        gain(f"{name}, eq. 5", lambda z, e=epsilon: eq5_on_sketches(z, rest[: len(z)], e, design), FEWER)
        area = membership_auc(
            lambda z, c, e=epsilon: membership_scores(sketched(z, e, design), design, c, known), pool, halvings=HALVINGS
        )
        areas.append(f"{name}: {area.value:.3f} ({area.low:.3f} to {area.high:.3f})")

    print(f"{said.data}: {n} records a side, {x.shape[1]} dimensions, t = {T}")
    tables(found, gains)
    print(f"\nTriangleWad, secret γ, linked among {len(candidates)} candidates: {linked:.3f}")
    print(f"AUC of the best linear membership score, ½ for nothing: {'; '.join(areas)}")
    print(f"{triangle_check.name}: {triangle_check.detail}")
    check = audit_interpolants("FedWad", one)
    print(f"{check.name}: {check.detail}")
    true = distance(x, y)
    print(f"FedWad's gap to equality after {said.rounds} rounds: {result.value - true:.4f} of {true:.2f}")
    if said.out is not None:
        said.out.mkdir(parents=True, exist_ok=True)
        (said.out / "pictures.png").write_bytes(draw_recoveries(shown, shape, -1.0, 1.0))
    print(f"{time.monotonic() - began:.0f} s, {time.process_time():.0f} s of CPU")


if __name__ == "__main__":
    main()
