"""The queue of runs and the thread that sends them. Who records only appends: it never waits, and nothing is raised to it."""

from __future__ import annotations

import atexit
import json
import logging
import os
import random
import sys
import threading
import time
from collections import Counter, deque
from datetime import date, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, urlsplit
from uuid import UUID

if TYPE_CHECKING:
    import http.client

log = logging.getLogger("runtally")
utc = timezone.utc

MAX_WAITING = 10_000
MAX_RUNS = 500  # Of one request; the server's MAX_BATCH_RUNS is 1,000.
MAX_BYTES = 1_000_000  # Of one request; the server's MAX_BODY_BYTES is 5 MiB.
LINGER_SECONDS = 1.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0
LONGEST_RETRY_AFTER_SECONDS = 300.0
REFUSED_PAUSE_SECONDS = 60.0
TIMEOUT_SECONDS = 10.0
EXIT_SECONDS = 10.0  # While the server takes runs.
EXIT_WITHOUT_PROGRESS_SECONDS = 2.0
COMPLAINT_SECONDS = 60.0
OK, REFUSED, LATER, SERVER_ERROR = 200, (401, 403), (408, 429), 500


class Target(NamedTuple):
    """Where runs go."""

    url: SplitResult
    key: str | None
    project: str

    @classmethod
    def parse(cls, url: str, key: str | None, project: str) -> Target:
        """Raises ValueError if it is no URL of a server."""
        parsed = urlsplit(url.rstrip("/"))
        if parsed.scheme not in ("http", "https") or not parsed.hostname or parsed.port == 0:
            raise ValueError
        return cls(parsed, key, project)


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
        # A signal's handler that flushes may interrupt a caller that holds the lock, so it is one that can be taken again.
        self._changed = threading.Condition(threading.RLock())
        self._waiting: deque[bytes] = deque()
        self._thread: threading.Thread | None = None
        self._connection: http.client.HTTPConnection | None = None
        self._added = self._settled = self._lost = 0
        self._nudges = self._hurry = 0
        self._is_closing = False
        self._refused_until = 0.0
        self._progress_at = 0.0
        self._complaints: Counter[str] = Counter()
        self._complained_at = -COMPLAINT_SECONDS

    # What callers do --------------------------------------------------------------------------------------------------------

    def add(self, run: dict[str, Any]) -> None:
        """Queue a run. What cannot be sent, or has no room, is dropped and counted."""
        try:
            body = _encode(run).encode()
        except (TypeError, ValueError, RecursionError) as error:
            return self._lose(1, f"a value is no JSON ({type(error).__name__})")
        with self._changed:
            if len(body) < MAX_BYTES and len(self._waiting) < MAX_WAITING:
                self._waiting.append(body)
                self._added += 1
                if self._thread is None and not self._is_closing:
                    self._start()
                elif len(self._waiting) in (1, MAX_RUNS):
                    self._changed.notify_all()
                return None
        return self._lose(1, "too large" if len(body) >= MAX_BYTES else f"{MAX_WAITING:,} are waiting already")

    def flush(self, timeout: float) -> bool:
        """Wait until what was added is committed: True if all of it is, False if the time is over or runs were refused."""
        until = time.monotonic() + timeout
        with self._changed:
            added, lost = self._added, self._lost
            self._nudges, self._hurry = self._nudges + 1, added
            self._changed.notify_all()
            while self._settled < added:
                left = until - time.monotonic()
                if left <= 0 or self._refused_until > time.monotonic():
                    return False
                self._changed.wait(left)
            return self._lost == lost

    def close(self) -> None:
        """Send what waits, at exit: for 10 s while the server takes it, for 2 s while it does not."""
        began = time.monotonic()
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            has_no_thread = self._thread is None and bool(self._waiting)
        if has_no_thread:  # None can be started any more: the interpreter is ending.
            self._work()
        with self._changed:
            while self._settled < self._added:
                patience = max(began, self._progress_at) + EXIT_WITHOUT_PROGRESS_SECONDS
                left = min(began + EXIT_SECONDS, patience) - time.monotonic()
                if left <= 0:
                    self._complaints["the program ended before the server took them"] += self._added - self._settled
                    self._settled = self._added
                    self._waiting.clear()
                    break
                self._changed.wait(left)
            self._complained_at = -COMPLAINT_SECONDS
        self._complain()
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
                self._deliver(batch)
            except Exception as error:  # noqa: BLE001, PERF203  # Whatever it is, the thread must live, and the program must not hear of it.
                self._settle(len(batch), f"of an error in the client ({type(error).__name__})")

    def _next_batch(self) -> list[bytes]:
        """Wait for runs, and a moment longer for more. None are left only at exit."""
        with self._changed:
            while not self._waiting and not self._is_closing:
                self._changed.wait()
            until = time.monotonic() + LINGER_SECONDS
            while len(self._waiting) < MAX_RUNS and self._hurry <= self._settled and not self._is_closing:
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            batch: list[bytes] = []
            size = 0
            while self._waiting and len(batch) < MAX_RUNS and size + len(self._waiting[0]) <= MAX_BYTES:
                batch.append(self._waiting.popleft())
                size += len(batch[-1])
            if not batch and self._thread is threading.current_thread():
                self._thread = None
            return batch

    def _deliver(self, batch: list[bytes]) -> None:
        """Send a batch until it is settled. The same bytes each time: the server knows the runs that it has by their ids."""
        import gzip  # Not while the program starts.

        pause = FIRST_PAUSE_SECONDS
        project = json.dumps(self.target.project).encode()
        body = gzip.compress(b'{"projectId": %b, "runs": [%b]}' % (project, b",".join(batch)), 3)
        while True:
            nudges = self._nudges
            asked, lost = self._try(body)
            if asked is None:
                return self._settle(len(batch), lost)
            if self._is_closing:
                return self._settle(len(batch), "the program ended before the server took them")
            self._pause(max(asked, pause * random.uniform(0.5, 1)), None if asked else nudges)  # noqa: S311
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _pause(self, seconds: float, nudges: int | None) -> None:
        """Wait before the next try. A flush ends it, unless the server itself asked to wait; the program's end does."""
        until = time.monotonic() + seconds
        with self._changed:
            while (left := until - time.monotonic()) > 0 and not self._is_closing and nudges in (None, self._nudges):
                self._changed.wait(left)

    def _try(self, body: bytes) -> tuple[float | None, str]:
        """Post once. Answers how long to wait before the next try, None if there is none, and why runs are lost, if they are."""
        try:
            status, retry_after, text = self._post(body)
        except (OSError, ValueError, _http_exception()) as error:
            log.debug("Runtally is out of reach, trying again: %s", type(error).__name__)
            return 0.0, ""
        if status == OK:
            return self._read_answer(text)
        if status in REFUSED:
            if not self._refused_until:
                log.error("Runtally refused the key (%s); trying again once a minute: %s", status, _message(text))
            with self._changed:
                self._refused_until = time.monotonic() + REFUSED_PAUSE_SECONDS
                self._changed.notify_all()
            return REFUSED_PAUSE_SECONDS, ""
        if status >= SERVER_ERROR or status in LATER:
            return _seconds(retry_after), ""
        return None, f"the server refused them with {status}: {_message(text)}"

    def _read_answer(self, text: bytes) -> tuple[float | None, str]:
        answer = _json(text)
        if not answer.get("ok"):  # A page of a proxy or a wireless network: nothing was stored.
            return 0.0, ""
        self._refused_until = 0.0
        rejected = answer.get("rejected") or ()
        for refused in rejected:
            self._lose(1, f"the server refused them: {json.dumps(refused.get('details'))[:300]}")
        return None, ""

    def _post(self, body: bytes) -> tuple[int, str | None, bytes]:
        url, key, _project = self.target
        headers = {
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
            "User-Agent": "runtally-client-python",
        }
        if key:
            headers["Authorization"] = f"Bearer {key}"
        for is_last in (self._connection is None, True):
            connection = self._connection = self._connection or _connect(url)
            try:
                connection.request("POST", f"{url.path}/api/ingest?onError=skip", body, headers)
                response = connection.getresponse()
                return response.status, response.getheader("Retry-After"), response.read(MAX_BYTES)
            except BaseException:
                # The server may have closed a connection that was idle: once more with a new one.
                connection.close()
                self._connection = None
                if is_last:
                    raise
        raise AssertionError

    def _settle(self, runs: int, lost: str) -> None:
        if lost:
            self._lose(runs, lost)
        with self._changed:
            self._settled += runs
            self._progress_at = self._progress_at if lost else time.monotonic()
            self._changed.notify_all()

    def _lose(self, runs: int, why: str) -> None:
        with self._changed:
            self._lost += runs
            self._complaints[why] += runs
        self._complain()

    def _complain(self) -> None:
        """Say in the log what was lost, at once and then at most once a minute."""
        with self._changed:
            if not self._complaints or time.monotonic() - self._complained_at < COMPLAINT_SECONDS:
                return
            self._complained_at = time.monotonic()
            complaints, self._complaints = self._complaints, Counter()
        for why, runs in complaints.most_common(5):
            log.warning("Runtally: %s %s lost, %s", runs, "run is" if runs == 1 else "runs are", why)


def _connect(url: SplitResult) -> http.client.HTTPConnection:
    from http import client  # Takes longer than all other imports together.
    from urllib.request import getproxies, proxy_bypass

    kind = client.HTTPSConnection if url.scheme == "https" else client.HTTPConnection
    host = url.hostname or ""
    proxy = urlsplit("" if proxy_bypass(host) else getproxies().get(url.scheme, ""))
    if not proxy.hostname:
        return kind(host, url.port, timeout=TIMEOUT_SECONDS)
    connection = kind(proxy.hostname, proxy.port, timeout=TIMEOUT_SECONDS)
    connection.set_tunnel(host, url.port)
    return connection


def _http_exception() -> type[Exception]:
    from http import client

    return client.HTTPException


def _plain(value: object) -> str:
    """Write ids, times and amounts as text. Anything else might be content, and is refused."""
    if isinstance(value, (UUID, Decimal, date)):
        return str(value)
    raise TypeError


_encode = json.JSONEncoder(default=_plain, allow_nan=False, ensure_ascii=False).encode


def _json(text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _message(text: bytes) -> str:
    error = _json(text).get("error")
    return str(error.get("message"))[:300] if isinstance(error, dict) else "no reason given"


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, min(float(text or 0), LONGEST_RETRY_AFTER_SECONDS))
    except ValueError:  # A date, as proxies write it.
        return 0.0
