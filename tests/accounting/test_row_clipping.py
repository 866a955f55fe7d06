"""Gradients with clipped rows: DP-Sinkhorn's Theorem 4.1 against its formula, 40 digits and another accountant."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant

from privot.accounting import gradient, rdp
from privot.errors import UsageError


@pytest.mark.parametrize("rows", [1, 50])
def test_clipped_rows_cost_what_theorem_4_1_of_dp_sinkhorn_states(rows):
    clip, multiplier = 0.3, 8.0 * rows**0.5
    plan = gradient(adjacency="add-remove", delta=1e-5, sigma=clip * multiplier, clip=clip, clipping="row", rows=rows)
    assert plan.sensitivity == pytest.approx(2.0 * clip * rows**0.5, rel=1e-12)
    # (α, 2αn/s²)-RDP of one update: the very curve
    orders = np.array([2.0, 5.0, 32.0])
    assert rdp.curve(plan.event, orders) == pytest.approx(2.0 * orders * rows / multiplier**2, rel=1e-9)
    # and the exact ε of the Gaussian mechanism, in 40 digits
    with mpmath.workdps(40):
        shift = mpmath.mpf(2) * mpmath.sqrt(rows) / multiplier
        epsilon = mpmath.mpf(plan.guarantee.epsilon())
        paid = mpmath.ncdf(shift / 2 - epsilon / shift) - mpmath.e**epsilon * mpmath.ncdf(-shift / 2 - epsilon / shift)
    assert float(paid) == pytest.approx(1e-5, rel=1e-6)
    # with subsampling, against an independent accountant
    sampled = gradient(
        adjacency="add-remove", delta=1e-5, sigma=clip * multiplier, clip=clip, clipping="row", rows=rows,
        records=1000, batch=50, steps=100,
    )  # fmt: skip
    event = dp_event.SelfComposedDpEvent(
        dp_event.PoissonSampledDpEvent(0.05, dp_event.GaussianDpEvent(multiplier / (2.0 * rows**0.5))), 100
    )
    other = pld_privacy_accountant.PLDAccountant(value_discretization_interval=1e-3)
    other.compose(event)
    assert sampled.guarantee.epsilon() == pytest.approx(other.get_epsilon(1e-5), rel=0.01)


def test_the_number_of_rows_belongs_to_clipping_by_row():
    common = {"adjacency": "add-remove", "delta": 1e-5, "sigma": 1.0}
    wrongs = (
        {"clipping": "row"},
        {"clipping": "matrix", "rows": 3},
        {"clipping": "row", "rows": 0},
        {"clipping": "all"},
    )
    for wrong in wrongs:
        with pytest.raises(UsageError):
            gradient(**common, **wrong)
