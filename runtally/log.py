"""Structured logs: one event a line, with the request's id, never with content or keys."""

import logging
import sys

import structlog
from structlog.typing import EventDict, WrappedLogger

from runtally.settings import LogFormat

# What may never be logged, whoever passes it; the rule is on keys, because values can't be recognised.
SECRET_KEYS = frozenset(
    {"authorization", "cookie", "key", "password", "secret", "token", "x-api-key", "database_url", "body", "prompt"}
)


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replaces the values of keys that hold secrets or content."""
    for key in event.keys() & SECRET_KEYS:
        event[key] = "[redacted]"
    return event


def set_up(log_format: LogFormat, level: str) -> None:
    """Send structlog's and the standard library's events to stderr in one format."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        redact,
    ]
    final: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if log_format is LogFormat.JSON
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                final,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
