"""Training that is paid block by block: each block of a synthesis is charged before its first release.

The rules of `privot.jobs.blocks` hold. In addition:

  * a block is charged, run, trained on, and a checkpoint written, in that order;
  * after a kill, the block under way is lost: its noise is gone with the process, and none of its steps runs again
    under the same charge;
  * what remains are the blocks not yet charged. The job never runs or charges more than the T steps it was designed
    for, so it ends with fewer trained steps, and with a guarantee of *all* blocks charged, lost ones included.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from privot.errors import BudgetError, ConvergenceError, DataError
from privot.guarantee import Guarantee
from privot.jobs.blocks import all_blocks, check_block, counted_anew, weaker
from privot.synthesis.methods.method import SynthesisRun
from privot.synthesis.neural.generator_training import checkpoint
from privot.synthesis.neural.generator_training.training_state import Progress, TrainingState
from privot.vault.stream import Stream

Trainer = Callable[[TrainingState, Any, Mapping[str, Any]], Callable[[Stream], torch.Tensor]]


def train_blocks(run: SynthesisRun, trainer: Trainer) -> tuple[TrainingState, Guarantee]:
    """Run the blocks that were not charged yet; (the training, the guarantee of all blocks charged).

    The vault is opened, and may refuse, only if something has to be paid.
    """
    design, payments = run.design, run.payments
    count, size = design.blocks()
    charged = payments.charged()
    training, kept, block = _restored(run)
    if charged < kept:
        raise DataError(
            f"The ledger has {charged} charges of the job in {payments.folder} and its checkpoint has {kept}: "
            "resume it with the ledger it was started with."
        )
    if charged > count:
        raise DataError(f"The ledger has {charged} charges of this job, which has {count} blocks: start a new job.")
    if charged == count and block is None:
        raise BudgetError("All blocks of this job are paid for and none of them was kept: start a new job.")
    if block is not None:
        payments.check_blocks(block)
    # steps that were lost are skipped, so that the schedule ends where it was meant to
    training.step = charged * size
    step = trainer(training, design.mechanism, design.rules.options)
    training.generator.train()
    for number in range(charged, count):
        with payments.block(design.mechanism) as stream:
            block = weaker(block, stream.guarantee)
            _train_block(training, size, lambda stream=stream: step(stream), run.progress)  # type: ignore[misc]
            if payments.folder is not None:
                path, paid = payments.folder / checkpoint.NAME, block.to_dict()
                checkpoint.save(training, path, job=payments.name, blocks=number + 1, guarantee=paid)
    training.generator.eval()
    assert block is not None
    return training, all_blocks(block, count)


def _train_block(
    training: TrainingState, size: int, step: Callable[[], torch.Tensor], progress: Progress | None
) -> None:
    """The steps of one block."""
    rules, watched = training.rules, []
    for _ in range(size):
        training.decay_rate()
        watched.append(step())
        training.step += 1
        training.average_in(float(rules.options["average"]))
        # read many at once: reading a number at every step would make the device wait
        if len(watched) == 50 or training.step % size == 0:
            training.losses += [float(v) for v in torch.stack(watched).tolist()]
            watched.clear()
            if not math.isfinite(training.losses[-1]):
                raise ConvergenceError(f"The loss became non-finite (step {training.step}): lower the learning rate.")
            if progress is not None:
                progress(training.step, rules.steps, training.losses[-1])


def _restored(run: SynthesisRun) -> tuple[TrainingState, int, Guarantee | None]:
    """(training, blocks it has seen, the guarantee of one) from the last checkpoint, or from the beginning."""
    design, folder = run.design, run.payments.folder
    path = None if folder is None else folder / checkpoint.NAME
    if path is None or not path.exists():
        return TrainingState.start(design.rules, design.seed, run.device), 0, None
    training = checkpoint.load(path, design.rules, run.device, job=run.payments.name)
    return (training, *read_blocks(checkpoint.load_facts(path), design))


def read_blocks(facts: Mapping[str, Any], design: Any) -> tuple[int, Guarantee]:
    """From the facts of a checkpoint: the blocks it knows, and the guarantee of one, which must be the design's.

    The guarantee is counted anew from its events, and keeps what was assumed about the noise.
    """
    try:
        kept = int(facts["blocks"])
        block = counted_anew(json.dumps(facts["guarantee"]))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"This checkpoint is not of a job that is paid block by block ({type(error).__name__})."
        ) from None
    check_block(block, design.block(design.facts))
    if block.at_delta != design.delta:
        raise DataError("This checkpoint's blocks were counted at another δ than its job's: remove it.")
    return kept, block
