#!/usr/bin/env bash
# AG2's own spans say what a call used twice: once in the span of the call, and again in one named `record_usage`, which is marked by no operation. What an agent used that is
# another's tool stands in a third. Who adds up the tokens of spans charges two or three times for a call.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install 'ag2[openai]==1.2.1' openai==3.57.0 opentelemetry-sdk==1.45.2 > /dev/null 2>&1 || exit 2
timeout 100 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

from ag2 import Agent
from ag2.config.openai import OpenAIConfig
from ag2.middleware.builtin.telemetry import TelemetryMiddleware
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

USAGE = {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314}
asked = []


class OpenAI(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)))
        asked.append(self.path)
        message, reason = {"role": "assistant", "content": "Hello."}, "stop"
        if body.get("tools") and not any(each["role"] == "tool" for each in body["messages"]):
            function = body["tools"][0]["function"]
            arguments = json.dumps(dict.fromkeys(function["parameters"].get("properties", {}), "Greet."))
            call = {"id": "t", "type": "function", "function": {"name": function["name"], "arguments": arguments}}
            message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        choice = {"index": 0, "finish_reason": reason, "message": message}
        answer = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5.4", "choices": [choice], "usage": USAGE}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), OpenAI)
threading.Thread(target=server.serve_forever, daemon=True).start()
config = OpenAIConfig(model="gpt-5.4", api_key="k", base_url=f"http://127.0.0.1:{server.server_port}/v1")
kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))


def agent(name, **more):
    return Agent(name, config=config, middleware=[TelemetryMiddleware(tracer_provider=provider, agent_name=name)], **more)


async def ask(agent):
    kept.clear(), asked.clear()
    await agent.ask("Hello")
    said = {}
    for span in kept.get_finished_spans():
        if tokens := span.attributes.get("gen_ai.usage.input_tokens"):
            name = span.name.replace(" gpt-5.4", "")
            said[name] = said.get(name, 0) + tokens
    return len(asked), said


print("ag2", version("ag2"))
print("guess: the input tokens of the spans of an answer are 2,903 for each request")
one = asyncio.run(ask(agent("one")))
team = asyncio.run(ask(agent("boss", tools=[agent("helper").as_tool(description="It greets.")])))
for name, (requests, said) in {"an agent": one, "an agent with another as its tool": team}.items():
    print(f"seen: {name}: {requests} requests, {2903 * requests} tokens; spans say {sum(said.values())}:", said)
twice = {"chat": 2903, "record_usage model_call": 2903}
sys.exit(0 if one == (1, twice) and team == (3, {"chat": 8709, "record_usage model_call": 8709, "record_usage subtask": 2903}) else 1)
PY
