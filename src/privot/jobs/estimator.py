"""What every estimator here says of itself: ε and δ always, the rest where it is not the default; it holds no data."""

from __future__ import annotations

import inspect

from sklearn.base import BaseEstimator

from privot.errors import brief

_ALWAYS = ("epsilon", "delta")


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator that never leaves out what it costs, not even where that is the default."""

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # the argument is scikit-learn's
        usual = inspect.signature(type(self).__init__).parameters
        # compared as texts, as scikit-learn does: values may be arrays
        said = [
            f"{name}={brief(getattr(self, name, None))}"
            for name, known in usual.items()
            if name != "self" and (name in _ALWAYS or repr(getattr(self, name, None)) != repr(known.default))
        ]
        text = f"{type(self).__name__}({', '.join(said)})"
        return text if len(text) <= N_CHAR_MAX else text[: N_CHAR_MAX - 1] + "…"
