"""privot's accountants for Opacus: a `PrivacyEngine` counts with them, and its history becomes events.

Opacus gives an accountant the noise multiplier and the sampling rate of every step, and no record. A step is then
Sampled(Gaussian(σ = multiplier, Δ = 1, add-remove), Poisson(rate)), in units of the clipping bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from privot.accounting.accountants.opacus_history import history_event, history_step
from privot.accounting.accountants.pld_accountant import PrivacyLossAccountant
from privot.accounting.accountants.running_accountant import RunningAccountant
from privot.accounting.events import Event
from privot.common.extras import needing
from privot.guarantee import Guarantee

with needing("Counting for Opacus needs", "opacus"):
    from opacus.accountants import IAccountant
    from opacus.accountants.registry import register_accountant


class OpacusAccountant(IAccountant):  # type: ignore[misc]  # Opacus has no types
    """One of privot's accountants behind Opacus' interface; by default composed privacy losses.

    Opacus passes no gradients, so the Wasserstein accountant counts in closed form and the Bayesian one refuses.

    Use it as `engine.accountant = OpacusAccountant(…)`, or by name after `register`.
    """

    def __init__(self, make: Callable[[], RunningAccountant] = PrivacyLossAccountant) -> None:
        super().__init__()
        self.history: list[tuple[float, float, int]] = []
        self._make = make
        self.inner = make()

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """One step, as Opacus reports it."""
        self.inner.step(history_step(noise_multiplier, sample_rate))
        if self.history and self.history[-1][:2] == (noise_multiplier, sample_rate):
            self.history[-1] = (noise_multiplier, sample_rate, self.history[-1][2] + 1)
        else:
            self.history.append((noise_multiplier, sample_rate, 1))

    def get_epsilon(self, delta: float, *_: Any, **__: Any) -> float:
        """ε at `delta`, with the standing of the inner accountant: see `inner.count(delta)`."""
        return self.inner.epsilon(delta)

    def __len__(self) -> int:
        return self.inner.steps

    @classmethod
    def mechanism(cls) -> str:
        """Its name in Opacus."""
        return "privot"

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Resume from `state_dict`: ε is recomputed from the history, and no stored ε is used."""
        super().load_state_dict(state_dict)
        self.history = [(float(m), float(q), int(n)) for m, q, n in self.history]
        self.inner = self._make()
        if self.history:
            self.inner.step(history_event(self.history))


def register(name: str, make: Callable[[], RunningAccountant]) -> None:
    """Let `PrivacyEngine(accountant=name)` count with `make()`.

    >>> register("privot-losses", PrivacyLossAccountant)
    """

    class Named(OpacusAccountant):
        def __init__(self) -> None:
            super().__init__(make)

        @classmethod
        def mechanism(cls) -> str:
            return name

    register_accountant(name, Named, force=True)


def engine_event(engine: Any) -> Event:
    """All steps of an Opacus `PrivacyEngine` (or its accountant) so far, as one event; see `history_event`."""
    return history_event(getattr(engine, "accountant", engine).history)


def engine_guarantee(engine: Any, delta: float) -> Guarantee:
    """The guarantee of all steps of an engine so far, with the assumption that its history cannot show."""
    from dataclasses import replace

    from privot.accounting import account
    from privot.accounting.accountants.opacus_history import ASSUMPTION

    found = account(engine_event(engine), delta)
    return replace(found, assumptions=(*found.assumptions, ASSUMPTION))
