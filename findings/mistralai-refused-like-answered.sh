#!/usr/bin/env bash
# Mistral's SDK: its own tracing is off beside a provider of OpenTelemetry until it is asked for, and a refused call is a span without a status.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install mistralai==3.7.0 opentelemetry-sdk==1.45.0 > /dev/null 2>&1 || exit 2
cat > "$folder/calls.py" <<'PY'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from mistralai.client import Mistral
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

USAGE = {"prompt_tokens": 2011, "completion_tokens": 97, "total_tokens": 2108, "prompt_tokens_details": {"cached_tokens": 512}}
MESSAGE = {"role": "assistant", "content": "Hello."}


class Vendor(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_refused = asked["model"] == "refused"
        body = json.dumps({"message": "slow down"} if is_refused else {
            "id": "x", "object": "chat.completion", "created": 1, "model": asked["model"], "usage": USAGE,
            "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
        }).encode()
        self.send_response(429 if is_refused else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Vendor)
threading.Thread(target=server.serve_forever, daemon=True).start()
kept, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)
client = Mistral(api_key="x", server_url=f"http://127.0.0.1:{server.server_port}", retry_config=None)
for model in ("answered", "refused"):
    try:
        client.chat.complete(model=model, messages=[{"role": "user", "content": "Hello"}])
    except Exception:
        pass
print(json.dumps([
    [span.attributes["gen_ai.request.model"], span.status.status_code.name, span.attributes.get("gen_ai.usage.cache_read.input_tokens"),
     span.attributes.get("http.response.status_code"), len(span.events)] for span in kept.get_finished_spans()
]))
PY
seen() { MISTRAL_SDK_TELEMETRY=$1 timeout 120 "$folder/v/bin/python" -W ignore "$folder/calls.py" 2> /dev/null; }
without=$(seen "") with=$(seen global)
echo "mistralai 3.7.0, opentelemetry-sdk 1.45.0: [model, status, cached tokens, HTTP status, events] of each span"
echo "guess: a provider of OpenTelemetry is enough, and a call that was refused with 429 is an error"
echo "seen: $without"
echo "seen with MISTRAL_SDK_TELEMETRY=global: $with"
[ "$without" = "[]" ] && [ "$with" = '[["answered", "OK", 512, 200, 0], ["refused", "UNSET", null, null, 0]]' ]
