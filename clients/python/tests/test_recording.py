"""What a run says: the blocks around it, the call it times, the tokens of every vendor."""

import asyncio
import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import runtally_client as runtally
from runtally.files import CHECKOUT
from runtally_client import _call, _sdks, _turns
from runtally_client._usage import tokens_of
from tests.fake_provider import (
    ANTHROPIC_USAGE,
    CHAT_USAGE,
    EMBEDDING_USAGE,
    GEMINI_USAGE,
    RESPONSES_USAGE,
)
from tests.receiver import Receiver

CASES = json.loads((CHECKOUT / "clients" / "usage_cases.json").read_text())
RUN = {"provider": "acme", "model": "acme-large"}
WHOLE = {"inputTokens": 1200, "outputTokens": 350, "cachedInputTokens": 1000}


class Recorded:
    """What the receiver got, in the order in which it was recorded."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    @property
    def runs(self) -> list[dict[str, Any]]:
        assert runtally.flush(10)
        return [run for body in self._receiver.bodies for run in json.loads(body)["runs"]]

    @property
    def run(self) -> dict[str, Any]:
        (run,) = self.runs
        return run


@pytest.fixture
def recorded(receiver: Receiver) -> Recorded:
    runtally.init(receiver.url, "key", "p")
    return Recorded(receiver)


def test_blocks_nest_and_end(recorded: Recorded) -> None:
    with runtally.context(session="s", user=7, tags=["a"], metadata={"one": 1}):
        with runtally.context(user="u2", tags=["b", "a"], experiment="e", metadata={"two": 2}):
            runtally.record(**RUN, metadata={"one": 0})
        runtally.record(**RUN)
    runtally.record(**RUN)

    inner, outer, none = recorded.runs
    assert inner["sessionId"] == "s"
    assert inner["userId"] == "u2"
    assert inner["experimentId"] == "e"
    assert inner["tags"] == ["a", "b"]
    assert inner["metadata"] == {"one": 0, "two": 2}
    assert (outer["userId"], outer["tags"], outer["metadata"]) == ("7", ["a"], {"one": 1})
    assert {"userId", "sessionId", "tags", "metadata"}.isdisjoint(none)


def test_threads_and_tasks_have_blocks_of_their_own(recorded: Recorded) -> None:
    async def task(user: str) -> None:
        with runtally.context(user=user):
            await asyncio.sleep(0)
            runtally.record(**RUN, runId=user)

    async def tasks() -> None:
        await asyncio.gather(*(task(f"task-{number}") for number in range(3)))

    def thread(user: str) -> None:
        with runtally.context(user=user):
            runtally.record(**RUN, runId=user)

    asyncio.run(tasks())
    with runtally.context(user="somebody else"):
        threads = [threading.Thread(target=thread, args=(f"thread-{number}",)) for number in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    assert len(recorded.runs) == 6
    assert all(run["userId"] == run["runId"] for run in recorded.runs)


def test_a_generator_that_is_left_in_a_block_raises_nothing(recorded: Recorded) -> None:
    def generator() -> Iterator[int]:
        with runtally.context(user="u"):
            yield 1

    async def begun_elsewhere() -> Iterator[int]:
        items = generator()
        next(items)
        return items

    asyncio.run(begun_elsewhere()).close()  # type: ignore[attr-defined]  # It is a generator.
    runtally.record(**RUN)

    assert "userId" not in recorded.run


def test_what_a_traced_function_calls_has_one_trace(recorded: Recorded) -> None:
    @runtally.traced
    def inner() -> None:
        runtally.record(**RUN)

    @runtally.traced
    async def outer() -> str:
        runtally.record(**RUN)
        inner()
        return "done"

    assert asyncio.run(outer()) == "done"
    inner()

    traces = [run["traceId"] for run in recorded.runs]
    assert traces[0] == traces[1] != traces[2]


def test_a_timed_call_says_how_long_it_took_and_how_it_ended(recorded: Recorded) -> None:
    with runtally.run("openai", "gpt-4o-mini", metadata={"feature": "search"}) as run:
        run.first_token()
        run.usage(CHAT_USAGE)
        run.update(finishReason="stop")

    assert (
        recorded.run.items() >= {"provider": "openai", "model": "gpt-4o-mini", "finishReason": "stop", **WHOLE}.items()
    )
    assert 0 <= recorded.run["timeToFirstTokenMs"] <= recorded.run["latencyMs"]
    assert "status" not in recorded.run


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError("the prompt was secret"), "error"), (TimeoutError(), "timeout")]
)
def test_an_error_is_recorded_by_its_class_alone_and_raised(recorded: Recorded, error: Exception, status: str) -> None:
    async def failing() -> None:
        async with runtally.run("openai", "gpt-4o-mini"):
            raise error

    with pytest.raises(type(error)):
        asyncio.run(failing())

    assert recorded.run["status"] == status
    assert recorded.run["errorCode"] == type(error).__name__
    assert "secret" not in json.dumps(recorded.run)


def test_names_are_cut_to_what_the_server_takes(recorded: Recorded) -> None:
    with runtally.context(user="u" * 1000, tags=[*range(100), "t" * 1000]):
        runtally.record(provider="acme", model="m" * 1000, finishReason="f" * 1000)

    assert len(recorded.run["model"]) == len(recorded.run["userId"]) == 256
    assert len(recorded.run["finishReason"]) == 64
    assert len(recorded.run["tags"]) == 20


def test_a_usage_of_no_known_kind_raises_nothing(recorded: Recorded) -> None:
    class Strange:
        @property
        def prompt_tokens(self) -> int:
            raise RuntimeError

    with runtally.run("acme", "m") as run:
        for usage in (None, Strange(), "12", 12, {"input_tokens": "many"}, {"prompt_tokens": -1}):
            run.usage(usage)

    assert "inputTokens" not in recorded.run


def nested(usage: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(
        **{name: nested(value) if isinstance(value, dict) else value for name, value in usage.items()}
    )


@pytest.mark.parametrize("shape", [dict, nested])
@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        pytest.param(CHAT_USAGE, WHOLE | {"reasoningTokens": 200}, id="chat completions"),
        pytest.param(RESPONSES_USAGE, WHOLE | {"reasoningTokens": 200}, id="responses"),
        pytest.param(EMBEDDING_USAGE, {"inputTokens": 8}, id="embeddings"),
        pytest.param(ANTHROPIC_USAGE, WHOLE | {"cacheWriteTokens": 50}, id="anthropic"),
        pytest.param(
            {"inputTokens": 150, "outputTokens": 350, "cacheReadInputTokens": 1000, "cacheWriteInputTokens": 50},
            WHOLE | {"cacheWriteTokens": 50},
            id="bedrock",
        ),
        pytest.param(GEMINI_USAGE, WHOLE | {"reasoningTokens": 200}, id="gemini on the wire"),
        pytest.param(
            {
                "prompt_token_count": 1100,
                "tool_use_prompt_token_count": 100,
                "candidates_token_count": 150,
                "thoughts_token_count": 200,
                "cached_content_token_count": 1000,
            },
            WHOLE | {"reasoningTokens": 200},
            id="gemini with tools",
        ),
        pytest.param(
            {
                "input_tokens": 1200,
                "output_tokens": 350,
                "input_token_details": {"cache_read": 1000, "cache_creation": 50},
                "output_token_details": {"reasoning": 200},
            },
            WHOLE | {"cacheWriteTokens": 50, "reasoningTokens": 200},
            id="langchain",
        ),
        pytest.param(
            CHAT_USAGE | {"cache_read_input_tokens": 1000, "cache_creation_input_tokens": 50},
            WHOLE | {"cacheWriteTokens": 50, "reasoningTokens": 200},
            id="litellm",
        ),
        pytest.param(
            {
                "prompt_tokens": 100,
                "completion_tokens": 50,
                "prompt_tokens_details": {"audio_tokens": 30, "cached_tokens_details": {"audio_tokens": 10}},
                "completion_tokens_details": {"audio_tokens": 40},
            },
            {
                "inputTokens": 100,
                "outputTokens": 50,
                "audioInputTokens": 20,
                "audioOutputTokens": 40,
                "units": {"cachedAudioInput": 10},
            },
            id="audio",
        ),
        pytest.param(
            EMBEDDING_USAGE | {"cost": 0.0123}, {"inputTokens": 8, "costUSD": 0.0123}, id="what openrouter charged"
        ),
        pytest.param({"prompt_tokens": 0, "completion_tokens": 0}, {}, id="zeros that mean unknown"),
    ],
)
def test_tokens_are_counted_as_the_vendor_means_them(
    usage: dict[str, Any],
    tokens: dict[str, Any],
    shape: Any,  # noqa: ANN401  # A dict, or an object like it.
) -> None:
    assert tokens_of(shape(usage)) == tokens


@pytest.mark.parametrize("shape", [dict, nested])
@pytest.mark.parametrize("case", CASES, ids=[case["of"] for case in CASES])
def test_a_usage_object_is_read_as_its_vendor_means_it(
    case: dict[str, Any],
    shape: Any,  # noqa: ANN401  # A dict, or an object like it.
) -> None:
    assert tokens_of(shape(case["usage"])) == case["run"]


def entry(kind: str, tokens: int, model: str | None = None) -> dict[str, Any]:
    return {"type": kind, "input_tokens": tokens, "output_tokens": tokens} | ({"model": model} if model else {})


def test_what_another_model_did_for_a_call_is_a_run_beside_it(recorded: Recorded) -> None:
    with (
        runtally.context(session="s", tags=["a"], metadata={"feature": "search"}),
        runtally.run("anthropic", "m") as run,
    ):
        run.usage({"input_tokens": 7, "output_tokens": 5, "iterations": [entry("advisor_message", 900, "advisor")]})

    whole, part = recorded.runs
    assert (whole["model"], whole["inputTokens"], whole["outputTokens"]) == ("m", 7, 5)
    assert (part["model"], part["inputTokens"], part["outputTokens"]) == ("advisor", 900, 900)
    assert (part["runId"], part["provider"], part["sessionId"]) == (f"{whole['runId']}-0", "anthropic", "s")
    assert part["metadata"] == {"feature": "search", "partOf": whole["runId"]}
    assert (part["timestamp"], part["tags"]) == (whole["timestamp"], ["a"])
    assert {"latencyMs", "status"}.isdisjoint(part)


def test_a_stream_that_told_no_tokens_says_once_how_to_ask_for_them(
    recorded: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    _call.say_how_to_ask.cache_clear()  # Another test's stream may have said it.
    end = {"object": "chat.completion.chunk", "choices": [{"finish_reason": "stop"}]}
    told = {"object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}
    for parts in ([end, told], [end], [end]):
        with runtally.run("openai", "gpt-4o-mini") as run:
            for part in parts:
                run.see(part)

    assert len(recorded.runs) == 3
    (line,) = [one.getMessage() for one in caplog.records]
    assert "instrument(stream_usage=True) asks for them" in line


def test_a_call_that_a_fallback_answered_is_the_fallbacks(recorded: Recorded) -> None:
    with runtally.run("anthropic", "asked") as run:
        steps = [entry("message", 9), entry("fallback_message", 7, "answered")]
        run.usage({"input_tokens": 7, "output_tokens": 7, "iterations": steps})

    assert (recorded.run["model"], recorded.run["inputTokens"]) == ("answered", 7)
    assert recorded.run["metadata"] == {"requestedModel": "asked"}


def test_a_fallback_that_is_in_no_sum_is_a_run_beside_the_call(recorded: Recorded) -> None:
    with runtally.run("anthropic", "asked") as run:
        steps = [entry("message", 7), entry("fallback_message", 9, "answered")]
        run.usage({"input_tokens": 7, "output_tokens": 7, "iterations": steps})

    assert [(each["model"], each["inputTokens"]) for each in recorded.runs] == [("asked", 7), ("answered", 9)]


@pytest.mark.parametrize(
    ("host", "provider"),
    [
        ("api.openai.com", "openai"),
        ("localhost", "openai"),
        ("10.0.0.7", "openai"),
        ("llm.example.com", "openai"),
        ("gateway.ai.cloudflare.com", "openai"),
        ("api.cloudflare.com", "cloudflare"),
        ("router.huggingface.co", "huggingface"),
        ("api.sambanova.ai", "sambanova"),
        ("api.z.ai", "zai"),
        ("open.bigmodel.cn", "zhipuai"),
        ("api.minimaxi.com", "minimax"),
        ("adb-1.2.azuredatabricks.net", "databricks"),
        ("oai.endpoints.kepler.ai.cloud.ovh.net", "ovhcloud"),
        ("api.x.ai", "x-ai"),
        ("bedrock-runtime.us-west-2.amazonaws.com", "aws"),
        ("my.openai.azure.com", "azure"),
    ],
)
def test_a_host_says_whose_server_it_is(host: str, provider: str) -> None:
    client = SimpleNamespace(base_url=SimpleNamespace(host=host))
    assert _sdks.provider_of(client, "openai") == provider


def begin(provider: str | None, model: str | None) -> runtally.Call:
    return runtally.run(provider or "", model or "")


class Connection:
    """As one of OpenAI's, whose events are what was received."""

    _connection = SimpleNamespace(request=SimpleNamespace(headers={"Host": "api.openai.com"}))

    def parse_event(self, event: Any) -> Any:  # noqa: ANN401  # As the SDK's.
        return event


def test_a_session_of_live_is_charged_by_its_seconds_beside_what_it_asked(recorded: Recorded) -> None:
    asked = {"id": "r", "model": "gpt-6-luna", "status": "completed", "usage": RESPONSES_USAGE}
    module = SimpleNamespace(LiveConnection=type("LiveConnection", (Connection,), dict(vars(Connection))))
    undo = list(_turns.patch_realtime(begin, _stream_usage=False, module=module))
    connection = module.LiveConnection()
    for event in (
        {"type": "session.started", "session": {"model": "gpt-live-1"}},
        {
            "type": "response.event",
            "event": {"type": "response.created", "response": {"id": "r", "model": "gpt-6-luna"}},
        },
        {"type": "response.event", "event": {"type": "response.completed", "response": asked}},
        {"type": "session.usage.updated", "usage": {"seconds": 61}},
        {"type": "session.closed", "session": {"model": "gpt-live-1"}, "usage": {"seconds": 127, "paused_seconds": 7}},
    ):
        assert connection.parse_event(event) is event

    backend, live = recorded.runs
    assert backend.items() >= {**WHOLE, "provider": "openai", "model": "gpt-6-luna"}.items()
    assert (live["model"], live["units"], live["latencyMs"]) == ("gpt-live-1", {"audioSeconds": 127}, 127_000)
    assert len(undo) == 1


async def test_a_session_of_speech_of_the_agents_sdk_has_its_audio_and_what_was_written_down(
    recorded: Recorded,
) -> None:
    class Model:
        _websocket = Connection._connection  # noqa: SLF001

        async def _handle_ws_event(self, event: Any) -> Any:  # noqa: ANN401  # As the SDK's.
            return event

    module = SimpleNamespace(OpenAIRealtimeWebSocketModel=Model)
    (undo,) = _turns.patch_voice(begin, _stream_usage=False, module=module)
    heard = {"type": "tokens", "input_tokens": 709, "output_tokens": 29, "input_token_details": {"audio_tokens": 709}}
    spoken = {
        "input_tokens": 1007,
        "output_tokens": 503,
        "input_token_details": {
            "audio_tokens": 390,
            "cached_tokens": 203,
            "cached_tokens_details": {"audio_tokens": 103},
        },
        "output_token_details": {"audio_tokens": 401},
    }
    session = {"model": "gpt-realtime-2", "audio": {"input": {"transcription": {"model": "gpt-4o-transcribe"}}}}
    model = Model()
    for event in (
        {"type": "session.created", "session": session},
        {"type": "conversation.item.input_audio_transcription.completed", "usage": heard},
        {"type": "response.done", "response": {"id": "r", "status": "completed", "usage": spoken}},
    ):
        assert await model._handle_ws_event(event) is event  # noqa: SLF001
    undo()

    written, answer = recorded.runs
    assert (written["model"], written["audioInputTokens"]) == ("gpt-4o-transcribe", 709)
    assert (answer["model"], answer["inputTokens"]) == ("gpt-realtime-2", 1007)
    assert (answer["audioInputTokens"], answer["audioOutputTokens"], answer["units"]) == (
        287,
        401,
        {"cachedAudioInput": 103},
    )


def test_an_answer_in_the_background_is_one_run_once_it_is_there(recorded: Recorded) -> None:
    queued = {"id": "resp_1", "background": True, "status": "queued", "model": "o3-pro"}
    done = {
        **queued,
        "status": "completed",
        "usage": RESPONSES_USAGE,
        "created_at": 1_793_620_800,
        "completed_at": 1_793_620_842,
    }
    asked = runtally.run("openai", "o3-pro")
    asked.see(queued)
    asked.end()
    for answer in (queued, done, done, {**done, "id": "resp_2", "background": False}):
        call = runtally.run("openai", "o3-pro")
        call.is_retrieved = True
        call.see(answer)
        call.end()

    first, again = recorded.runs
    assert first == again
    assert first.items() >= {**WHOLE, "runId": "resp_1", "latencyMs": 42_000}.items()
    assert first["timestamp"] == "2026-11-02T12:00:00+00:00"


@pytest.mark.parametrize(
    ("method", "url", "expected"),
    [
        ("get", "/responses/resp_1", True),
        ("get", "/responses/resp_1?beta=true", True),
        ("get", "/responses/resp_1/input_items", False),
        ("post", "/responses/resp_1", False),
        ("get", "/models", False),
    ],
)
def test_an_answer_is_retrieved_by_its_address(method: str, url: str, *, expected: bool) -> None:
    assert _sdks.is_retrieval(SimpleNamespace(method=method, url=url)) is expected
