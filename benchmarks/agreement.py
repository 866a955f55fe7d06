"""The same histories counted by privot, Opacus and dp-accounting: ε at δ = 1e-5, add-remove, and the differences."""

from __future__ import annotations

import argparse
import warnings

from privot.accounting import PrivacyLossAccountant, RenyiAccountant, history_event

HISTORIES = (
    [(1.0, 0.01, 1000)],
    [(0.8, 0.02, 300), (1.5, 0.05, 200)],
    [(2.0, 0.001, 5000)],
    [(4.0, 0.1, 50)],
)
DELTA = 1e-5


def composed_by_dp_accounting(history: list[tuple[float, float, int]], interval: float) -> float:
    """ε of dp-accounting's PLD on a grid of `interval`."""
    import dp_accounting
    from dp_accounting import pld

    accountant = pld.PLDAccountant(value_discretization_interval=interval)
    for multiplier, rate, times in history:
        accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(multiplier)), times)
    return float(accountant.get_epsilon(DELTA))


def main() -> None:
    """Print one line a history."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    warnings.simplefilter("ignore")
    from opacus.accountants import PRVAccountant, RDPAccountant

    orders = tuple(sorted({float(a) for a in RDPAccountant.DEFAULT_ALPHAS}))
    for history in HISTORIES:
        event = history_event(history)
        theirs, prv = RDPAccountant(), PRVAccountant()
        theirs.history, prv.history = list(history), list(history)
        ours, fine, usual = RenyiAccountant(orders), PrivacyLossAccountant(fine=0.01), PrivacyLossAccountant()
        for accountant in (ours, fine, usual):
            accountant.step(event)
        rdp, pld = theirs.get_epsilon(DELTA), composed_by_dp_accounting(history, 3e-6)
        print(history)
        print(f"  Rényi {ours.epsilon(DELTA):.9f}, Opacus {rdp:.9f}, difference {ours.epsilon(DELTA) - rdp:+.1e}")
        print(
            f"  losses {fine.epsilon(DELTA):.9f}, dp-accounting {pld:.9f}, difference {fine.epsilon(DELTA) - pld:+.1e}"
        )
        print(
            f"  losses on the usual cells {usual.epsilon(DELTA):.9f}; Opacus PRV {prv.get_epsilon(DELTA):.6f} (± 0.01)"
        )


if __name__ == "__main__":
    main()
