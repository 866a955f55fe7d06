"""An Opacus run counted by our accountants, end to end."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
opacus = pytest.importorskip("opacus")

from opacus.accountants import RDPAccountant  # noqa: E402
from torch import nn  # noqa: E402

from privot import Adjacency, Standing  # noqa: E402
from privot.accounting import PrivacyLossAccountant, RenyiAccountant, WassersteinAccountant, account  # noqa: E402
from privot.errors import DataError  # noqa: E402
from privot.training.opacus_accountant import OpacusAccountant, engine_event, engine_guarantee, register  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def run(engine, steps=12, multiplier=1.1):
    """A few steps of Opacus' own DP-SGD on made-up data."""
    torch.manual_seed(0)
    model = nn.Linear(5, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.randn(200, 5), torch.randint(0, 2, (200,)))
    loader = torch.utils.data.DataLoader(data, batch_size=20)
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=multiplier, max_grad_norm=1.0
    )
    done = 0
    while done < steps:
        for x, y in loader:
            optimizer.zero_grad()
            if len(x):
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                done += 1
            if done == steps:
                break
    return loader


def test_an_engine_counts_with_our_accountant():
    engine = opacus.PrivacyEngine()
    engine.accountant = OpacusAccountant(PrivacyLossAccountant)
    loader = run(engine)
    accountant = engine.accountant
    assert len(accountant) == 12
    assert accountant.history == [(1.1, pytest.approx(loader.sample_rate), 12)]
    event = engine_event(engine)
    guarantee = engine_guarantee(engine, 1e-5)
    assert engine.get_epsilon(1e-5) == pytest.approx(account(event, 1e-5).epsilon(), rel=1e-9)
    assert guarantee.adjacency is Adjacency.ADD_REMOVE
    assert guarantee.standing is Standing.PROVEN
    assert any("Poisson" in a and "Opacus" in a for a in guarantee.assumptions)


def test_an_engine_finds_our_accountant_by_name():
    orders = tuple(sorted({float(a) for a in RDPAccountant.DEFAULT_ALPHAS}))
    register("privot-renyi", lambda: RenyiAccountant(orders))
    register("privot-wasserstein", lambda: WassersteinAccountant(allow_unproven=True))
    engine = opacus.PrivacyEngine(accountant="privot-renyi")
    run(engine)
    theirs = RDPAccountant()
    theirs.history = list(engine.accountant.history)
    assert engine.get_epsilon(1e-5) == pytest.approx(theirs.get_epsilon(1e-5), abs=1e-6)
    unproven = opacus.PrivacyEngine(accountant="privot-wasserstein")
    run(unproven)
    assert unproven.accountant.inner.count(1e-5).standing is Standing.UNPROVEN
    assert unproven.accountant.mechanism() == "privot-wasserstein"


def test_our_events_read_the_history_of_opacus_own_accountant():
    engine = opacus.PrivacyEngine(accountant="rdp")
    run(engine)
    orders = tuple(sorted({float(a) for a in RDPAccountant.DEFAULT_ALPHAS}))
    ours = RenyiAccountant(orders)
    ours.step(engine_event(engine))
    assert ours.epsilon(1e-5) == pytest.approx(engine.get_epsilon(1e-5), abs=1e-6)
    assert engine_guarantee(engine, 1e-5).epsilon() < engine.get_epsilon(1e-5)


def test_state_survives_a_checkpoint():
    one, two = OpacusAccountant(), OpacusAccountant()
    for multiplier in (1.0, 1.0, 2.0):
        one.step(noise_multiplier=multiplier, sample_rate=0.1)
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    assert two.history == [(1.0, 0.1, 2), (2.0, 0.1, 1)]
    assert two.get_epsilon(1e-5) == one.get_epsilon(1e-5)
    two.step(noise_multiplier=1.0, sample_rate=0.1)
    assert two.get_epsilon(1e-5) > one.get_epsilon(1e-5)
    with pytest.raises(ValueError, match="privot"):
        two.load_state_dict(RDPAccountant().state_dict())


def test_an_engine_that_did_nothing_has_no_event():
    with pytest.raises(DataError):
        engine_event(opacus.PrivacyEngine(accountant="rdp"))


def test_numpy_numbers_are_accepted():
    accountant = OpacusAccountant()
    accountant.step(noise_multiplier=float(np.float64(1.0)), sample_rate=0.1)
    assert len(accountant) == 1
