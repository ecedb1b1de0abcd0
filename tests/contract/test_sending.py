"""What docs/sending.md has to be copied into other programs, run as it stands there."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from runtally.db.database import Database
from tests.receiver import Receiver, ok
from tests.serving import Server

GUIDE = Path(__file__).parents[2] / "docs" / "sending.md"
RUN = {"provider": "acme", "model": "acme-large"}


def pasted(name: str) -> ModuleType:
    found = re.search(rf"<!-- {name}: .*?```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found
    module = ModuleType(f"pasted_{name}")
    exec(compile(found[1], str(GUIDE), "exec"), module.__dict__)  # noqa: S102  # What we tell others to run.
    return module


@pytest.fixture
def waits() -> list[float]:
    """How long the recorder would have waited."""
    return []


@pytest.fixture
def recording(waits: list[float]) -> Callable[..., Any]:
    module = pasted("recorder")
    module.__dict__["time"] = SimpleNamespace(sleep=waits.append, monotonic=time.monotonic)
    module.__dict__["MOST_RUNS"] = 3

    def recorder(url: str, key: str = "key", project: str = "p", **options: float) -> Any:  # noqa: ANN401  # Of a pasted class.
        return module.__dict__["Recorder"](url, key, project, every=0, **options)

    return recorder


async def test_what_is_recorded_is_stored_once_and_a_bad_run_costs_no_other(
    recording: Callable[..., Any],
    server: Server,
    database: Database,
    project_id: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = recording(server.url, server.ingest_key, project_id)

    for number in range(3):
        recorder.record(**RUN, runId="again" if number else "once", inputTokens=number)
    recorder.record(**RUN, inputTokens=-1)
    recorder.record(**RUN, metadata={"nan": float("nan")})
    recorder.record(**RUN, metadata={"object": object()})
    recorder.record(**RUN, metadata={"half a character": "\ud83d"})
    recorder.close()

    async with database.connection() as connection:
        rows = await connection.fetch("SELECT id, input_tokens FROM runs WHERE project_id = $1 ORDER BY id", project_id)
    assert [tuple(row) for row in rows] == [("again", 1), ("once", 0)]
    messages = [record.getMessage() for record in caplog.records if record.name == "runtally"]
    assert sorted(message.split(":")[0] for message in messages) == [
        *["A run was dropped, it is no JSON"] * 3,
        "A run was refused",
    ]


def test_it_sends_the_same_again_until_it_is_taken(
    recording: Callable[..., Any], receiver: Receiver, waits: list[float]
) -> None:
    replies = iter((503, 429, 408, b"<p>Sign in to the wireless network", b"[]", 200))
    receiver.reply = lambda _document: next(replies)
    recorder = recording(receiver.url)

    recorder.record(**RUN)
    recorder.close()

    assert len(set(receiver.bodies)) == 1
    assert len(receiver.bodies) == 6
    assert len(waits) == 5
    assert 0.5 <= waits[0] <= 1 <= waits[1] <= 2 <= waits[2] <= 4


@pytest.mark.parametrize(
    ("asked", "waited"),
    [("7", 7), ("1e12", 300), ("nan", 1), ("Sun, 22 Nov 2026 17:00:00 GMT", 1), (None, 1)],
)
def test_it_waits_as_long_as_it_is_asked_to(
    recording: Callable[..., Any], receiver: Receiver, waits: list[float], asked: str | None, waited: float
) -> None:
    replies = iter((429, 200))
    receiver.reply = lambda _document: next(replies)
    receiver.retry_after = asked
    recorder = recording(receiver.url)

    recorder.record(**RUN)
    recorder.close()

    assert [max(1, wait) for wait in waits] == [waited]


def test_what_is_refused_for_good_is_told_and_not_sent_again(
    recording: Callable[..., Any], receiver: Receiver, waits: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    receiver.reply = lambda _document: 401
    recorder = recording(receiver.url)

    recorder.record(**RUN)
    recorder.close()

    assert len(receiver.bodies) == 1
    assert not waits
    assert "Runs were refused with 401" in caplog.text


def test_whoever_records_never_waits(
    recording: Callable[..., Any], receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.reply = lambda _document: None
    recorder = recording(receiver.url, waiting=2)

    for _ in range(9):
        recorder.record(**RUN)
    recorder.close(0)
    dropped = caplog.text.count("A run was dropped, 2 wait already")
    assert "Runs are lost: Runtally did not take them in 0 seconds" in caplog.text

    receiver.reply = ok
    receiver.ended.set()
    recorder.close()
    sent = {run["runId"] for body in receiver.bodies for run in json.loads(body)["runs"]}
    assert dropped > 0
    assert len(sent) == 9 - dropped


def test_runs_go_together(recording: Callable[..., Any], receiver: Receiver) -> None:
    recorder = recording(receiver.url)

    for _ in range(10):
        recorder.record(**RUN)
    recorder.close()

    sizes = [len(json.loads(body)["runs"]) for body in receiver.bodies]
    assert sum(sizes) == 10
    assert max(sizes) <= 3


@pytest.mark.parametrize(
    ("vendor", "usage", "tokens"),
    [
        (
            "anthropic",
            {
                "input_tokens": 10,
                "output_tokens": 5,
                "cache_read_input_tokens": 80,
                "cache_creation_input_tokens": None,
            },
            {"inputTokens": 90, "outputTokens": 5, "cachedInputTokens": 80, "cacheWriteTokens": 0},
        ),
        (
            "gemini",
            {
                "prompt_token_count": 88,
                "tool_use_prompt_token_count": 2,
                "candidates_token_count": 5,
                "cached_content_token_count": None,
                "thoughts_token_count": 7,
            },
            {"inputTokens": 90, "outputTokens": 12, "cachedInputTokens": 0, "reasoningTokens": 7},
        ),
        (
            "openai",
            {"prompt_tokens": 90, "completion_tokens": 5, "model_dump": lambda: {"cost": 0.1}},
            {"inputTokens": 90, "outputTokens": 5, "metadata": {"usage": {"cost": 0.1}}},
        ),
        (
            "openai",
            {"input_tokens": 90, "output_tokens": 5, "model_dump": dict},
            {"inputTokens": 90, "outputTokens": 5, "metadata": {"usage": {}}},
        ),
        (
            "openai",
            {"prompt_tokens": 90, "total_tokens": 90, "model_dump": dict},
            {"inputTokens": 90, "outputTokens": None, "metadata": {"usage": {}}},
        ),
    ],
)
def test_tokens_are_counted_as_the_vendor_means_them(
    vendor: str, usage: dict[str, Any], tokens: dict[str, Any]
) -> None:
    count = pasted("tokens").__dict__[f"{vendor}_tokens"]

    assert count(SimpleNamespace(**usage)) == tokens


@pytest.mark.parametrize("vendor", ["anthropic", "gemini", "openai"])
def test_an_answer_without_usage_raises_nothing(vendor: str) -> None:
    assert pasted("tokens").__dict__[f"{vendor}_tokens"](None) == {}
