"""Clients as they should be: every run has a runId, and what was not answered for good is sent again."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from typing import Any, Protocol

import httpx

from tests.faults.ledger import Ledger
from tests.faults.plan import Post
from tests.serving import INGEST_KEY

CLIENTS = 8
# A little more than a stalled connection takes to break.
ANSWER_SECONDS = 8.0
RETRY_SECONDS = 0.05


class Weather(Protocol):
    """How much clients may send, and until when: a storm, or a calm."""

    async def begin(self, runs: int) -> None: ...

    @property
    def is_over(self) -> bool: ...


class Clients:
    """Send one post after the other until it is over, as fast as it lets them."""

    def __init__(self, url: str, posts: Iterator[Post], storm: Weather, ledger: Ledger) -> None:
        self._url = url
        self._posts = posts
        self._storm = storm
        self.ledger = ledger
        self.retries = 0

    async def send(self) -> None:
        async with asyncio.TaskGroup() as all_clients:
            for _ in range(CLIENTS):
                all_clients.create_task(self._send_some())

    async def _send_some(self) -> None:
        async with httpx.AsyncClient(base_url=self._url, timeout=ANSWER_SECONDS, trust_env=False) as client:
            while not self._storm.is_over:
                post = next(self._posts)
                await self._storm.begin(len(post.runs))
                answer = await self._answer(client, post)
                self._note(post, answer)
                if post.is_repeated and answer.is_success:
                    self._check_repeated(post, await self._answer(client, post))

    async def _answer(self, client: httpx.AsyncClient, post: Post) -> httpx.Response:
        """The first answer that is final."""
        content, headers = _request(post)
        while True:
            try:
                answer = await client.post("/api/ingest", content=content, headers=headers)
            except httpx.TransportError:
                pass
            else:
                if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                    return answer
                if "Retry-After" not in answer.headers:
                    self.ledger.broken.append(f"503 without Retry-After: {answer.text}")
            self.retries += 1
            await asyncio.sleep(RETRY_SECONDS)

    def _note(self, post: Post, answer: httpx.Response) -> None:
        expected = httpx.codes.UNPROCESSABLE_ENTITY if post.is_bad else httpx.codes.OK
        if answer.status_code != expected:
            self.ledger.broken.append(f"{answer.status_code} instead of {expected}: {answer.text}")
        elif post.is_bad:
            self.ledger.refuse(post.project_id, post.runs)
        else:
            self.ledger.acknowledge(post.project_id, post.runs)
            sent = [run["runId"] for run in post.runs]
            if _ids(answer.json()) != sent:
                self.ledger.broken.append(f"other ids than {sent[:3]}...: {answer.text[:200]}")

    def _check_repeated(self, post: Post, answer: httpx.Response) -> None:
        """What was acknowledged is there at once, whatever happened since."""
        duplicates = answer.json().get("duplicates", 0)
        if duplicates != len(post.runs):
            self.ledger.broken.append(f"{duplicates} of {len(post.runs)} acknowledged runs were there at a repetition")


def _request(post: Post) -> tuple[bytes, dict[str, str]]:
    sent: dict[str, Any] = {"projectId": post.project_id}
    sent |= post.runs[0] if post.is_single else {"runs": post.runs}
    content = json.dumps(sent).encode()
    headers = {"Authorization": f"Bearer {INGEST_KEY}", "Content-Type": "application/json"}
    # Packed bodies go another way through the service than plain ones.
    return (gzip.compress(content), headers | {"Content-Encoding": "gzip"}) if post.is_packed else (content, headers)


def _ids(answer: dict[str, Any]) -> list[str]:
    return answer.get("ids") or [answer.get("id", "")]
