#!/usr/bin/env bash
# The usage that OpenAI's Agents SDK adds up for a session of speech has neither the tokens of audio, which cost eight times as much as text, nor those of the model that writes
# down what was said, whose count the SDK leaves out of its own event: they stand in the events as the server sent them alone.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install openai-agents==0.24.0 openai==3.57.0 websockets==16.1.1 > /dev/null 2>&1 || exit 2
timeout 120 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import asyncio
import json
import sys
from importlib.metadata import version

from agents.realtime import RealtimeAgent, RealtimeRunner
from websockets.asyncio.server import serve

CACHED = {"cached_tokens": 203, "cached_tokens_details": {"text_tokens": 100, "audio_tokens": 103, "image_tokens": 0}}
USAGE = {"input_tokens": 1007, "output_tokens": 503, "total_tokens": 1510, "input_token_details": {"text_tokens": 617, "audio_tokens": 390, "image_tokens": 0, **CACHED},
         "output_token_details": {"text_tokens": 102, "audio_tokens": 401}}
HEARD = {"type": "tokens", "input_tokens": 709, "output_tokens": 29, "total_tokens": 738, "input_token_details": {"audio_tokens": 709, "text_tokens": 0}}


async def answer(socket):
    async def send(**event):
        await socket.send(json.dumps({"event_id": "e", **event}))

    await send(type="session.created", session={"type": "realtime", "object": "realtime.session", "id": "s", "model": "gpt-realtime-2"})
    async for text in socket:
        if json.loads(text)["type"] == "response.create":
            await send(type="conversation.item.input_audio_transcription.completed", item_id="i", content_index=0, transcript="Hello.", usage=HEARD)
            about = {"id": "r", "object": "realtime.response"}
            await send(type="response.created", response={**about, "status": "in_progress", "output": []})
            await send(type="response.done", response={**about, "status": "completed", "output": [], "usage": USAGE})


async def main():
    async with serve(answer, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/v1/realtime?model=gpt-realtime-2"
        runner, transcribed = RealtimeRunner(RealtimeAgent(name="a", instructions="b")), None
        async with await runner.run(model_config={"api_key": "k", "url": url}) as session:
            await session.send_message("Hello.")
            async for event in session:
                if event.type == "raw_model_event" and event.data.type == "input_audio_transcription_completed":
                    transcribed = event.data
                if event.type == "agent_end":
                    return event.info.context.usage, transcribed


usage, transcribed = asyncio.run(asyncio.wait_for(main(), 60))
counts = repr(usage)
has_audio = any(str(each) in counts for each in (390, 401, 103))
has_heard = any(str(each) in f"{counts}{transcribed}" for each in (709, 29, 738))
print("openai-agents", version("openai-agents"))
print("guess: the usage of a session has the 390 and 401 tokens of audio, and the 738 of the model that wrote down what was said")
print(f"seen: {usage.input_tokens} in, {usage.output_tokens} out, {usage.input_tokens_details.cached_tokens} cached; audio {has_audio}, what was written down {has_heard}")
sys.exit(2 if usage.input_tokens != 1007 or transcribed is None else 0 if not (has_audio or has_heard) else 1)
PY
