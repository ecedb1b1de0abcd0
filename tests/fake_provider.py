"""An imitation of OpenAI's, Anthropic's and Gemini's interfaces on 127.0.0.1, for tests that drive real SDKs.

Each answer has the same id, the same tokens and the text `CANARY`, which may appear nowhere in what Runtally stores. Traits are
path segments in front of the provider's own path, so that any SDK in any language chooses them by its base URL:
`provider.openai("tools")` is `http://127.0.0.1:<port>/tools/v1`. `python -m tests.fake_provider` serves until it is stopped.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]

CANARY = "canary-of-the-answer"
RESPONSE_ID = "the-same-id-for-all"
WORDS = (CANARY, " and", " more")
PATIENCE_SECONDS = 60.0

TRAITS = {
    "429": "Refuse with 429.",
    "500": "Fail with 500.",
    "flaky": "Fail with 500 at every first try of two.",
    "slow": "Answer only when the test ends.",
    "held": "Hold a stream in its middle until the test ends.",
    "groq": "Tell the usage of a stream of chat as Groq does.",
    "llama": "Tell the timings of a stream of chat as llama.cpp's server does.",
    "cut": "Break the connection in the middle of a stream.",
    "short": "End a stream in order, but before its last events, as a proxy with a time limit does.",
    "tools": "Answer with a call of a tool.",
    "no-usage": "Leave out the usage, as some servers that imitate OpenAI or Gemini do.",
    "costs": "Say what the call cost, as OpenRouter does.",
    "advisor": "Say what an advisor of another model used, as Anthropic does.",
}

# Each provider counts the same call in its own way: 1,200 tokens in, 1,000 of them cached; 350 out, 200 of them reasoning.
CHAT_USAGE: Json = {
    "prompt_tokens": 1200,
    "completion_tokens": 350,
    "total_tokens": 1550,
    "prompt_tokens_details": {"cached_tokens": 1000, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 200, "audio_tokens": 0},
}
RESPONSES_USAGE: Json = {
    "input_tokens": 1200,
    "input_tokens_details": {"cached_tokens": 1000},
    "output_tokens": 350,
    "output_tokens_details": {"reasoning_tokens": 200},
    "total_tokens": 1550,
}
EMBEDDING_USAGE: Json = {"prompt_tokens": 8, "total_tokens": 8}
# Anthropic does not count what was cached or written among its input, and does not tell reasoning apart.
ANTHROPIC_USAGE: Json = {
    "input_tokens": 150,
    "cache_read_input_tokens": 1000,
    "cache_creation_input_tokens": 50,
    "output_tokens": 350,
}
GEMINI_USAGE: Json = {
    "promptTokenCount": 1200,
    "cachedContentTokenCount": 1000,
    "candidatesTokenCount": 150,
    "thoughtsTokenCount": 200,
    "totalTokenCount": 1550,
}
IMAGE_USAGE: Json = {
    "input_tokens": 7,
    "output_tokens": 4003,
    "total_tokens": 4010,
    "input_tokens_details": {"text_tokens": 7, "image_tokens": 0},
}
INTERACTION_USAGE: Json = {
    "total_input_tokens": 1200,
    "total_cached_tokens": 1000,
    "total_output_tokens": 150,
    "total_thought_tokens": 200,
    "total_tokens": 1550,
}
AT = "2026-11-25T12:00:00Z"


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    path: str
    traits: frozenset[str]
    body: Json
    headers: dict[str, str]


@dataclass
class Provider:
    """The running server: where it is, and what it was asked."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def openai(self, *traits: str) -> str:
        """Give the base URL for OpenAI's SDKs."""
        return f"{self.anthropic(*traits)}/v1"

    def anthropic(self, *traits: str) -> str:
        """Give the base URL for Anthropic's SDKs."""
        assert set(traits) <= TRAITS.keys()
        return "/".join((self.url, *traits))

    gemini = anthropic

    def take(self, asked: Asked) -> int:
        """Keep a request, and count it."""
        with self.lock:
            self.asked.append(asked)
            return len(self.asked)


# What is answered -----------------------------------------------------------------------------------------------------------

Frames = Iterator[tuple[str | None, Json | str]]
"""Events of a stream: their names, if they have any, and data."""


def chat(asked: Asked) -> Json:
    tools = "tools" in asked.traits
    message: Json = {"role": "assistant", "content": None if tools else "".join(WORDS), "refusal": None}
    if tools:
        message["tool_calls"] = [
            {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": f'{{"at": "{CANARY}"}}'}}
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if tools else "stop"}
    return _chat_frame(asked, "chat.completion", [choice]) | _usage(asked, CHAT_USAGE)


def chat_stream(asked: Asked) -> Frames:
    deltas: list[Json] = [{"role": "assistant", "content": ""}, *({"content": word} for word in WORDS)]
    if "tools" in asked.traits:
        function = {"name": "look", "arguments": f'{{"at": "{CANARY}"}}'}
        deltas[1:] = [{"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}]
    for delta in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        yield None, _chat_frame(asked, "chat.completion.chunk", [choice])
    reason = "tool_calls" if "tools" in asked.traits else "stop"
    last = {"index": 0, "delta": {}, "finish_reason": reason}
    told: Json = {"x_groq": {"id": RESPONSE_ID, "usage": CHAT_USAGE}} if "groq" in asked.traits else {}
    if "llama" in asked.traits:
        told |= {
            "timings": {"cache_n": 1000, "prompt_n": 200, "prompt_ms": 16.1, "predicted_n": 350, "predicted_ms": 2.3}
        }
    yield None, _chat_frame(asked, "chat.completion.chunk", [last]) | told
    if (asked.body.get("stream_options") or {}).get("include_usage"):
        yield None, _chat_frame(asked, "chat.completion.chunk", []) | _usage(asked, CHAT_USAGE)
    yield None, "[DONE]"


def _chat_frame(asked: Asked, kind: str, choices: list[Json]) -> Json:
    model = f"{asked.body['model']}-2024-07-18"
    return {"id": RESPONSE_ID, "object": kind, "created": 1_760_000_000, "model": model, "choices": choices}


def responses(asked: Asked) -> Json:
    item: Json = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "".join(WORDS), "annotations": [], "logprobs": []}],
    }
    if "tools" in asked.traits:
        arguments = f'{{"at": "{CANARY}"}}'
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": arguments}
    return _response(asked, "completed", [item]) | _usage(asked, RESPONSES_USAGE)


def responses_stream(asked: Asked) -> Frames:
    done = responses(asked)
    item = done["output"][0]
    place = {"output_index": 0, "item_id": item["id"], "content_index": 0}
    begun = {"output_index": 0, "item": item | {"status": "in_progress", "content": []}}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    events: list[tuple[str, Json]] = [
        ("response.created", {"response": _response(asked, "in_progress", [])}),
        ("response.in_progress", {"response": _response(asked, "in_progress", [])}),
        ("response.output_item.added", begun if item["type"] == "message" else {"output_index": 0, "item": item}),
    ]
    if item["type"] == "message":
        events.append(("response.content_part.added", place | {"part": part}))
        events += [("response.output_text.delta", place | {"delta": word, "logprobs": []}) for word in WORDS]
        events.append(("response.output_text.done", place | {"text": "".join(WORDS), "logprobs": []}))
        events.append(("response.content_part.done", place | {"part": item["content"][0]}))
    events.append(("response.output_item.done", {"output_index": 0, "item": item}))
    events.append(("response.completed", {"response": done}))
    for number, (name, data) in enumerate(events):
        yield name, {"type": name, "sequence_number": number, **data}


def compaction(asked: Asked) -> Json:
    about = {"id": RESPONSE_ID, "object": "response.compaction", "created_at": 1_760_000_000, "output": []}
    return about | _usage(asked, RESPONSES_USAGE)


def _response(asked: Asked, status: str, output: list[Json]) -> Json:
    return {
        "id": RESPONSE_ID,
        "object": "response",
        "created_at": 1_760_000_000,
        "status": status,
        "model": f"{asked.body['model']}-2024-07-18",
        "output": output,
        "usage": None,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
    }


def decision(asked: Asked) -> Json:
    return {"model": asked.body["model"], "answers": [], "usage": RESPONSES_USAGE}


def embeddings(asked: Asked) -> Json:
    # SDKs ask for base64 where the caller does not choose: two floats of 0.
    vector = "AAAAAAAAAAA=" if asked.body.get("encoding_format") == "base64" else [0.0, 0.0]
    data = [{"object": "embedding", "index": 0, "embedding": vector}]
    return {"object": "list", "data": data, "model": asked.body["model"]} | _usage(asked, EMBEDDING_USAGE)


def messages(asked: Asked) -> Json:
    tools = "tools" in asked.traits
    block: Json = {"type": "text", "text": "".join(WORDS)}
    if tools:
        block = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": CANARY}}
    stop = {"stop_reason": "tool_use" if tools else "end_turn", "stop_sequence": None}
    advice = {**ANTHROPIC_USAGE, "type": "advisor_message", "model": "claude-opus-4-6"}
    iterations = {"iterations": [advice]} if "advisor" in asked.traits else {}
    return _message(asked, [block]) | stop | {"usage": ANTHROPIC_USAGE | iterations}


def messages_stream(asked: Asked) -> Frames:
    tools = "tools" in asked.traits
    block: Json = {"type": "text", "text": ""}
    deltas: list[Json] = [{"type": "text_delta", "text": word} for word in WORDS]
    if tools:
        block = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": f'{{"at": "{CANARY}"}}'}]
    stop = {"stop_reason": "tool_use" if tools else "end_turn", "stop_sequence": None}
    # The first event reports the input tokens, the last one the output tokens.
    begun = {"usage": ANTHROPIC_USAGE | {"output_tokens": 1}}
    ended = {"usage": {"output_tokens": ANTHROPIC_USAGE["output_tokens"]}}
    events: list[Json] = [
        {"type": "message_start", "message": _message(asked, []) | begun},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop} | ended,
        {"type": "message_stop"},
    ]
    for event in events:
        yield event["type"], event


def _message(asked: Asked, content: list[Json]) -> Json:
    return {
        "id": RESPONSE_ID,
        "type": "message",
        "role": "assistant",
        "model": f"{asked.body['model']}-20250929",
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
    }


def gemini(asked: Asked) -> Json:
    part: Json = {"text": "".join(WORDS)}
    if "tools" in asked.traits:
        part = {"functionCall": {"name": "look", "args": {"at": CANARY}}}
    return _gemini_frame(asked, part, "STOP") | _gemini_usage(asked, GEMINI_USAGE)


def gemini_stream(asked: Asked) -> Frames:
    for word in WORDS[:-1]:
        # Each event reports the tokens used so far.
        so_far = GEMINI_USAGE | {"candidatesTokenCount": 1, "totalTokenCount": 1401}
        yield None, _gemini_frame(asked, {"text": word}, None) | _gemini_usage(asked, so_far)
    yield None, _gemini_frame(asked, {"text": WORDS[-1]}, "STOP") | _gemini_usage(asked, GEMINI_USAGE)


def gemini_embeddings(_asked: Asked) -> Json:
    return {"embeddings": [{"values": [0.0, 0.0], "statistics": {"tokenCount": 8}}]}


def _gemini_frame(asked: Asked, part: Json, reason: str | None) -> Json:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": [part]}}
    if reason:
        candidate["finishReason"] = reason
    model = asked.path.rpartition("/")[2].partition(":")[0]
    return {"responseId": RESPONSE_ID, "modelVersion": f"{model}-001", "candidates": [candidate]}


def _usage(asked: Asked, usage: Json) -> Json:
    costs = {"cost": 0.0123} if "costs" in asked.traits else {}
    return {} if "no-usage" in asked.traits else {"usage": usage | costs}


def _gemini_usage(asked: Asked, usage: Json) -> Json:
    return {} if "no-usage" in asked.traits else {"usageMetadata": usage}


def images(asked: Asked) -> Json:
    made: list[Json] = [{"b64_json": "aW1hZ2U="}] * asked.body.get("n", 1)
    usage = {"usage": IMAGE_USAGE} if asked.body["model"].startswith("gpt") else {}
    return {"created": 1_760_000_000, "data": made} | usage


def transcription(asked: Asked) -> Json:
    return {"text": CANARY, "usage": {"type": "duration", "seconds": 12.5}}


def speech(asked: Asked) -> Json:
    return {"audio": CANARY}


def interaction(asked: Asked) -> Json:
    about = {"id": "interaction-1", "object": "interaction", "status": "completed", "model": asked.body["model"]}
    output = [{"type": "model_output", "content": [{"type": "text", "text": CANARY}]}]
    return about | {"created": AT, "updated": AT, "steps": output, "outputs": output, "usage": INTERACTION_USAGE}


def interaction_stream(asked: Asked) -> Frames:
    whole = interaction(asked)
    started = {"id": whole["id"], "object": "interaction", "status": "in_progress"}
    for name, about in (("created", started), ("completed", whole)):
        event = {"event_type": f"interaction.{name}", "interaction": about, "event_id": name}
        yield f"interaction.{name}", event


ANSWERS = {
    "/images/generations": (images, None),
    "/audio/transcriptions": (transcription, None),
    "/audio/speech": (speech, None),
    "/interactions": (interaction, interaction_stream),
    "/chat/completions": (chat, chat_stream),
    "/responses": (responses, responses_stream),
    "/responses/compact": (compaction, None),
    "/decisions": (decision, None),
    "/embeddings": (embeddings, None),
    "/messages": (messages, messages_stream),
    ":generateContent": (gemini, None),
    ":streamGenerateContent": (gemini, gemini_stream),
    ":batchEmbedContents": (gemini_embeddings, None),
}


# How it is served -----------------------------------------------------------------------------------------------------------


@contextmanager
def running_provider(port: int = 0) -> Iterator[Provider]:
    """Serve on 127.0.0.1 until the block ends; calls that still wait then are let go."""
    provider = Provider()

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Clients that gave up leave broken connections."""

    handler = type("Handler", (_Handler,), {"provider": provider})
    with Server(("127.0.0.1", port), handler) as server:
        provider.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield provider
        finally:
            provider.ended.set()
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Events that are written one by one must not wait for each other.
    disable_nagle_algorithm = True
    provider: Provider

    def do_POST(self) -> None:
        asked = self._read()
        number = self.provider.take(asked)
        if "slow" in asked.traits:
            self.provider.ended.wait(PATIENCE_SECONDS)
        if "429" in asked.traits:
            return self._refuse(429, "rate_limit_error")
        if "500" in asked.traits or ("flaky" in asked.traits and number % 2):
            return self._refuse(500, "api_error")
        found = next((answers for end, answers in ANSWERS.items() if asked.path.endswith(end)), None)
        if found is None:
            return self._refuse(404, "not_found_error")
        answer, stream = found
        if stream and (asked.body.get("stream") or asked.path.endswith(":streamGenerateContent")):
            return self._stream(asked, stream(asked))
        return self._answer(200, answer(asked))

    def _read(self) -> Asked:
        *traits, rest = _split(self.path.partition("?")[0])
        headers = {name.lower(): value for name, value in self.headers.items()}
        if "content-length" in headers:
            sent = self.rfile.read(int(headers["content-length"]))
        else:
            sent = b"".join(iter(self._chunk, b""))
        is_json = headers.get("content-type", "").startswith("application/json")
        return Asked(rest, frozenset(traits), json.loads(sent) if is_json else {}, headers)

    def _chunk(self) -> bytes:
        chunk = self.rfile.read(int(self.rfile.readline(), 16))
        self.rfile.readline()
        return chunk

    def _refuse(self, status: int, kind: str) -> None:
        # OpenAI's, Anthropic's and Gemini's shapes at once. SDKs repeat what they asked without a pause.
        error = {"type": kind, "code": status, "message": f"The prompt was: {CANARY}", "status": "UNAVAILABLE"}
        self._answer(status, {"type": "error", "error": error})

    def _answer(self, status: int, answer: Json) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("retry-after-ms", "1")
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, asked: Asked, frames: Frames) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, (name, data) in enumerate(frames):
            if number == len(WORDS) - 1 and "short" in asked.traits:
                break
            if number == len(WORDS) - 1 and "held" in asked.traits:
                self.provider.ended.wait(PATIENCE_SECONDS)
            if number == len(WORDS) - 1 and "cut" in asked.traits:
                self.close_connection = True
                return
            text = data if isinstance(data, str) else json.dumps(data)
            event = (f"event: {name}\n" if name else "") + f"data: {text}\n\n"
            self._write_chunk(event.encode())
        self._write_chunk(b"")

    def _write_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def _split(path: str) -> list[str]:
    """Take the traits off the front of a path: "/tools/500/v1/messages" is tools, 500 and "/v1/messages"."""
    segments = path.lstrip("/").split("/")
    traits = []
    while segments and segments[0] in TRAITS:
        traits.append(segments.pop(0))
    return [*traits, "/" + "/".join(segments)]


if __name__ == "__main__":
    with running_provider() as served:
        print(served.url, flush=True)  # noqa: T201  # The program that started it needs to know.
        threading.Event().wait()
