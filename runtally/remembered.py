"""Remember what functions of names return, without keeping the long names that anybody may send."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

LONGEST = 256
"""The most characters of the arguments of a call, together, that is remembered."""

_Result = TypeVar("_Result")


def remembered(most: int) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]:
    """Make a function of texts, any of which may be None, remember its `most` last calls with short texts."""

    def of(function: Callable[..., _Result]) -> Callable[..., _Result]:
        kept = lru_cache(most)(function)

        def call(*texts: str | None) -> _Result:
            return (kept if sum(len(text) for text in texts if text) <= LONGEST else function)(*texts)

        call.__doc__ = function.__doc__
        return call

    return of
