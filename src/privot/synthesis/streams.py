"""Training that pays as it goes: a job is cut into blocks of steps, each block charged before its first release.

Equal steps compose to the same ε however they are grouped, so B charges of T/B steps cost what one of T costs. The
ledger is then the durable record of what may have left the vault, and a resumed job trusts nothing else:

  * a block is charged, run, trained on, and a checkpoint written, in that order;
  * after a kill, every block the ledger knows counts as released, whether or not its steps were used. The block under
    way is lost: its noise is gone with the process, and none of its steps runs again under the same charge;
  * what remains are the blocks not yet charged. The job never runs or charges more than the T steps it was designed
    for, so it ends with fewer trained steps, and with a guarantee of *all* blocks charged, lost ones included.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import torch

from privot.accounting import read_guarantee
from privot.errors import BudgetError, ConvergenceError, DataError
from privot.guarantee import Guarantee
from privot.mechanisms.mechanism import Facts, Mechanism
from privot.synthesis import checkpoint
from privot.synthesis.job import Job
from privot.synthesis.rules import Problem, Rules
from privot.synthesis.training import Progress, Training
from privot.vault import Stream, Vault

if TYPE_CHECKING:
    from privot.synthesis.design import Design

Keep = Callable[[Training, int, Guarantee], None]
"""(training, blocks charged so far, the guarantee of one block): called when a block is done."""


class Strategy(Protocol):
    """A way to train on a stream of releases."""

    def design(
        self,
        problem: Problem,
        facts: Facts,
        terms: tuple[float, float],
        span: tuple[Any, Any],
        given: Mapping[str, Any],
    ) -> tuple[Mechanism, Rules]:
        """The mechanism of one *block* and the rules, for (ε, δ) and the public range [low, high]."""
        ...

    def write(self, mechanism: Any) -> dict[str, Any]:
        """A mechanism as plain JSON types."""
        ...

    def read(self, fields: Mapping[str, Any], device: str) -> Mechanism:
        """The mechanism that `write` wrote."""
        ...

    def trainer(self, training: Training, design: Design) -> Callable[[Stream], torch.Tensor]:
        """Takes one release from a stream, trains on it and answers with a public number to watch."""
        ...


def train_blocks(
    vault: Callable[[], Vault],
    design: Design,
    strategy: Strategy,
    *,
    purpose: str,
    training: Training,
    charged: int = 0,
    block: Guarantee | None = None,
    progress: Progress | None = None,
    keep: Keep | None = None,
) -> tuple[Training, Guarantee]:
    """Run the blocks that were not `charged` yet; (the training, the guarantee of all blocks charged).

    `block` is the guarantee of one block where earlier ones ran in another process. `vault` is called only if
    something has to be paid.
    """
    rules = design.rules
    blocks, size = int(rules.options["blocks"]), design.mechanism.steps
    if blocks * size != rules.steps or charged > blocks:
        raise DataError("This job's blocks do not fit its steps.")
    if charged == blocks and block is None:
        raise BudgetError("All blocks of this job are paid for and none of them was kept: start a new job.")
    # steps that were lost are skipped, so that the schedule ends where it was meant to
    training.step = charged * size
    opened = vault() if charged < blocks else None
    step = strategy.trainer(training, design)
    training.generator.train()
    for number in range(charged, blocks):
        assert opened is not None
        stream = opened.stream(design.mechanism, purpose=purpose, delta=design.delta)
        block = stream.guarantee
        watched: list[torch.Tensor] = []
        for _ in range(size):
            _set_rate(training)
            watched.append(step(stream))
            training.step += 1
            training.average_in(float(rules.options["average"]))
            # read in bunches: a number asked for at every step would make the device wait
            if len(watched) == 50 or training.step % size == 0:
                training.losses += [float(v) for v in torch.stack(watched).tolist()]
                watched.clear()
                if not math.isfinite(training.losses[-1]):
                    raise ConvergenceError(
                        f"Training left the numbers at step {training.step}: lower the learning rate."
                    )
                if progress is not None:
                    progress(training.step, rules.steps, training.losses[-1])
        if keep is not None:
            keep(training, number + 1, block)
    training.generator.eval()
    assert block is not None
    paid = max(charged, blocks)
    return training, block if paid == 1 else block.compose(*[block] * (paid - 1))


def _set_rate(training: Training) -> None:
    """A cosine from the learning rate to zero."""
    share = training.step / training.rules.steps
    for group in training.optimizer.param_groups:
        group["lr"] = training.rules.learning_rate * 0.5 * (1.0 + math.cos(math.pi * share))


def run_job(
    job: Job,
    design: Design,
    strategy: Strategy,
    vault: Callable[[], Vault],
    spent: Callable[[str], int],
    device: str,
    progress: Progress | None,
) -> tuple[Training, Guarantee]:
    """The blocks of `job` that nobody has paid for yet, from the last checkpoint; `spent`(mark) counts its charges."""
    path, charged = job.folder / checkpoint.NAME, int(spent(job.mark))
    block, kept = None, 0
    if path.exists():
        training = checkpoint.load(path, design.rules, device)
        kept, block = read_blocks(checkpoint.load_facts(path))
    else:
        training = Training.start(design.rules, design.seed, device)
    if charged < kept:
        raise DataError(
            f"The ledger knows {charged} charges of the job in {job.folder} and its checkpoint {kept}: "
            "resume it with the ledger it was started with."
        )
    return train_blocks(
        vault,
        design,
        strategy,
        purpose=f"synthesis by {design.method} {job.mark}",
        training=training,
        charged=charged,
        block=block,
        progress=progress,
        keep=lambda t, blocks, g: checkpoint.save(t, path, blocks=blocks, guarantee=g.to_dict()),
    )


def read_blocks(facts: Mapping[str, Any]) -> tuple[int, Guarantee]:
    """From the facts of a checkpoint: the blocks it knows, and the guarantee of one.

    The guarantee is counted anew from its events, and keeps what was assumed about the noise.
    """
    try:
        fields = facts["guarantee"]
        kept = int(facts["blocks"])
        stated, counted = Guarantee.from_dict(fields), read_guarantee(json.dumps(fields))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"This checkpoint is not of a job that pays as it goes ({type(error).__name__}).") from None
    return kept, replace(counted, assumptions=tuple(dict.fromkeys((*counted.assumptions, *stated.assumptions))))
