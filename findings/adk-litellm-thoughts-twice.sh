#!/usr/bin/env bash
# Google's ADK with a model of another vendor (`LiteLlm`): its usage has Gemini's names, where thoughts stand beside the candidates, and the vendor's count of the output in them, which holds the
# thoughts. Its span adds both up, so that its output is larger than the vendor's by all that was thought.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install google-adk==2.13.0 litellm==1.106.12 > /dev/null 2>&1 || exit 2
HOME="$folder" LITELLM_LOCAL_MODEL_COST_MAP=True timeout 150 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import asyncio
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types

ANSWER = {
    "id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5.4",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}],
    "usage": {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314, "completion_tokens_details": {"reasoning_tokens": 307}},
}


class OpenAI(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"] or 0))
        answer = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), OpenAI)
threading.Thread(target=server.serve_forever, daemon=True).start()
model = LiteLlm(model="openai/gpt-5.4", api_key="k", api_base=f"http://127.0.0.1:{server.server_port}/v1")


async def ask():
    runner = InMemoryRunner(agent=LlmAgent(model=model, name="greeter", instruction="Greet."), app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    hello = types.Content(role="user", parts=[types.Part(text="Hello")])
    return [event.usage_metadata async for event in runner.run_async(user_id="u", session_id=session.id, new_message=hello) if event.usage_metadata]


(usage,) = asyncio.run(ask())
name = "gen_ai.usage.output_tokens"
(said,) = [span.attributes[name] for span in kept.get_finished_spans() if name in span.attributes]
print("google-adk", version("google-adk"), "litellm", version("litellm"))
print("guess: the output of a span is the vendor's, 411 tokens, 307 of them reasoning")
print(f"seen: candidates {usage.candidates_token_count}, thoughts {usage.thoughts_token_count}, total {usage.total_token_count}; the span's output {said}")
sys.stdout.flush()
os._exit(0 if (usage.candidates_token_count, usage.thoughts_token_count, usage.total_token_count, said) == (411, 307, 3314, 718) else 1)
PY
