#!/usr/bin/env bash
# OpenAI's responses in the background, as its dearest models and researches are asked: the answer to the request has no usage yet, and whoever retrieves it gets the usage.
# None of five recorders has such a call once: OpenInference writes one down for each retrieval, so that who asks for a whole answer twice counts it twice, and the others never have its tokens.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install --no-compile openai==3.57.0 openinference-instrumentation-openai==0.1.66 opentelemetry-instrumentation-openai==0.62.4 \
  opentelemetry-instrumentation-genai-openai==1.3b0 opentelemetry-sdk==1.45.0 langsmith==0.15.1 posthog==7.91.1 > /dev/null 2>&1 || exit 2
timeout 200 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

import langsmith, openai, posthog
from langsmith.wrappers import wrap_openai
from openinference.instrumentation.openai import OpenAIInstrumentor as OpenInference
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor as GenAI
from opentelemetry.instrumentation.openai import OpenAIInstrumentor as OpenLLMetry
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from posthog.ai.openai import OpenAI as OfPostHog

AT_ONCE, LATER = 3011, 48017
ANSWER = {"object": "response", "created_at": 1, "model": "o3-pro", "output": [], "tools": [], "parallel_tool_calls": True, "tool_choice": "auto"}


times = {}


class Vendor(BaseHTTPRequestHandler):
    def answer(self):
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or "{}")
        is_later = self.command == "GET"
        made = self.path.rpartition("/")[2] if is_later else f"resp_{len(times)}"
        times[made] = times.get(made, 0) + 1
        is_queued, taken = bool(asked.get("background")) or (is_later and times[made] == 2), LATER if is_later else AT_ONCE
        usage = {"input_tokens": taken, "output_tokens": 411, "total_tokens": taken + 411, "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 97}}
        about = {"status": "queued", "usage": None} if is_queued else {"status": "completed", "usage": usage}
        body = json.dumps({"id": made, **ANSWER, "background": is_later or is_queued, **about}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Vendor)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/v1"


def call(client):
    client.responses.create(model="o3-pro", input="Hello.")
    queued = client.responses.create(model="o3-pro", input="Hello.", background=True)
    assert [(client.responses.retrieve(queued.id).usage or openai).__dict__.get("input_tokens") for _ in range(3)] == [None, LATER, LATER]


def of_spans(instrumentor):
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    instrumentor().instrument(tracer_provider=provider)
    call(openai.OpenAI(api_key="k", base_url=url))
    instrumentor().uninstrument()
    return [list(span.attributes.values()) for span in spans.get_finished_spans()]


def of_langsmith():
    ended = []

    class Kept(langsmith.Client):
        def create_run(self, *_, **__): ...
        def update_run(self, run_id, **run): ended.append([((run.get("outputs") or {}).get("usage_metadata") or {}).get("input_tokens")])

    client = Kept(api_url="http://127.0.0.1:9", api_key="k", auto_batch_tracing=False)
    with langsmith.tracing_context(enabled=True):
        call(wrap_openai(openai.OpenAI(api_key="k", base_url=url), tracing_extra={"client": client}))
    return ended


def of_posthog():
    events = []
    client = posthog.Posthog("k", host="http://127.0.0.1:9", before_send=lambda event: events.append([event["properties"].get("$ai_input_tokens")]))
    call(OfPostHog(api_key="k", base_url=url, posthog_client=client))
    return events


RECORDERS = {
    "openinference-instrumentation-openai": lambda: of_spans(OpenInference),
    "opentelemetry-instrumentation-openai": lambda: of_spans(OpenLLMetry),
    "opentelemetry-instrumentation-genai-openai": lambda: of_spans(GenAI),
    "langsmith": of_langsmith,
    "posthog": of_posthog,
}
print(f"openai {version('openai')}\nguess: a response in the background is recorded once with its tokens, however often it is retrieved")
seen = {}
for name, record in RECORDERS.items():
    records = record()
    if not any(AT_ONCE in each for each in records):
        sys.exit(2)
    seen[name] = len(records) - 1, sum(LATER in each for each in records)
    print(f"seen: {name} {version(name)}: of one that is retrieved three times, twice whole, {seen[name][0]} records, {seen[name][1]} with its {LATER:,} tokens")
sys.exit(1 if any(whole == 1 for _, whole in seen.values()) else 0)
PY
