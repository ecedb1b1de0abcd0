"""Measure the server's own time for a request.

One client with a keep-alive connection sends one request after the other, and the times are those that the service
itself logs: from the first byte of the request to the last of the answer. Before each request a run comes in, so that
nothing can be answered from what was remembered.
"""

import http.client
import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from benchmarks.options import Options
from benchmarks.processes import KEY, Running
from benchmarks.result import Figures
from benchmarks.volume import LARGEST

LOGGED_SECONDS = 5.0
WARM_UP = 10
_RUN = {"provider": "openai", "model": "gpt-4o-mini", "inputTokens": 900, "outputTokens": 120, "latencyMs": 840}
_number = count(1)


@dataclass(frozen=True, slots=True)
class Reader:
    """A client of a server that logs its requests."""

    server: Running
    headers: Mapping[str, str]

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        """Status and body of one answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        connection.request("GET", path, headers={**self.headers, **headers})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body

    def p95_ms(self, path: str, options: Options, *, is_one_of_many: bool = False) -> Figures:
        """The p95 of each round, by nearest rank. Raises `RuntimeError` for an answer that is none."""
        requests = options.requests_of_many if is_one_of_many else options.requests
        self._times(path, WARM_UP)
        return Figures.of(p95(self._times(path, requests)) for _ in range(options.rounds))

    def _times(self, path: str, requests: int) -> list[float]:
        return self.times_of([path] * requests)

    def times_of(self, paths: Sequence[str]) -> list[float]:
        """The milliseconds of a request for each path."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        ids = [f"bench-{next(_number)}" for _ in paths]
        for request_id, path in zip(ids, paths, strict=True):
            _send(connection, "POST", "/api/ingest", {"Authorization": f"Bearer {KEY}"}, {"projectId": LARGEST, **_RUN})
            _send(connection, "GET", path, {**self.headers, "X-Request-Id": request_id})
        connection.close()
        return self._logged(frozenset(ids))

    def _logged(self, ids: frozenset[str]) -> list[float]:
        deadline = time.monotonic() + LOGGED_SECONDS
        while time.monotonic() < deadline:
            lines = [
                json.loads(line) for line in self.server.log.read_text().splitlines() if '"request_id":"bench-' in line
            ]
            times = [line["duration_ms"] for line in lines if line["request_id"] in ids]
            if len(times) == len(ids):
                return times
            time.sleep(0.05)
        raise RuntimeError(f"{len(ids)} requests were answered, and {len(times)} of them logged")


def p95(values: Iterable[float]) -> float:
    """Return the percentile by nearest rank."""
    ordered = sorted(values)
    return ordered[math.ceil(0.95 * len(ordered)) - 1]


def _send(
    connection: http.client.HTTPConnection, method: str, path: str, headers: Mapping[str, str], body: object = None
) -> None:
    sent = None if body is None else json.dumps(body)
    connection.request(method, path, sent, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    answer.read()
    if answer.status != http.client.OK:
        raise RuntimeError(f"{method} {path} was answered with {answer.status}")
