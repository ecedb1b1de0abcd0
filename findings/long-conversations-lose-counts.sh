#!/usr/bin/env bash
# OpenInference: a conversation of 61 messages fills the 128 attributes that a span may have. In JavaScript its token counts are what does not fit, in
# Python its provider, session and user: the longest calls, which cost most, have no cost, or nobody's.
set -euo pipefail
folder=$(mktemp -d); trap 'kill %1 2> /dev/null || true; rm -rf "$folder"' EXIT
command -v npm > /dev/null || exit 2
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install openai==3.57.0 opentelemetry-sdk==1.45.0 openinference-instrumentation-openai==0.1.66 > /dev/null 2>&1 || exit 2
npm install --silent --no-audit --no-fund --prefix "$folder" openai@6.49.0 @arizeai/openinference-instrumentation-openai@4.2.7 @opentelemetry/sdk-trace-node@2.12.1 > /dev/null 2>&1 || exit 2
cat > "$folder/vendor.py" <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

ANSWER = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5.4", "usage": {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314},
          "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}]}


class Vendor(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Vendor)
print(server.server_port, flush=True)
server.serve_forever()
PY
cat > "$folder/try.py" <<'PY'
import json
import sys

import openai
from openinference.instrumentation import using_attributes
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

kept, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
OpenAIInstrumentor().instrument(tracer_provider=provider)
client = openai.OpenAI(api_key="x", base_url=sys.argv[1])
for count in (1, 61):
    with using_attributes(session_id="s", user_id="u"):
        client.chat.completions.create(model="gpt-5.4", messages=[{"role": ("user", "assistant")[each % 2], "content": "Hello"} for each in range(count)])
print(json.dumps([dict(span.attributes) for span in kept.get_finished_spans()]))
PY
cat > "$folder/try.mjs" <<'JS'
import { OpenAIInstrumentation } from "@arizeai/openinference-instrumentation-openai";
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import OpenAI from "openai";

const kept = new InMemorySpanExporter();
new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(kept)] }).register();
new OpenAIInstrumentation().manuallyInstrument(OpenAI);
const client = new OpenAI({ apiKey: "x", baseURL: process.argv[2] });
for (const length of [1, 61]) {
  const messages = Array.from({ length }, (_, each) => ({ role: ["user", "assistant"][each % 2], content: "Hello" }));
  await client.chat.completions.create({ model: "gpt-5.4", messages });
}
console.log(JSON.stringify(kept.getFinishedSpans().map((span) => span.attributes)));
JS
python3 "$folder/vendor.py" > "$folder/port" &
for _ in $(seq 100); do [ -s "$folder/port" ] && break; sleep 0.1; done
url="http://127.0.0.1:$(cat "$folder/port")/v1"
for limit in "" 4096; do
  if [ -n "$limit" ]; then export OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=$limit; fi
  timeout 60 "$folder/v/bin/python" -W ignore "$folder/try.py" "$url" > "$folder/python$limit" 2> /dev/null || exit 2
  timeout 60 node "$folder/try.mjs" "$url" > "$folder/javascript$limit" 2> /dev/null || exit 2
done
python3 - "$folder" <<'PY'
import json
import sys

NAMES = {"llm.token_count.prompt": "prompt", "llm.token_count.completion": "completion", "llm.system": "provider", "session.id": "session", "user.id": "user"}


def left(file):
    return [{each for name, each in NAMES.items() if name in span} for span in json.load(open(f"{sys.argv[1]}/{file}"))]


print("openinference-instrumentation-openai 0.1.66 (Python), 4.2.7 (JavaScript); opentelemetry-sdk 1.45.0, sdk-trace-node 2.12.1")
print("guess: a span of 61 messages has what a span of one has, and the messages that fit")
found = {}
for language in ("python", "javascript"):
    short, long = left(language)
    found[language] = short - long
    print(f"seen in {language}: without {', '.join(sorted(short - long)) or 'nothing less'}; with OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=4096:",
          f"without {', '.join(sorted(left(language)[0] - left(language + '4096')[1])) or 'nothing less'}")
sys.exit(0 if found == {"python": {"provider", "session", "user"}, "javascript": {"prompt", "completion"}} else 1)
PY
