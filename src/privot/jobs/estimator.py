"""The base class of privot's estimators, and the error of one that is not fitted; it holds no data."""

from __future__ import annotations

import inspect

from sklearn import exceptions
from sklearn.base import BaseEstimator

from privot.common.html_facts import html_facts
from privot.errors import UsageError, brief

_ALWAYS = ("epsilon", "delta")


class NotFittedError(UsageError, exceptions.NotFittedError):  # type: ignore[misc]
    """An estimator was used before `fit` or `load`.

    It is scikit-learn's NotFittedError too, and so an AttributeError: `hasattr(estimator, "guarantee_")` is False.
    """


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator whose `repr` always shows ε and δ; other parameters show where they differ."""

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # the argument is scikit-learn's
        usual = inspect.signature(type(self).__init__).parameters
        # compared as texts, as scikit-learn does: values may be arrays
        shown = [
            f"{name}={brief(getattr(self, name, None))}"
            for name, known in usual.items()
            if name != "self" and (name in _ALWAYS or repr(getattr(self, name, None)) != repr(known.default))
        ]
        text = f"{type(self).__name__}({', '.join(shown)})"
        return text if len(text) <= N_CHAR_MAX else text[: N_CHAR_MAX - 1] + "…"

    def _repr_html_(self) -> str:
        guarantee = getattr(self, "guarantee_", None)
        facts: list[tuple[str, object]] = [("parameters", repr(self))]
        if guarantee is None:
            asked = f"not fitted; asked for: ε = {brief(self.epsilon)} at δ = {brief(self.delta)}"
            facts.append(("privacy", f"{asked}, under the vault's adjacency, per record or per the vault's unit"))
        else:
            facts += guarantee.facts()
        return html_facts(type(self).__name__, facts)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        # scikit-learn's own would show its diagram of parameters, and no guarantee
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
