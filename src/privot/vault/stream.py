"""The releases of a charge of many steps, each of which runs once; it holds no record itself."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from privot.errors import BudgetError, UsageError
from privot.guarantee import Guarantee
from privot.release import Release


class Sealed:
    """Cannot be copied, pickled or turned into its parts, and shows nothing of what it holds."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise UsageError(f"A {type(self).__name__.strip('_').lower()} cannot be copied or pickled.")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self.__reduce__()

    def __getstate__(self) -> NoReturn:
        self.__reduce__()

    def __repr__(self) -> str:
        return f"<{type(self).__name__.strip('_')}>"


class Stream(Sealed):
    """The releases of one charge, each once: it cannot be rewound, copied or shared with a forked process.

    Every release carries the guarantee of the *whole* stream. A mechanism without queries is read like an iterator.
    One with public queries is read by `answer(query)`, and each query may depend on all earlier releases.
    """

    __slots__ = ("__check", "__guarantee", "__lock", "__next", "__process", "__run", "__steps")

    def __init__(
        self,
        run: Callable[[int, Any], Release],
        guarantee: Guarantee,
        steps: int,
        check: Callable[[Any], Any] | None = None,
    ) -> None:
        self.__guarantee, self.__steps = guarantee, steps
        self.__run, self.__next, self.__check = run, 0, check
        self.__lock, self.__process = threading.Lock(), os.getpid()

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the whole stream."""
        return self.__guarantee

    @property
    def steps(self) -> int:
        """How many releases were paid for."""
        return self.__steps

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Release:
        if self.__check is not None:
            raise UsageError("This mechanism answers queries: use answer(query).")
        step = self.__take()
        if step is None:
            raise StopIteration
        return self.__run(step, None)

    def answer(self, query: Any) -> Release:
        """The answer to a public query, which uses up one step; a query that cannot be answered uses up none."""
        if self.__check is None:
            raise UsageError("This mechanism takes no queries: read the stream like an iterator.")
        # the checked copy is answered, which no code outside can change or watch
        query = self.__check(query)
        step = self.__take()
        if step is None:
            raise BudgetError(f"All {self.__steps} steps that were paid for are used up: charge a new stream.")
        return self.__run(step, query)

    def __take(self) -> int | None:
        """The number of the next step, handed out once; None when all are used up."""
        if os.getpid() != self.__process:
            raise BudgetError("A forked process cannot use up a stream that its parent paid for: charge a new one.")
        with self.__lock:
            step = self.__next
            if step >= self.__steps:
                return None
            # counted before it runs: a step that fails is not tried again with the same charge
            self.__next += 1
        return step
