#!/usr/bin/env bash
# Logfire's spans of OpenAI's SDK: a stream is a span that ends where the stream begins, without counts, and a log in a trace of its own that has them and no length.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install logfire==5.4.0 openai==3.57.0 > /dev/null 2>&1 || exit 2
HOME="$folder" timeout 60 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

import logfire
from openai import OpenAI
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5.4"}
PARTS = [CHUNK | {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}]},
         CHUNK | {"choices": [], "usage": {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314}}]


class Vendor(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"] or 0))
        body = "".join(f"data: {json.dumps(part)}\n\n" for part in PARTS) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Vendor)
threading.Thread(target=server.serve_forever, daemon=True).start()
exporter = InMemorySpanExporter()
logfire.configure(send_to_logfire=False, console=False, additional_span_processors=[SimpleSpanProcessor(exporter)])
logfire.instrument_openai()
client = OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="k")
asked = client.chat.completions.create(model="gpt-5.4", messages=[{"role": "user", "content": "Hello"}], stream=True, stream_options={"include_usage": True})
if [part.usage for part in asked][-1].prompt_tokens != 2903:
    sys.exit(2)
spans = [span for span in exporter.get_finished_spans() if span.attributes.get("logfire.span_type") != "pending_span"]
seen = [(span.attributes.get("gen_ai.usage.input_tokens"), span.end_time > span.start_time) for span in spans]
print("logfire", version("logfire"), "openai", version("openai"))
print("guess: one span with 2903 tokens in, as long as the stream")
for span, (tokens, has_length) in zip(spans, seen):
    print(f"seen: {span.attributes['logfire.span_type']}, {tokens} in, {'with' if has_length else 'without'} a length")
sys.exit(0 if seen == [(None, True), (2903, False)] and spans[0].context.trace_id != spans[1].context.trace_id else 1)
PY
