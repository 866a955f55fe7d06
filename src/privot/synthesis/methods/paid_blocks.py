"""Training that pays as it goes: a job is cut into blocks of steps, each block charged before its first release.

Equal steps compose to the same ε however they are grouped, so B charges of T/B steps cost what one of T costs. The
ledger is then the durable record of what may have left the vault, and a resumed job trusts nothing else:

  * a block is charged, run, trained on, and a checkpoint written, in that order;
  * after a kill, every block the ledger knows counts as released, whether or not its steps were used. The block under
    way is lost: its noise is gone with the process, and none of its steps runs again under the same charge;
  * what remains are the blocks not yet charged. The job never runs or charges more than the T steps it was designed
    for, so it ends with fewer trained steps, and with a guarantee of *all* blocks charged, lost ones included.

A labeller, where one is asked for, is a release of its own after the last block (`labelling`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from privot.accounting import read_guarantee
from privot.accounting.events import Composed, event_from_dict, leaves
from privot.common.interruption import finishing
from privot.errors import BudgetError, ConvergenceError, DataError
from privot.guarantee import Guarantee, Standing
from privot.jobs.job import Job
from privot.synthesis import checkpoint
from privot.synthesis.design import SynthesisDesign, strategy_of
from privot.synthesis.training_state import Progress, TrainingState
from privot.vault import Vault

Keep = Callable[[TrainingState, int, Guarantee], None]
"""(training, blocks charged so far, the guarantee of one block): called when a block is done."""


def train_blocks(
    vault: Callable[[], Vault],
    design: SynthesisDesign,
    *,
    purpose: str,
    training: TrainingState,
    charged: int = 0,
    block: Guarantee | None = None,
    allow_unproven: bool = False,
    progress: Progress | None = None,
    keep: Keep | None = None,
) -> tuple[TrainingState, Guarantee]:
    """Run the blocks that were not `charged` yet; (the training, the guarantee of all blocks charged).

    `block` is the guarantee of one block where earlier ones ran in another process. `vault` is called only if
    something has to be paid.
    """
    rules = design.rules
    blocks, size = design.blocks()
    if charged > blocks:
        raise DataError(f"The ledger knows {charged} charges of this job, which has {blocks} blocks: start a new job.")
    if charged == blocks and block is None:
        raise BudgetError("All blocks of this job are paid for and none of them was kept: start a new job.")
    # steps that were lost are skipped, so that the schedule ends where it was meant to
    training.step = charged * size
    opened = vault() if charged < blocks else None
    step = strategy_of(design.method).trainer(training, design.mechanism, rules.options)
    training.generator.train()
    for number in range(charged, blocks):
        assert opened is not None
        # a block that is paid for runs to its end: its noise would be lost with the rest of it
        with finishing():
            stream = opened.stream(design.mechanism, purpose=purpose, delta=design.delta, allow_unproven=allow_unproven)
            block = weaker(block, stream.guarantee)
            watched: list[torch.Tensor] = []
            for _ in range(size):
                training.decay_rate()
                watched.append(step(stream))
                training.step += 1
                training.average_in(float(rules.options["average"]))
                # read in bunches: a number asked for at every step would make the device wait
                if len(watched) == 50 or training.step % size == 0:
                    training.losses += [float(v) for v in torch.stack(watched).tolist()]
                    watched.clear()
                    if not math.isfinite(training.losses[-1]):
                        raise ConvergenceError(
                            f"The loss became non-finite (step {training.step}): lower the learning rate."
                        )
                    if progress is not None:
                        progress(training.step, rules.steps, training.losses[-1])
            if keep is not None:
                keep(training, number + 1, block)
    training.generator.eval()
    assert block is not None
    paid = max(charged, blocks)
    return training, block if paid == 1 else block.compose(*[block] * (paid - 1))


def weaker(earlier: Guarantee | None, now: Guarantee) -> Guarantee:
    """What can be said of every block where some ran earlier, perhaps on other noise: the weaker standing, all assumed.

    Both are of the same steps (`read_blocks`).
    """
    if earlier is None:
        return now
    held = earlier if Standing.weakest([earlier.standing, now.standing]) is earlier.standing else now
    return replace(held, assumptions=tuple(dict.fromkeys((*earlier.assumptions, *now.assumptions))))


def run_job(
    job: Job,
    design: SynthesisDesign,
    vault: Callable[[], Vault],
    spent: Callable[[str], int],
    device: str,
    progress: Progress | None,
    allow_unproven: bool,
) -> tuple[TrainingState, Guarantee]:
    """The blocks of `job` that nobody has paid for yet, from the last checkpoint; `spent`(mark) counts its charges.

    `vault` is called, and may refuse, only if something has to be paid. The caller keeps other processes out.
    """
    path, charged = job.folder / checkpoint.NAME, int(spent(job.mark))
    block, kept = None, 0
    if path.exists():
        training = checkpoint.load(path, design.rules, device, job=job.name)
        kept, block = read_blocks(checkpoint.load_facts(path), design)
    else:
        training = TrainingState.start(design.rules, design.seed, device)
    if charged < kept:
        raise DataError(
            f"The ledger knows {charged} charges of the job in {job.folder} and its checkpoint {kept}: "
            "resume it with the ledger it was started with."
        )

    def keep(training: TrainingState, blocks: int, block: Guarantee) -> None:
        checkpoint.save(training, path, job=job.name, blocks=blocks, guarantee=block.to_dict())

    return train_blocks(
        vault,
        design,
        purpose=f"synthesis by {design.method} {job.mark}",
        training=training,
        charged=charged,
        block=block,
        allow_unproven=allow_unproven,
        progress=progress,
        keep=keep,
    )


def read_blocks(facts: Mapping[str, Any], design: SynthesisDesign) -> tuple[int, Guarantee]:
    """From the facts of a checkpoint: the blocks it knows, and the guarantee of one, which must be the design's.

    The guarantee is counted anew from its events, and keeps what was assumed about the noise.
    """
    try:
        fields = facts["guarantee"]
        kept = int(facts["blocks"])
        counted = read_guarantee(json.dumps(fields))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"This checkpoint is not of a job that pays as it goes ({type(error).__name__}).") from None
    paid = leaves(Composed(tuple(event_from_dict(e) for e in counted.events)))
    if paid != leaves(design.block(design.facts)) or counted.at_delta != design.delta:
        raise DataError("This checkpoint's blocks cost something else than those of its job: remove it.")
    return kept, counted
