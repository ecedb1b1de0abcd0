"""Post calls to a server, batch by batch, and count what it did with them. One that is away for a moment is waited for."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterable

from runtally_client._sender import LATER, MAX_RUNS, OK, SERVER_ERROR
from runtally_client._target import Answer, Target
from runtally_client.agent_files.reading import Notes, Run
from runtally_client.agent_files.reported import Reported

PATIENCE_SECONDS = 30.0
"""How long a server may be away, as while it starts again."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 5.0


class Untaken(Exception):
    """Why the server did not take what was sent, or say what it has."""


class PatientTarget(Target):
    """A server that is asked again for a while where it gives no answer."""

    def post(self, body: bytes) -> Answer:
        """Post a batch. Raises Untaken if there is no answer for too long."""
        return _patiently(super().post, body)

    def get(self, path: str) -> Answer:
        """Ask for something. Raises Untaken if there is no answer for too long."""
        return _patiently(super().get, path)


class Sync:
    """Sends runs to a server, each id once in this process."""

    processed = duplicates = refused = reported = 0
    """How many runs the server stored, now or before; how many of them before; how many it refused; and how many it was not
    sent because telemetry had reported them."""
    problem = ""
    """Why not all of it was taken the last time, where the server did not say so of single runs."""

    def __init__(self, url: str, key: str | None, project: str) -> None:
        """Raise ValueError if the address is none of a server."""
        self._target = PatientTarget(url, key, project)
        self._sent: set[str] = set()

    def send(self, runs: Iterable[Run], notes: Notes) -> bool:
        """Send what was neither sent before nor reported by telemetry, and return whether the server has taken all of it."""
        refused, self.problem = self.refused, ""
        reported = Reported(self._target)
        waiting: list[Run] = []
        try:
            for run in runs:
                if run["runId"] in self._sent:
                    continue
                if reported.has(run):
                    self._sent.add(run["runId"])
                    self.reported += 1
                else:
                    waiting.append(run)
                    if len(waiting) == MAX_RUNS:
                        self._post(waiting)
                        waiting = []
            if waiting:
                self._post(waiting)
        except Untaken as reason:
            self.problem = str(reason)
        if reported.problem:
            notes.cannot_know(f"whether telemetry has reported these calls too, since {reported.problem}")
        return not self.problem and self.refused == refused

    def _post(self, runs: list[Run]) -> None:
        """Send a batch. Raises Untaken if the server took none of it."""
        body = json.dumps({"projectId": self._target.project, "runs": runs}, ensure_ascii=False)
        status, _, document = self._target.post(gzip.compress(body.encode(), 3))
        if status != OK:
            error = document.get("error")
            message = str(error.get("message"))[:300] if isinstance(error, dict) else "no reason given"
            raise Untaken(f"the server refused them with {status}: {message}")
        again = document.get("duplicates")
        self.processed += document.get("processed") or 0
        self.duplicates += again if isinstance(again, int) else len(again or ())
        self.refused += len(document.get("rejected") or ())
        self._sent.update(run["runId"] for run in runs)


def _patiently(ask: Callable[..., Answer], what: object) -> Answer:
    until, pause = time.monotonic() + PATIENCE_SECONDS, FIRST_PAUSE_SECONDS
    while True:
        try:
            answer = ask(what)
        except OSError:
            why, wait = "the server is out of reach", pause
        else:
            # A page of a proxy is a 200 too.
            if not (
                answer.status >= SERVER_ERROR or answer.status in LATER or (answer.status == OK and not answer.document)
            ):
                return answer
            why, wait = f"the server answered {answer.status}", max(pause, answer.retry_after)
        if time.monotonic() + wait > until:
            raise Untaken(why)
        time.sleep(wait)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
