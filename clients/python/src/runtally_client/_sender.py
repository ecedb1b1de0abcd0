"""The queue of runs and the thread that sends them. Who records only appends: it never waits, and nothing is raised to it."""

from __future__ import annotations

import atexit
import json
import logging
import os
import sys
import threading
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtally_client._target import Target

log = logging.getLogger("runtally")

MAX_WAITING = 10_000
MAX_RUNS, MAX_BYTES = 500, 1_000_000  # Of one request; the server's MAX_BATCH_RUNS is 1,000, its MAX_BODY_BYTES 5 MiB.
LINGER_SECONDS = 1.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, REFUSED_PAUSE_SECONDS = 1.0, 60.0, 60.0
EXIT_SECONDS, EXIT_WITHOUT_PROGRESS_SECONDS = 10.0, 2.0
COMPLAINT_SECONDS = 60.0
OK, REFUSED, LATER, SERVER_ERROR = 200, (401, 403), (408, 429), 500


class Sender:
    """One for a process, with a thread of its own that starts with the first run. A child after a fork begins anew."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._begin()
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            # The parent sends what it has; its thread and its connection are not the child's.
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        # Its lock can be taken again by who holds it: a signal's handler that flushes may interrupt any caller.
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._thread: threading.Thread | None = None
        self._added = self._settled = self._lost = self._flushes = self._flush_up_to = 0
        self._is_closing = False
        self._refused_until = 0.0
        self._complaints: Counter[str] = Counter()
        self._complained_at = -COMPLAINT_SECONDS
        self.target.connection = None

    # What callers do --------------------------------------------------------------------------------------------------------

    def add(self, run: dict[str, Any]) -> None:
        """Queue a run. What cannot be sent, or has no room, is dropped and counted."""
        try:
            body = _encode(run).encode()
            lost = "too large" if len(body) >= MAX_BYTES else ""
        except (TypeError, ValueError, RecursionError) as error:
            lost = f"a value is no JSON ({type(error).__name__})"
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                lost = f"{MAX_WAITING:,} are waiting already"
            if not lost:
                self._waiting.append(body)
                self._added += 1
                if self._thread is None and not self._is_closing:
                    self._start()
                elif len(self._waiting) in (1, MAX_RUNS):
                    self._changed.notify_all()
        if lost or self._complaints:
            self._lose(1, lost)

    def flush(self, timeout: float) -> bool:
        """Wait until what was added is committed: True if all of it is, False if the time is over or runs were refused."""
        with self._changed:
            added, lost = self._added, self._lost
            self._flushes, self._flush_up_to = self._flushes + 1, added
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._settled >= added or self._refused_until > time.monotonic(), timeout)
            return self._settled >= added and self._lost == lost

    def close(self) -> None:
        """Send what waits, at exit: for 10 s while the server takes it, for 2 s while it does not."""
        until, progress = time.monotonic() + EXIT_SECONDS, True
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread is None:  # None can be started any more: the interpreter is ending.
            self._work()
        with self._changed:
            while progress and self._settled < self._added:
                before, left = self._settled, until - time.monotonic()
                progress = self._changed.wait_for(
                    lambda: self._settled > before,  # noqa: B023  # It is asked for in this round alone.
                    min(left, EXIT_WITHOUT_PROGRESS_SECONDS),
                )
            unsent, self._settled = self._added - self._settled, self._added
            self._waiting.clear()
            self._complained_at = -COMPLAINT_SECONDS
        self._lose(unsent, "the program ended before the server took them")
        self._is_closing = False

    # What the thread does ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name="runtally", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # The interpreter is ending; `close` sends what waits.
            return
        self._thread = thread
        multiprocessing = sys.modules.get("multiprocessing.util")
        if multiprocessing:  # Its children do not run what was registered with atexit.
            multiprocessing.Finalize(None, self.close, exitpriority=0)

    def _work(self) -> None:
        while batch := self._next_batch():
            try:
                lost = self._deliver(batch)
            except Exception as error:  # noqa: BLE001  # Whatever it is, the thread must live, and the program must not hear of it.
                lost = f"of an error in the client ({type(error).__name__})"
            self._lose(len(batch), lost)
            with self._changed:
                self._settled += len(batch)
                self._changed.notify_all()

    def _next_batch(self) -> list[bytes]:
        """Wait for runs, and a moment longer for more. None are left only at exit."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing)
            self._changed.wait_for(
                lambda: len(self._waiting) >= MAX_RUNS or self._flush_up_to > self._settled or self._is_closing,
                LINGER_SECONDS,
            )
            batch: list[bytes] = []
            room = MAX_BYTES
            while self._waiting and len(batch) < MAX_RUNS and len(self._waiting[0]) <= room:
                batch.append(self._waiting.popleft())
                room -= len(batch[-1])
            if not batch and self._thread is threading.current_thread():
                self._thread = None
            return batch

    def _deliver(self, batch: list[bytes]) -> str:
        """Send a batch until it is settled, and return why it is lost, if it is. The same bytes each time: its runs have ids."""
        import gzip  # Not while the program starts.
        import random

        pause = FIRST_PAUSE_SECONDS
        project = json.dumps(self.target.project).encode()
        body = gzip.compress(b'{"projectId": %b, "runs": [%b]}' % (project, b",".join(batch)), 3)
        while True:
            flushes = self._flushes
            asked = self._try(body)
            if isinstance(asked, str):
                return asked
            if self._is_closing:
                return "the program ended before the server took them"
            # A flush ends the pause, unless the server itself asked for it; the program's end does.
            self._pause(max(asked, pause * random.uniform(0.5, 1)), None if asked else flushes)  # noqa: S311
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _pause(self, seconds: float, flushes: int | None) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closing or flushes not in (None, self._flushes), seconds)

    def _try(self, body: bytes) -> float | str:
        """Post once. Returns how long the server asks to wait before the next try, or why there is none: "" is success."""
        try:
            status, retry_after, document = self.target.post(body)
        except OSError:
            return 0.0
        if status == OK and document.get("ok"):
            self._refused_until = 0.0
            for refused in document.get("rejected") or ():
                self._lose(1, f"the server refused them: {json.dumps(refused.get('details'))[:300]}")
            return ""
        # A page of a proxy or a wireless network is a 200 too: nothing was stored.
        if status >= SERVER_ERROR or status in (OK, *LATER):
            return retry_after
        error = document.get("error")
        message = str(error.get("message"))[:300] if isinstance(error, dict) else "no reason given"
        if status not in REFUSED:
            return f"the server refused them with {status}: {message}"
        if not self._refused_until:
            log.error("Runtally refused the key (%s); trying again once a minute: %s", status, message)
        with self._changed:
            self._refused_until = time.monotonic() + REFUSED_PAUSE_SECONDS
            self._changed.notify_all()
        return REFUSED_PAUSE_SECONDS

    def _lose(self, runs: int, why: str) -> None:
        """Count runs that are lost, if there is a reason, and say so in the log: at once and then at most once a minute."""
        with self._changed:
            if why and runs > 0:
                self._lost += runs
                self._complaints[why] += runs
            if not self._complaints or time.monotonic() - self._complained_at < COMPLAINT_SECONDS:
                return
            self._complained_at = time.monotonic()
            complaints, self._complaints = self._complaints, Counter()
        for reason, count in complaints.most_common(5):
            log.warning("Runtally: %s %s lost, %s", count, "run is" if count == 1 else "runs are", reason)


def _plain(value: object) -> str:
    """Write ids, times and amounts as text. Anything else might be content, and is refused."""
    from datetime import date
    from decimal import Decimal
    from uuid import UUID

    if isinstance(value, (UUID, Decimal, date)):
        return str(value)
    raise TypeError


_encode = json.JSONEncoder(default=_plain, allow_nan=False, ensure_ascii=False).encode
