#!/usr/bin/env bash
# OpenAI's flex tier costs half; of three packages that record calls only one says for each answer which tier it had, and none for each stream.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install openai==3.57.0 braintrust==0.48.1 pytest opentelemetry-sdk==1.45.0 \
  openinference-instrumentation-openai==0.1.66 opentelemetry-instrumentation-openai==0.62.4 > /dev/null 2>&1 || exit 2
cat > "$folder/try.py" <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

CHUNK = {"id": "c", "created": 1, "model": "gpt-5.4", "service_tier": "flex"}
USAGE = {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314}


class OpenAI(BaseHTTPRequestHandler):
    def do_POST(self):
        is_stream = json.loads(self.rfile.read(int(self.headers["Content-Length"]))).get("stream")
        text, part = {"role": "assistant", "content": "Hello."}, {**CHUNK, "object": "chat.completion.chunk"}
        parts = [{**part, "choices": [{"index": 0, "delta": text, "finish_reason": "stop"}]}, {**part, "choices": [], "usage": USAGE}]
        whole = {**CHUNK, "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": text}], "usage": USAGE}
        body = "".join(f"data: {json.dumps(each)}\n\n" for each in parts) + "data: [DONE]\n\n" if is_stream else json.dumps(whole)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if is_stream else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), OpenAI)
threading.Thread(target=server.serve_forever, daemon=True).start()
import openai


def said(client, taken):
    """Whether what was recorded of an answer, and of a stream, names the tier that answered, and not only the one that was asked for."""
    ask = {"model": "gpt-5.4", "messages": [{"role": "user", "content": "Hello"}]}
    client.chat.completions.create(**ask)
    answer = taken()
    for _ in client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}):
        pass
    return ["flex" in str(answer), "flex" in str(taken())]


package = sys.argv[1]
client = openai.OpenAI(api_key="x", base_url=f"http://127.0.0.1:{server.server_port}/v1")
if package == "braintrust":
    import braintrust.logger
    from braintrust.test_helpers import init_test_logger

    init_test_logger("p")
    with braintrust.logger._internal_with_memory_background_logger() as kept:
        found = said(braintrust.wrap_openai(client), lambda: [event.get("metrics", {}) | event.get("metadata", {}) for event in kept.pop()])
else:
    from importlib import import_module

    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    module = {"openinference-instrumentation-openai": "openinference.instrumentation.openai"}.get(package, "opentelemetry.instrumentation.openai")
    import_module(module).OpenAIInstrumentor().instrument(tracer_provider=provider)

    def taken():
        spans = [{name: value for name, value in span.attributes.items() if name != "output.value"} for span in kept.get_finished_spans()]
        kept.clear()
        return spans

    found = said(client, taken)
print(json.dumps(found))
print(package, version(package), "with openai", version("openai"), "- an answer's tier:", found[0], "- a stream's:", found[1], file=sys.stderr)
PY
echo "guess: what is recorded of a call names the service tier that its answer names"
seen=""
for package in braintrust openinference-instrumentation-openai opentelemetry-instrumentation-openai; do
  seen+="$(timeout 100 "$folder/v/bin/python" -W ignore "$folder/try.py" "$package" 2> "$folder/said" | tail -1)"; tail -1 "$folder/said"
done
[ "$seen" = "[false, false][false, false][true, false]" ] || { echo "now: $seen"; exit 1; }
