"""The Wasserstein accountant's budgets at the published settings, beside what an attack measures.

σ = 0.01·C, batches of 1024 of 60,000 records, μ = 16, β = 32, δ = 1e-10, add-remove; what is printed in Table 2 for
MNIST is held against the same run. The attack is one record whose gradient is clipped to C, at every step.
"""

from __future__ import annotations

import argparse

from privot.accounting import account
from privot.accounting.events import Gaussian, Repeated, Sampled
from privot.accounting.sampling import Poisson
from privot.audit import Claim, audit
from privot.audit.attacks.dp_sgd_attack import DPSGDAttack
from privot.audit.attacks.stated_claim import StatedClaim, wasserstein_claim
from privot.guarantee import Adjacency, Standing

SIGMA, DELTA, RATE = 0.01, 1e-10, 1024 / 60_000
PRINTED = 0.76


def main() -> None:
    """One line for each length of training."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    event = Sampled(Gaussian(SIGMA, 1.0, Adjacency.ADD_REMOVE), Poisson(RATE))
    print("| steps | claim | claimed ε | standing | measured ε ≥ (95 %) | refuted | composed losses (proven) |")
    print("|---|---|---|---|---|---|---|")
    for steps, trials in ((1, 1_000_000), (59, 100_000), (938, 10_000)):
        attack = DPSGDAttack(SIGMA, DELTA, Poisson(RATE), steps=steps)
        proven = account(event if steps == 1 else Repeated(event, steps), DELTA).epsilon()
        claims = [("accountant, closed form", wasserstein_claim(event, steps, DELTA))]
        if steps == 938:
            printed = Claim(PRINTED, DELTA, Adjacency.ADD_REMOVE, Standing.UNPROVEN, "as published")
            claims.append(("Table 2, MNIST, as printed", printed))
        for name, claim in claims:
            found = audit(StatedClaim(attack, claim, name), runs=0, trials=trials)
            print(
                f"| {steps} | {name} | {claim.epsilon:.3g} | {claim.standing} | {found.epsilon:.3g} | "
                f"{'yes' if found.refuted else 'no'} | {proven:.4g} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
