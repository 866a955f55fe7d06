"""Parameters whose kinds are declared beside a function: what is of another kind is refused in one sentence.

A check is made before the body runs, so a refusal names the parameter, what it takes and what it got, and not whatever
the body would have tried with it. A declaration says what a value *is*; which values are meant, the body says.
"""

from __future__ import annotations

import inspect
import os
import sys
from abc import ABC
from collections.abc import Callable, Mapping
from functools import wraps
from numbers import Integral, Real
from typing import Any, TypeVar

from privot.errors import UsageError, brief

Declared = TypeVar("Declared", bound=Callable[..., Any])


class _Array(ABC):  # noqa: B024 (what has a shape is one)
    """What NumPy and PyTorch call an array: it has a shape and a type of numbers."""

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return hasattr(other, "shape") and hasattr(other, "dtype")


class _Number(ABC):  # noqa: B024 (a register of classes)
    """A real number, of Python or of NumPy; True and False are none."""

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return issubclass(other, Real) and not issubclass(other, bool)


class _Whole(ABC):  # noqa: B024 (a register of classes)
    """A whole number, of Python or of NumPy; True and False are none."""

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return issubclass(other, Integral) and not issubclass(other, bool)


class _FeatureMap(ABC):  # noqa: B024 (what has features is one)
    """What has `features` of records of `dim` columns. Written as a protocol, on a higher floor."""

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return callable(getattr(other, "features", None))


class _Mechanism(ABC):  # noqa: B024 (what has a cost is one)
    """What a vault can run: it says what it costs, as an event. Written as a protocol, on a higher floor."""

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return callable(getattr(other, "event", None))


_PLAIN: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "path": ("a path, as a string or a Path", (str, os.PathLike)),
    "mapping": ("a mapping, such as a dictionary", Mapping),
    "array": ("an array of numbers", (list, tuple, _Array)),
    "list": ("a list or tuple", (list, tuple)),
    "tuple": ("a tuple", tuple),
    "word": ("a text", str),
    "number": ("a number", _Number),
    "whole number": ("a whole number", _Whole),
    "feature map": ("a feature map, which has features(x)", _FeatureMap),
    "mechanism": ("a mechanism, such as Count(…) or MeanEmbedding(…)", _Mechanism),
    "bytes": ("bytes", (bytes, bytearray, memoryview)),
}


def declared(**kinds: str) -> Callable[[Declared], Declared]:
    """Refuse arguments that are not of the kinds that are declared, before the function or the class's `__init__` runs.

    Parameters
    ----------
    **kinds
        By parameter: "path", "mapping", "array", "list", "tuple", "word", "bytes", "number", "whole number",
        "mechanism", "feature map", or a class as "package.module:Class", which is not imported for this. One of several
        stands between "|"; after a "?", None is accepted too.

    Examples
    --------
    >>> @declared(path="path")
    ... def size(path: str) -> int:
    ...     return len(path)
    >>> size(3)
    Traceback (most recent call last):
        ...
    privot.errors.UsageError: path must be a path, as a string or a Path, got 3.
    """

    def of(function: Any) -> Any:
        if inspect.isclass(function):
            function.__init__ = of(function.__init__)  # type: ignore[method-assign]
            return function
        names = list(inspect.signature(function).parameters)
        places = [(names.index(name), name, kind) for name, kind in kinds.items()]

        @wraps(function)
        def checked(*args: Any, **more: Any) -> Any:
            for place, name, kind in places:
                if name in more or place < len(args):
                    _check(name, more[name] if name in more else args[place], kind)
            return function(*args, **more)

        return checked

    return of


def _check(name: str, value: Any, kind: str) -> None:
    kind, optional = kind.removeprefix("?"), kind.startswith("?")
    if optional and value is None:
        return
    known = [_known(one) for one in kind.split("|")]
    if not any(isinstance(value, of) for _, of in known):
        raise UsageError(f"{name} must be {' or '.join(words for words, _ in known)}, got {brief(value)}.")


def _known(kind: str) -> tuple[str, type | tuple[type, ...]]:
    """A kind in words, and the classes that are of it."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    module, _, name = kind.partition(":")
    # what is not imported yet has no instances
    held = getattr(sys.modules[module], name) if module in sys.modules else ()
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}", held
