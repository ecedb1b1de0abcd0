"""Prepare a process: its logs, for an operator to read; that of a server also its parent and its application."""

import gc
import logging
import multiprocessing
import os
import threading
from typing import TYPE_CHECKING

from runtally import log
from runtally.errors import SettingsError
from runtally.settings import LogLevel, Settings, load_settings

if TYPE_CHECKING:
    from quart import Quart

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


# Made and not freed since the last collection; by default 700.
GC_OBJECTS = 20_000


def application() -> "Quart":
    """The application of this process, made from the environment; uvicorn calls it in each worker."""
    leave_with_parent()
    # Several workers inherit nothing of what `serve` set.
    gc.disable()
    from webapp.app import create_app  # noqa: PLC0415  # Only now.

    settings = load_settings()
    set_up_logs()
    app = create_app(settings)
    _collect_seldom()
    return app


def _collect_seldom() -> None:
    """Exclude imported objects from garbage collection, and collect rarely: a batch makes thousands of objects.

    Garbage of the imports stays as well: it is less than a megabyte, and to find it takes a tenth of a start.
    """
    gc.freeze()
    gc.set_threshold(GC_OBJECTS)
    gc.enable()


def leave_with_parent() -> None:
    """A worker ends when its parent does, even by `kill -9`: else it would hold the port against the next start."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="leave-with-parent", daemon=True).start()
