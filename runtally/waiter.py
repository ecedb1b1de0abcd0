"""Who waits for a result: a task, by a future, or functions that are called with it where a task would cost more."""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

Result = TypeVar("Result")
Result_contra = TypeVar("Result_contra", contravariant=True)


class Waiter(Protocol[Result_contra]):
    """What receives a result or an error once, such as a future."""

    def done(self) -> bool:
        """Return whether nobody waits any longer."""

    def set_result(self, result: Result_contra, /) -> None:
        """Receive the result."""

    def set_exception(self, error: Exception, /) -> None:
        """Receive the error in its place."""


class Then(Generic[Result]):
    """Passes a result on to a function, and an error, also of that function, to who waits for what comes of it."""

    __slots__ = ("_go_on", "_waiting")

    def __init__(self, go_on: Callable[[Result], None], waiting: Waiter[Any]) -> None:
        self._go_on, self._waiting = go_on, waiting

    def done(self) -> bool:
        return self._waiting.done()

    def set_result(self, result: Result, /) -> None:
        try:
            self._go_on(result)
        except Exception as error:  # noqa: BLE001  # It reaches who waits, as from a task.
            self._waiting.set_exception(error)

    def set_exception(self, error: Exception, /) -> None:
        self._waiting.set_exception(error)
