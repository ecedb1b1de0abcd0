"""One call of a model, timed: what `run` gives, and what instrumentation makes of each call of an SDK."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Callable, Optional

from runtally_client import _context
from runtally_client._usage import tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    Begin = Callable[[Optional[str], Optional[str]], "Call"]

log = logging.getLogger("runtally")

_outer: ContextVar[Call | None] = ContextVar("runtally_call", default=None)


def outer_call() -> Call | None:
    """Return the call that is already being recorded around the caller: the outermost counts, those within it do not."""
    call = _outer.get()
    return call if call and not call.is_over else None


class Call:
    """A call that has begun. It is recorded once, when it ends; none of its methods raises anything into the caller."""

    def __init__(
        self, record: Callable[[dict[str, Any]], None], provider: str | None, model: str | None, **fields: Any
    ) -> None:
        self.is_over = False
        self.inner_error: str | None = None
        self._record = record
        self._run = _context.merge(_context.shared(), {"provider": provider, "model": model, **fields})
        self._run.setdefault("timestamp", datetime.now(timezone.utc).isoformat())
        self._began = time.perf_counter()
        self._before: Call | None = None

    def update(self, **fields: Any) -> None:  # Fields of a run, by the names of the API.
        """Set fields of the run, such as `finishReason="stop"` or `metadata={...}`."""
        self._run = _context.merge(self._run, fields)

    def field(self, name: str) -> Any:
        """Return what is known of the run so far."""
        return self._run.get(name)

    def usage(self, usage: object) -> None:
        """Count the tokens of an answer's usage, in the shape of any vendor."""
        self.update(**_safely(tokens_of, usage))

    def first_token(self) -> None:
        """Say that the first part of a streamed answer has come. Later parts change nothing."""
        self._run.setdefault("timeToFirstTokenMs", self._elapsed())

    def fill(self, provider: str | None, model: str | None) -> None:
        """Name provider and model where they are not known yet."""
        for name, value in (("provider", provider), ("model", model)):
            if value and not self._run.get(name):
                self._run[name] = value

    def answered_by(self, model: str) -> None:
        """Keep the model that the answer names, if it is another one. At Azure it is the one that has a price."""
        asked = self._run.get("model")
        if asked and self._run.get("provider") == "azure":
            self.update(model=model, metadata={"deployment": asked})
        elif asked and model != asked:
            self.update(metadata={"responseModel": model})
        self.fill(None, model)

    def end(self, error: BaseException | None = None, error_code: str | None = None) -> None:
        """Record the run. Only the first end counts."""
        if self.is_over:
            return
        self.is_over = True
        self._run.setdefault("latencyMs", self._elapsed())
        self.fill("unknown", "unknown")
        if isinstance(error, GeneratorExit):  # Who reads a stream may stop when they have enough.
            error = None
        code = type(error).__name__ if error is not None else (error_code and self.inner_error) or error_code
        if code:
            is_timeout = "timeout" in code.lower() or isinstance(error, TimeoutError)
            self._run.setdefault("errorCode", code)
            self._run.setdefault("status", "timeout" if is_timeout else "error")
        self._record(self._run)

    def enter(self) -> None:
        """Make this the outermost call, so that calls within it are not recorded."""
        self._before = _outer.get()
        _outer.set(self)

    def leave(self) -> None:
        """Undo `enter`."""
        if _outer.get() is self:
            _outer.set(self._before)

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.leave()
        self.end(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.__exit__(kind, error, trace)

    def _elapsed(self) -> int:
        return round(1000 * (time.perf_counter() - self._began))


@contextmanager
def watched(begin: Begin, provider: str, model: str | None) -> Iterator[Call | None]:
    """Begin a call around its request, which ends it if it fails. None if it is part of a call that is recorded already."""
    outer = outer_call()
    if outer:
        outer.fill(provider, model)
        try:
            yield None
        except BaseException as error:
            outer.inner_error = type(error).__name__
            raise
        return
    call = begin(provider, model)
    call.enter()
    try:
        yield call
    except BaseException as error:
        call.end(error)
        raise
    finally:
        call.leave()


def _safely(read: Callable[[object], dict[str, Any]], source: object) -> dict[str, Any]:
    try:
        return read(source)
    except Exception as error:  # noqa: BLE001  # A usage of an unknown kind: the caller's call has succeeded.
        log.debug("A usage could not be read: %s", type(error).__name__)
        return {}
