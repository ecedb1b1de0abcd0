"""Prepare a service of several workers in a process of its own: their parent keeps nothing of what that imports."""

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from runtally.settings import Settings


@contextmanager
def preparing(settings: Settings, listener: socket.socket, *, by_make: bool) -> Iterator[Callable[[str], str]]:
    """Begin to import what prepares; in the block, the function prepares the database of a URL and returns the greeting.

    The other process says what is wrong as this one would, and this one then ends with its exit code.
    """
    ours, theirs = Pipe()
    pid = os.fork()
    if not pid:
        ours.close()
        _prepare(settings, listener, theirs, by_make=by_make)
        os._exit(0)
    theirs.close()

    def prepared(url: str) -> str:
        nonlocal pid
        ours.send(url)
        try:
            greeting: str = ours.recv()
        except EOFError:
            _, status = os.waitpid(pid, 0)
            pid = 0
            sys.exit(abs(os.waitstatus_to_exitcode(status)))
        return greeting

    try:
        yield prepared
    finally:
        if pid:
            # It has ended, or nobody waits for it any more.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _prepare(settings: Settings, listener: socket.socket, parent: Connection, *, by_make: bool) -> None:
    # Nothing that is imported is garbage.
    gc.disable()
    from webapp.cli import service  # noqa: PLC0415  # Only here.

    try:
        url: str = parent.recv()
    except EOFError:
        # The parent has said why.
        return
    service.prepare(settings, url)
    parent.send(str(service.greeting(settings, url, listener, by_make=by_make)))
