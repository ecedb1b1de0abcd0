"""Prepare a server process: its logs, its parent and its application."""

import gc
import multiprocessing
import os
import threading

from quart import Quart

from runtally.settings import load_settings
from webapp.cli.logs import set_up_logs

# Made and not freed since the last collection; by default 700.
GC_OBJECTS = 20_000


def application() -> Quart:
    """The application of this process, made from the environment; uvicorn calls it in each worker."""
    leave_with_parent()
    # As in `serve`, of which several workers inherit nothing.
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
