"""A method of another distribution: it runs as every method does, but nothing that it brings can call itself proven."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from privot.errors import UsageError
from privot.guarantee import Standing
from privot.mechanisms.mechanism import Facts
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.design import Design
from privot.synthesis.methods.method import Outcome, SynthesisMethod, SynthesisRun

HOME = __name__.partition(".")[0]


def check_not_proven(name: str, mechanism: Any) -> None:
    """Refuse a mechanism that is not privot's own and states that a theorem covers it.

    privot's own mechanisms carry their proofs and tests; what came with a method of somebody else was seen by nobody
    here, so it states that it is unproven, and whoever uses it allows that.
    """
    made = type(mechanism)
    if made.__module__.partition(".")[0] != HOME and mechanism.standing is Standing.PROVEN:
        raise UsageError(
            f"The mechanism {made.__name__} of the method {name} calls itself proven, which nothing that is plugged in "
            "may do: let its standing be unproven, or use one of privot's own mechanisms."
        )


class OutsideMethod:
    """The protocol of a method, around one of another distribution."""

    def __init__(self, name: str, method: SynthesisMethod) -> None:
        self._name, self._method = name, method
        self.watched = method.watched

    def plan(self, config: SynthesisConfig, facts: Facts) -> Design:
        """What the method plans; refuses a mechanism that calls itself proven."""
        return self._checked(self._method.plan(config, facts))

    def read_design(self, fields: Mapping[str, Any], config: SynthesisConfig, device: str) -> Design:
        """What the method reads back, checked alike."""
        return self._checked(self._method.read_design(fields, config, device))

    def run(self, run: SynthesisRun) -> Outcome:
        """Let the method pay and train; each mechanism that it pays for is checked."""
        return self._method.run(replace(run, payments=cast(Any, _CheckedPayments(self._name, run.payments))))

    def _checked(self, design: Design) -> Design:
        mechanism: Any = getattr(design, "mechanism", None)
        if mechanism is not None:
            check_not_proven(self._name, mechanism)
        return design


class _CheckedPayments:
    """Payments that look at each mechanism before it is charged."""

    def __init__(self, name: str, payments: Any) -> None:
        self._name, self._payments = name, payments

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._payments, verb)

    def release(self, make: Callable[[], Any], *more: Any, **named: Any) -> Any:
        """Pay for the release of what `make` makes."""

        def made() -> Any:
            mechanism = make()
            check_not_proven(self._name, mechanism)
            return mechanism

        return self._payments.release(made, *more, **named)

    def block(self, mechanism: Any, *more: Any) -> Any:
        """Pay for a block of `mechanism`."""
        check_not_proven(self._name, mechanism)
        return self._payments.block(mechanism, *more)
