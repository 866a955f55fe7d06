"""One peer of table synthesis, run by another interpreter that has it installed; this file imports nothing of privot.

    PYTHON table_peer.py CELLS.npz SAMPLE.npz --method mst --epsilon 1 --delta 1e-6 --seed 0 --limit 1800

CELLS holds `cells` (records, columns), one whole number each, and `sizes`. SAMPLE gets as many synthetic rows and the
seconds of processor time. MST and AIM are those of `dpmm`, repaired where they do not run on recent libraries
(`repair`). Their inference is that of `table_peer_inference.py` beside this file: the same steps, in a part of the
time. `--as-it-comes` leaves `dpmm`'s own, which its seconds must be measured with; `--own-seconds` times a small part
of it and computes the rest (`table_peer_clock.py`). With `--state FILE` an AIM fit that
was ended goes on where it was (`Rounds`).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

MODEL_SIZE = 80
"""Megabytes, AIM's own recommendation for comparisons."""
NOT_INSTALLED = 3
"""The exit code where the peer, or a package that it needs, cannot be imported."""
MISSING = ".missing"
"""The ending of the file that then holds the package's name."""
SECONDS_BETWEEN_SAVES = 15.0


def log_sum_exp(values: Any, axis: Any = None) -> Any:
    """ln Σ exp(values) over `axis`, where −∞ stands for nothing.

    >>> float(log_sum_exp(np.log([1.0, 2.0, 5.0])).round(12)) == float(np.log(8.0).round(12))
    True
    """
    highest = np.max(values, axis=axis, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(values - highest), axis=axis)) + np.squeeze(highest, axis=axis)


def repair() -> None:
    """Make `dpmm` 0.1.9 run on pandas 3 and SciPy 1.17 and 1.18; nothing that it computes changes.

    Its matrices name their type as a class, where `lsmr` now wants a dtype, and lack what SciPy 1.18 sets in a
    constructor that they do not call. Its sampler needs the columns that rows
    are grouped by within each group, where pandas now leaves them out. SciPy's `logsumexp` has become several times
    slower on the small arrays that it is called with.
    """
    import pandas
    from dpmm.models.base.matrix import EkteloMatrix
    from dpmm.models.base.mbi import factor, inference
    from pandas.core.groupby import DataFrameGroupBy
    from scipy.sparse.linalg import aslinearoperator

    known = aslinearoperator(np.eye(1))
    for name in ("_xp", "ndim"):
        if hasattr(known, name) and not hasattr(EkteloMatrix, name):
            setattr(EkteloMatrix, name, getattr(known, name))
    plain = inference.lsmr

    def lsmr(matrix: Any, target: Any, **options: Any) -> Any:
        matrix.dtype = np.dtype(matrix.dtype)
        return plain(matrix, target, **options)

    def apply(grouped: Any, function: Any) -> Any:
        parts = []
        for key, group in grouped:
            part = group.copy()
            object.__setattr__(part, "name", key)
            parts.append(function(part))
        return pandas.concat(parts)

    inference.lsmr, factor.logsumexp, DataFrameGroupBy.apply = lsmr, log_sum_exp, apply


class Rounds:
    """The rounds of one AIM fit, kept in a file without pickles, so that a fit which was ended goes on.

    A round chooses columns, draws noise and estimates a model. When a fit goes on, AIM's own loop runs again: noise and
    choices of the rounds that are kept are read from the file in place of being drawn, the last model and the state of
    the random numbers are set, and the rest is computed as ever. The order of Python's sets must be the same in both
    processes (`PYTHONHASHSEED`).
    """

    def __init__(self, path: Path) -> None:
        self.path, self.calls, self.drawn = path, 0, 0
        self.noise: list[Any] = []
        self.chosen: list[tuple[str, ...]] = []
        self.before: list[Any] = []
        self.after: list[Any] = []
        self.kept: dict[str, Any] = {}
        self.last = -1
        self.spent, self.saved = 0.0, time.process_time()
        if path.exists():
            with np.load(path, allow_pickle=False) as file:
                self.kept = {name: file[name] for name in file.files}
            facts = json.loads(str(self.kept["facts"]))
            self.chosen = [tuple(names) for names in facts["chosen"]]
            self.cliques = [tuple(names) for names in facts["cliques"]]
            self.last, self.spent = len(self.chosen), float(facts["seconds"])
            self.noise = [self.kept[f"noise{i}"] for i in range(facts["noise"])]
            self.before = [self.kept[f"before{i}"] for i in range(self.last)]
            self.after = [self.kept[f"after{i}"] for i in range(self.last)]

    @property
    def seconds(self) -> float:
        """Processor seconds of this process and of those before it."""
        return self.spent + time.process_time()

    def past(self, index: int) -> Any:
        """What AIM asks of the model of a round that is kept: two projections."""
        known = {self.chosen[index]: self.before[index]}
        if index:
            known[self.chosen[index - 1]] = self.after[index - 1]
        return SimpleNamespace(past=index, project=lambda names: SimpleNamespace(datavector=lambda: known[names]))

    def save(self, engine: Any, states: tuple[Any, Any]) -> None:
        """Write everything beside the file, then put it in its place."""
        model = engine.model
        held: dict[str, Any] = {f"noise{i}": values for i, values in enumerate(self.noise)}
        held |= {f"before{i}": values for i, values in enumerate(self.before)}
        held |= {f"after{i}": values for i, values in enumerate(self.after)}
        held |= {f"potential{i}": model.potentials[names].values for i, names in enumerate(model.cliques)}
        for name, state in zip(("start", "end"), states, strict=True):
            held |= {f"{name}_words": state[1], f"{name}_place": np.array(state[2:], dtype=float)}
        facts = {"chosen": self.chosen, "cliques": model.cliques, "noise": len(self.noise), "seconds": self.seconds}
        beside = self.path.with_suffix(".part.npz")
        np.savez(beside, facts=json.dumps(facts), **held)
        os.replace(beside, self.path)
        self.saved = time.process_time()

    def _state(self, name: str) -> tuple[Any, ...]:
        place = self.kept[f"{name}_place"]
        return "MT19937", self.kept[f"{name}_words"], int(place[0]), int(place[1]), float(place[2])

    def restore(self, engine: Any, measurements: Any) -> Any:
        """The last model that is kept, as the engine would have left it."""
        engine.prng.set_state(self._state("start"))
        engine._setup(engine.fix_measurements(measurements), None)
        model = engine.model
        if [tuple(names) for names in model.cliques] != self.cliques:
            sys.exit(f"{self.path} is of another order of sets: remove it to begin again.")
        for i, names in enumerate(model.cliques):
            model.potentials[names].values = self.kept[f"potential{i}"]
        model.marginals = model.belief_propagation(model.potentials)
        engine.prng.set_state(self._state("end"))
        return model

    def follow(self) -> None:
        """Have AIM of this process read and write these rounds."""
        from dpmm.models import aim

        rounds, noise_of, plain_filter = self, aim.gaussian_noise, aim.filter_candidates
        choose = aim.AIM.worst_approximated

        class Engine(aim.FactoredInference):  # type: ignore[misc]
            def estimate(self, measurements: Any) -> Any:
                index, rounds.calls = rounds.calls, rounds.calls + 1
                if index < rounds.last:
                    return rounds.past(index)
                if index == rounds.last:
                    return rounds.restore(self, measurements)
                start = self.prng.get_state()
                model = super().estimate(measurements)
                if index:
                    rounds.after.append(model.project(rounds.chosen[-1]).datavector())
                if time.process_time() - rounds.saved >= SECONDS_BETWEEN_SAVES:
                    rounds.save(self, (start, self.prng.get_state()))
                return model

        def noise(sigma: Any, size: Any = None) -> Any:
            rounds.drawn += 1
            if rounds.drawn > len(rounds.noise):
                rounds.noise.append(np.asarray(noise_of(sigma=sigma, size=size)))
            return rounds.noise[rounds.drawn - 1]

        def candidates(held: Any, model: Any, limit: Any) -> Any:
            return held if hasattr(model, "past") else plain_filter(held, model, limit)

        def worst(aims: Any, held: Any, answers: Any, model: Any, *others: Any) -> Any:
            if hasattr(model, "past"):
                return rounds.chosen[model.past]
            names = choose(aims, held, answers, model, *others)
            rounds.chosen.append(names)
            rounds.before.append(model.project(names).datavector())
            return names

        aim.FactoredInference, aim.gaussian_noise, aim.filter_candidates = Engine, noise, candidates
        aim.AIM.worst_approximated = worst


def main() -> None:
    """Fit the method to the cells and draw from it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cells")
    parser.add_argument("sample")
    parser.add_argument("--method", choices=["aim", "mst"], required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, required=True, help="seconds of processor time, after which it is ended")
    parser.add_argument("--state", type=Path, default=None, help="where AIM's rounds are kept; read where it exists")
    parser.add_argument("--iterations", type=int, default=None, help="of each estimate; for trials")
    parser.add_argument("--as-it-comes", action="store_true", help="dpmm's own inference, which takes far longer")
    parser.add_argument("--own-seconds", action="store_true", help="time a part of dpmm's own beside the faster one")
    chosen = parser.parse_args()
    try:
        import pandas
        from dpmm.pipelines import AIMPipeline, MSTPipeline
    except ImportError as error:
        # beside what would have been drawn: the exit code says no name
        Path(chosen.sample).with_suffix(MISSING).write_text(error.name or str(error), encoding="utf-8")
        sys.exit(NOT_INSTALLED)
    if chosen.own_seconds and (chosen.as_it_comes or chosen.state):
        parser.error("--own-seconds is for a whole fit with the faster inference, without --state")
    repair()
    clock = import_module("table_peer_clock").Clock() if chosen.own_seconds else None
    if not chosen.as_it_comes:
        # before AIM's rounds are followed, since these wrap what is there
        import_module("table_peer_inference").install()
    if clock:
        clock.watch()
    rounds = Rounds(chosen.state) if chosen.state and chosen.method == "aim" else None
    left = chosen.limit - int(rounds.spent if rounds else 0)
    resource.setrlimit(resource.RLIMIT_CPU, (max(left, 1), max(left, 1) + 10))
    if rounds:
        rounds.follow()
    with np.load(chosen.cells) as file:
        cells, sizes = file["cells"], file["sizes"]
    names = [f"c{i}" for i in range(len(sizes))]
    table = pandas.DataFrame({name: cells[:, i].astype(int) for i, name in enumerate(names)})
    domain: Any = {name: int(size) for name, size in zip(names, sizes, strict=True)}
    pipeline = {"aim": AIMPipeline, "mst": MSTPipeline}[chosen.method](
        epsilon=chosen.epsilon, delta=chosen.delta, max_model_size=MODEL_SIZE, n_jobs=1, disable_processing=True,
        gen_kwargs={"n_iters": chosen.iterations} if chosen.iterations else None,
    )  # fmt: skip
    start = time.process_time()
    pipeline.fit(table, domain=domain, random_state=chosen.seed)
    drawn = pipeline.generate(n_records=len(cells), random_state=chosen.seed)
    seconds = time.process_time() - start + (rounds.spent if rounds else 0.0)
    own = {"own_seconds": clock.own(seconds)} if clock else {}
    np.savez_compressed(chosen.sample, cells=drawn[names].to_numpy(), seconds=seconds, **own)


if __name__ == "__main__":
    main()
