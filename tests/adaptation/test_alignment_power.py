"""The aligned distance W_q^q of the method sliced: against columns sorted by hand; and which powers are refused."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from privot.adaptation import Sliced  # noqa: E402
from privot.adaptation.adaptation_methods import choose  # noqa: E402
from privot.adaptation.alignment.smoothed_sliced import smoothed  # noqa: E402
from privot.errors import UsageError  # noqa: E402
from privot.mechanisms import RandomProjection  # noqa: E402
from privot.mechanisms.directions import directions_of  # noqa: E402
from privot.vault import Vault  # noqa: E402


class Plain:
    """Networks that change nothing, whose classes are all alike."""

    @staticmethod
    def g(rows):
        return rows

    @staticmethod
    def h(latent):
        return torch.zeros(len(latent), 2)


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
def test_the_loss_is_the_power_that_is_written_down(power):
    x = np.random.default_rng(0).normal(size=(12, 3))
    vault = Vault(x, clip=0.7, adjacency="replace-one", budget=(50.0, 1e-5))
    release = vault.release(RandomProjection(slices=5, sigma=0.6), purpose="test")
    random = torch.Generator().manual_seed(3)
    loss, before = smoothed(Plain(), release, 8, torch.tensor(2.0), random, power)
    again = torch.Generator().manual_seed(3)
    before()
    rows = torch.randn(8, 3, generator=torch.Generator().manual_seed(9))
    found = float(loss(rows, torch.zeros(8, dtype=torch.long)))
    fuzz = torch.zeros(8, 5).normal_(generator=again)
    shown = np.asarray(release.value)[torch.randint(12, (8,), generator=again).numpy()]
    clipped = rows.numpy() * np.minimum(1.0, 0.7 / np.linalg.norm(rows.numpy(), axis=1, keepdims=True))
    ours = clipped @ directions_of(release.public) + 0.6 * fuzz.numpy()
    gaps = np.abs(np.sort(ours, axis=0) - np.sort(shown, axis=0)) ** power
    # alike classes cost ln 2; the distance is in units of C/√d
    assert found == pytest.approx(np.log(2.0) + 2.0 * gaps.mean() * (np.sqrt(3) / 0.7) ** power, rel=1e-5)


def test_powers_out_of_range_are_refused_and_old_settings_are_read():
    for wrong in (0.5, 11.0):
        with pytest.raises(UsageError):
            Sliced(power=wrong)
    written = choose("sliced", False, 100).to_dict() | {"power": 3.0}
    assert Sliced.from_dict(written).power == 3.0
    del written["power"]
    # and every method once had the same settings
    assert Sliced.from_dict({**written, "frequencies": 20, "network": "features"}).power == 2.0
