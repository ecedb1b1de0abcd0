"""Set up the logs of a command for an operator to read."""

import logging

from runtally import log
from runtally.errors import SettingsError
from runtally.settings import LogLevel, Settings, load_settings

# Their news at INFO are of no use there: which loop started, which dialect was found.
CHATTY = ("alembic", "mcp", "uvicorn.error")
# It logs whole URLs, which may contain a password or a token.
TELLTALE = "httpx"


def set_up_logs() -> None:
    """Send logs to stderr, so that what a command prints can be piped; with wrong settings, which it refuses, as by default."""
    try:
        settings = load_settings()
    except SettingsError:
        settings = Settings.model_construct()
    log.set_up(settings.log_format, settings.log_level)
    logging.getLogger(TELLTALE).setLevel(logging.WARNING)
    if settings.log_level is LogLevel.INFO:
        for name in CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)
