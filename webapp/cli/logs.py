"""Set up the logs of a command for an operator to read."""

import logging

from runtally import log
from runtally.settings import LogLevel, Settings

# Their news at INFO are of no use there: which loop started, which dialect was found.
CHATTY = ("alembic", "uvicorn.error")
# It logs whole URLs, which may contain a password or a token.
TELLTALE = "httpx"


def set_up_logs(settings: Settings) -> None:
    log.set_up(settings.log_format, settings.log_level)
    logging.getLogger(TELLTALE).setLevel(logging.WARNING)
    if settings.log_level is LogLevel.INFO:
        for name in CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)
