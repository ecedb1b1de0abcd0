"""Post calls to a server, in the client's own batches, and count what it did with them."""

from __future__ import annotations

from collections.abc import Iterable

from runtally_client._sender import Sender
from runtally_client._target import Answer, Target
from runtally_client.agent_files.reading import Notes, Run
from runtally_client.agent_files.reported import Reported

AT_ONCE = 5_000
"""Of the 10,000 that may wait in the client."""
PATIENCE_SECONDS = 20.0
"""How long the server may take for a batch."""


class CountingTarget(Target):
    """A server, and how many runs it stored and refused."""

    answers = processed = duplicates = refused = 0

    def post(self, body: bytes) -> Answer:
        answer = super().post(body)
        if answer.document.get("ok"):
            self.answers += 1
            again, refused = answer.document.get("duplicates"), answer.document.get("rejected")
            self.processed += answer.document.get("processed") or 0
            self.duplicates += again if isinstance(again, int) else len(again or ())
            self.refused += len(refused or ())
        return answer


class Sync:
    """Sends runs to a server, each id once in this process."""

    def __init__(self, url: str, key: str | None, project: str) -> None:
        """Raise ValueError if the address is none of a server."""
        self.target = CountingTarget(url, key, project)
        self._sender = Sender(self.target)
        self._asked = Target(url, key, project)  # The other connection is the sender's thread's.
        self._sent: set[str] = set()
        self.reported = 0
        """How many calls the agents' own telemetry had reported."""

    def send(self, runs: Iterable[Run], notes: Notes) -> bool:
        """Send what was neither sent before nor reported by telemetry, and return whether the server has taken all of it."""
        waiting: list[Run] = []
        is_taken = True
        reported = Reported(self._asked)
        for run in runs:
            if run["runId"] in self._sent:
                continue
            if reported.has(run):
                self._sent.add(run["runId"])
                self.reported += 1
            else:
                waiting.append(run)
                if len(waiting) == AT_ONCE:
                    is_taken &= self._send(waiting)
                    waiting = []
        if reported.problem:
            notes.cannot_know(f"whether telemetry has reported these calls too, since {reported.problem}")
        return self._send(waiting) and is_taken

    def _send(self, runs: list[Run]) -> bool:
        processed, answers = self.target.processed, self.target.answers
        for run in runs:
            self._sender.add(run)
        while not self._sender.flush(PATIENCE_SECONDS) and answers < self.target.answers:
            answers = self.target.answers
        is_taken = self.target.processed - processed == len(runs)
        if is_taken:
            self._sent.update(run["runId"] for run in runs)
        return is_taken

    def close(self) -> None:
        """Give up what the server has not taken."""
        self._sender.close()
