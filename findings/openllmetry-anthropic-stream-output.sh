#!/usr/bin/env bash
# OpenLLMetry: the output of a streamed answer of Anthropic is the sum of two counts, of which the second one already holds the first: up to 8 tokens too many
# each, and for a classifier whose answer is one word, twice what is charged.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install anthropic==2.14.0 opentelemetry-sdk==1.45.0 opentelemetry-instrumentation-anthropic==0.62.4 > /dev/null 2>&1 || exit 2
timeout 120 "$folder/v/bin/python" -W ignore - <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "claude-opus-4-6", "content": [], "stop_reason": None, "stop_sequence": None}
EVENTS = [
    {"type": "message_start", "message": {**MESSAGE, "usage": {"input_tokens": 1019, "output_tokens": 3}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Yes."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]


class Anthropic(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Anthropic)
threading.Thread(target=server.serve_forever, daemon=True).start()
import anthropic
from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

kept, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
AnthropicInstrumentor().instrument(tracer_provider=provider)
client = anthropic.Anthropic(api_key="x", base_url=f"http://127.0.0.1:{server.server_port}")
hello = {"model": "claude-opus-4-6", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
for _ in client.messages.create(**hello, stream=True):
    pass
with client.messages.stream(**hello) as stream:
    final = stream.get_final_message().usage.output_tokens
seen = [span.attributes["gen_ai.usage.output_tokens"] for span in kept.get_finished_spans() if span.instrumentation_scope.name.startswith("opentelemetry")]
print("opentelemetry-instrumentation-anthropic", version("opentelemetry-instrumentation-anthropic"), "anthropic", version("anthropic"))
print("guess: 5, what the last event of the stream says and the SDK's final message has:", final)
print("seen:", seen)
sys.exit(0 if final == 5 and seen == [8, 8] else 1)
PY
