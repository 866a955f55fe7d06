"""What a fit would have taken with `dpmm`'s own inference, from a small part of it timed beside the faster one.

Both do the same steps, so that the number of evaluations (beliefs propagated, loss and gradient) is known. In every
estimate `ITERATIONS` steps of `dpmm`'s own run as well, from the same start; their seconds per evaluation times all
evaluations are those of the whole. Of its marginals of two columns and of its sizes of models one each is timed per
round. This file imports nothing of privot.
"""

from __future__ import annotations

import copy
import time
from typing import Any

ITERATIONS = 5


class Clock:
    """Processor seconds of the faster inference (with those spent on timing), and of `dpmm`'s own in its place."""

    def __init__(self) -> None:
        from dpmm.models import aim
        from dpmm.models.base.mbi import FactoredInference, GraphicalModel

        self.spent = self.instead = 0.0
        self.plain = FactoredInference.mirror_descent, GraphicalModel.project, aim.hypothetical_model_size
        self.model: Any = None
        self.each = 0.0

    def own(self, seconds: float) -> float:
        """Of a whole fit that took so many seconds, this timing included."""
        return seconds - self.spent + self.instead

    def _descent(self, engine: Any, measurements: Any, total: Any) -> float:
        """Seconds of one evaluation of `dpmm`'s own, times those of the estimate that was made."""
        part, count = copy.copy(engine), [0]
        part.iters = ITERATIONS
        loss = part._marginal_loss

        def counted(*words: Any, **more: Any) -> Any:
            count[0] += 1
            return loss(*words, **more)

        part._marginal_loss = counted
        # the setup is common to both and is not counted again
        setup, begun = part._setup, [0.0]

        def timed(*words: Any) -> None:
            setup(*words)
            begun[0] = time.process_time()

        part._setup = timed
        self.plain[0](part, measurements, total)
        each = (time.process_time() - begun[0]) / count[0]
        return each * int(engine.evaluations)

    def watch(self) -> None:
        """Wrap what is installed."""
        from dpmm.models import aim
        from dpmm.models.base.mbi import FactoredInference, GraphicalModel

        clock = self
        descent, project, chosen = FactoredInference.mirror_descent, GraphicalModel.project, aim.filter_candidates

        def mirror_descent(engine: Any, measurements: Any, total: Any = None, *words: Any, **more: Any) -> Any:
            before = copy.copy(engine)
            start = time.process_time()
            loss = descent(engine, measurements, total, *words, **more)
            # a setup with nothing to descend, which both have
            setup = time.process_time()
            copy.copy(before)._setup(measurements, total)
            setup = time.process_time() - setup
            before.evaluations = engine.evaluations
            clock.instead += setup + clock._descent(before, measurements, total)
            clock.spent += time.process_time() - start
            return loss

        def projected(model: Any, columns: Any) -> Any:
            start = time.process_time()
            found = project(model, columns)
            if len(columns) == 2 and not any(set(columns) <= set(clique) for clique in model.cliques):
                if clock.model is not model:
                    clock.model, begun = model, time.process_time()
                    clock.plain[1](model, columns)
                    clock.each = time.process_time() - begun
                clock.instead += clock.each
            else:
                clock.instead += time.process_time() - start
            clock.spent += time.process_time() - start
            return found

        def filtered(candidates: Any, model: Any, limit: Any) -> Any:
            start = time.process_time()
            found = chosen(candidates, model, limit)
            begun = time.process_time()
            clock.plain[2](model.domain, [*model.cliques, next(iter(candidates))])
            clock.instead += (time.process_time() - begun) * len(candidates)
            clock.spent += time.process_time() - start
            return found

        FactoredInference.mirror_descent, GraphicalModel.project = mirror_descent, projected
        aim.filter_candidates = filtered
