"""Structured logs: one event a line, with the request's id, never with content or keys."""

import logging
import sys
import traceback
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from runtally.errors import RuntallyError
from runtally.settings import LogFormat, LogLevel

# Names of values that must never be logged. The rule is about keys, because values cannot be recognised.
SECRET_KEYS = frozenset(
    {"authorization", "cookie", "key", "password", "secret", "token", "x-api-key", "database_url", "body", "prompt"}
)
# Messages of these are ours, or the operating system's. Any other, such as a driver's, may quote a value.
_HARMLESS = (RuntallyError, OSError)

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is being answered, which all events of its task have."""
log = structlog.get_logger()
# From which level on requests are logged as JSON without structlog; None where structlog writes them.
_direct_from: int | None = None


def with_request_id(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add the id of the request that is being answered, if there is one."""
    answered = request_id.get()
    if answered is not None:
        event["request_id"] = answered
    return event


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace the values of keys that hold secrets or content."""
    for key in event.keys() & SECRET_KEYS:
        event[key] = "[redacted]"
    return event


def without_messages(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Format an exception as its class and place, with its message only if that cannot hold anything that was sent."""
    error = event.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()[1]
    elif isinstance(error, tuple):
        error = cast(_ExcInfo, error)[1]
    if isinstance(error, BaseException):
        event["exception"] = described(error)
    return event


def described(error: BaseException) -> str:
    """Describe the chain of errors in the order of a traceback, root cause first."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = f"{described(cause)}\n\nand then\n\n" if cause else ""
    frames = "".join(traceback.format_list(traceback.extract_tb(error.__traceback__)))
    message = f": {error}" if isinstance(error, _HARMLESS) else ""
    return f"{before}{frames}{type(error).__module__}.{type(error).__qualname__}{message}"


def first_line(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Cut messages of asyncio to one line: the further lines hold the task, with its exception's message."""
    record = event.get("_record")
    if isinstance(record, logging.LogRecord) and record.name == "asyncio":
        event["event"] = str(event["event"]).partition("\n")[0]
    return event


def write_request(level: int, **fields: object) -> None:
    """Write the event of a request, none of whose fields holds a secret.

    As JSON it is written without structlog, which would take longer than the rest of a short request.
    """
    if _direct_from is None:
        log.log(level, "request", **fields)
    elif level >= _direct_from:
        event = {
            **fields,
            "event": "request",
            "request_id": request_id.get(),
            "level": logging.getLevelName(level).lower(),
            "timestamp": datetime.now(UTC),
        }
        with suppress(OSError):
            sys.stderr.buffer.write(msgspec.json.encode(event) + b"\n")
            sys.stderr.buffer.flush()


class _Lossy:
    """Writes to stderr; what cannot be written is lost, because a log on a full disk must not stop what it is about."""

    def __init__(self) -> None:
        self._file = sys.stderr

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()


def set_up(log_format: LogFormat, level: LogLevel) -> None:
    """Send structlog's and the standard library's events to stderr in one format.

    Our own events bypass `logging`, which is slower.
    """
    global _direct_from  # noqa: PLW0603  # Logs are set up for the whole process.
    number = logging.getLevelNamesMapping()[level]
    _direct_from = number if log_format is LogFormat.JSON else None
    shared: list[Processor] = [
        with_request_id,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        redact,
        without_messages,
    ]
    final = _renderer(log_format)
    structlog.configure(
        processors=[*shared, final],
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, _Lossy())),
        wrapper_class=structlog.make_filtering_bound_logger(number),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(_Lossy())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[first_line, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, final],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(number)


def _renderer(log_format: LogFormat) -> Processor:
    if log_format is LogFormat.JSON:
        return structlog.processors.JSONRenderer(serializer=_json)
    return structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=0
    )


def _json(event: EventDict, **_options: object) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
