#!/usr/bin/env bash
# Mirascope knows what came out of a cache, was written to it and was thought. Its spans have input and output under OpenTelemetry's names, and the rest in JSON of its own alone; the
# model of an OpenAI call is named with the interface behind it, so that no list has a price of it.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install 'mirascope[ops,openai,anthropic,google]==2.8.2' openai==2.54.0 anthropic==0.125.0 opentelemetry-sdk==1.45.2 > /dev/null 2>&1 || exit 2
timeout 100 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

from mirascope import llm, ops
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

CHAT = {
    "id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5.4",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}],
    "usage": {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314, "prompt_tokens_details": {"cached_tokens": 2003}, "completion_tokens_details": {"reasoning_tokens": 307}},
}
MESSAGE = {
    "id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "end_turn", "stop_sequence": None, "content": [{"type": "text", "text": "Hello."}],
    "usage": {"input_tokens": 1019, "cache_read_input_tokens": 20111, "cache_creation_input_tokens": 812, "output_tokens": 704},
}


class Vendor(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"] or 0))
        answer = json.dumps(MESSAGE if self.path.endswith("/messages") else CHAT).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Vendor)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
ops.configure(tracer_provider=provider)
ops.instrument_llm()
llm.register_provider("openai", scope="openai/", base_url=url + "/v1", api_key="k")
llm.register_provider("anthropic", scope="anthropic/", base_url=url, api_key="k")
print("mirascope", version("mirascope"))
print("guess: a span names the model that was asked, and under the names of the conventions what its usage has: input, output, what was cached")
seen = []
for model in ("openai/gpt-5.4:completions", "anthropic/claude-sonnet-4-5"):
    kept.clear()
    usage = llm.Model(model).call("Hello").usage
    (span,) = kept.get_finished_spans()
    said = {name.removeprefix("gen_ai.usage."): value for name, value in span.attributes.items() if name.startswith("gen_ai.usage.")}
    own = json.loads(span.attributes["mirascope.response.usage"])
    print(f"seen: {model}: usage {usage.input_tokens} in, {usage.cache_read_tokens} cached; span of the model {span.attributes['gen_ai.request.model']}: {said}; cached in its own JSON: {own['cache_read_tokens']}")
    seen.append((span.attributes["gen_ai.request.model"], usage.cache_read_tokens, own["cache_read_tokens"], *said.items()))
expected = [
    ("openai/gpt-5.4:completions", 2003, 2003, ("input_tokens", 2903), ("output_tokens", 411)),
    ("anthropic/claude-sonnet-4-5", 20111, 20111, ("input_tokens", 21942), ("output_tokens", 704)),
]
sys.stdout.flush()
os._exit(0 if seen == expected else 1)
PY
