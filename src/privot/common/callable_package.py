"""Lets a package be called like the function of the same name that it exports; it knows nothing of either.

`from privot import audit` can mean the package `privot.audit` or the function in it, and Python gives the package. The
language allows a module to have a class of its own ("Customizing module attribute access" in its reference), and that
class may define a call. Type checkers do not see it: typed code calls `privot.audit.audit`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def make_callable(package: str, function: Callable[..., Any]) -> None:
    """Make the imported package of this name callable: its call is a call of `function`.

    Parameters
    ----------
    package
        The full name of a package that is being imported or was imported, such as "privot.audit".
    function
        What a call runs, with the arguments that it is given.

    Raises
    ------
    KeyError
        If no package of this name was imported.

    >>> from types import ModuleType
    >>> sys.modules["doubling"] = ModuleType("doubling")
    >>> make_callable("doubling", lambda n: 2 * n)
    >>> sys.modules.pop("doubling")(21)
    42
    """

    class CallablePackage(ModuleType):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    CallablePackage.__call__.__doc__ = function.__doc__
    sys.modules[package].__class__ = CallablePackage
