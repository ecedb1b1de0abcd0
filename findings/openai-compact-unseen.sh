#!/usr/bin/env bash
# OpenAI's SDK asks a model in five ways that answer with the same usage: chats, responses, those of the beta, compactions of a conversation and decisions. Recorders of the SDK
# count the first two. Of a compaction, which reads the whole conversation, none of five has a token, and one has a decision's.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install openai==3.57.0 openinference-instrumentation-openai==0.1.66 opentelemetry-instrumentation-openai==0.62.4 \
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

DETAILS = {"input_tokens_details": {"cached_tokens": 2003, "cache_write_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 97}}
CHAT = {"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}]}
ANSWER = {"object": "response", "status": "completed", "output": [], "tools": [], "parallel_tool_calls": True, "tool_choice": "auto"}


class Vendor(BaseHTTPRequestHandler):
    def do_POST(self):
        asked, path = json.loads(self.rfile.read(int(self.headers["content-length"]))), self.path.partition("?")[0]
        kind = next(name for name in ("chat", "compact", "decisions", "responses") if name in path)
        taken = INPUTS["beta" if "?" in self.path else kind]
        usage = {"input_tokens": taken, "output_tokens": 411, "total_tokens": taken + 411, **DETAILS}
        if kind == "chat":
            usage = {"prompt_tokens": taken, "completion_tokens": 411, "total_tokens": taken + 411}
        about = {"chat": CHAT, "compact": {"object": "response.compaction", "output": []}, "decisions": {"answers": []}}.get(kind, ANSWER)
        body = json.dumps({"id": "r", "created": 1, "created_at": 1, "model": asked["model"], "usage": usage, **about}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


INPUTS = {"chat": 3001, "responses": 3011, "beta": 3019, "compact": 3023, "decisions": 3037}
server = HTTPServer(("127.0.0.1", 0), Vendor)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/v1"


def call(client):
    client.chat.completions.create(model="gpt-6-luna", messages=[{"role": "user", "content": "Hello."}])
    client.responses.create(model="gpt-6-luna", input="Hello.")
    client.beta.responses.create(model="gpt-6-luna", input="Hello.")
    client.responses.compact(model="gpt-6-luna", input="Hello.")
    client.decisions.create(model="gpt-6-luna", input="Hello.", questions=[])


def of_spans(instrumentor):
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    instrumentor().instrument(tracer_provider=provider)
    call(openai.OpenAI(api_key="k", base_url=url))
    instrumentor().uninstrument()
    return [value for span in spans.get_finished_spans() for value in span.attributes.values()]


def of_langsmith():
    ended = []

    class Kept(langsmith.Client):
        def create_run(self, *_, **__): ...
        def update_run(self, run_id, **run): ended.append(((run.get("outputs") or {}).get("usage_metadata") or {}).get("input_tokens"))

    client = Kept(api_url="http://127.0.0.1:9", api_key="k", auto_batch_tracing=False)
    with langsmith.tracing_context(enabled=True):
        call(wrap_openai(openai.OpenAI(api_key="k", base_url=url), tracing_extra={"client": client}))
    return ended


def of_posthog():
    events = []
    client = posthog.Posthog("k", host="http://127.0.0.1:9", before_send=lambda event: events.append(event["properties"].get("$ai_input_tokens")))
    call(OfPostHog(api_key="k", base_url=url, posthog_client=client))
    return events


RECORDERS = {
    "openinference-instrumentation-openai": lambda: of_spans(OpenInference),
    "opentelemetry-instrumentation-openai": lambda: of_spans(OpenLLMetry),
    "opentelemetry-instrumentation-genai-openai": lambda: of_spans(GenAI),
    "langsmith": of_langsmith,
    "posthog": of_posthog,
}
print(f"openai {version('openai')}\nguess: a recorder of the SDK has the tokens of each of its calls")
counted = {}
for name, record in RECORDERS.items():
    values = record()
    counted[name] = {kind for kind, count in INPUTS.items() if count in values}
    print(f"seen: {name} {version(name)} has those of {', '.join(kind for kind in INPUTS if kind in counted[name])}")
usual = all({"chat", "responses"} <= each for each in counted.values())
sys.exit(2 if not usual else 0 if not any({"compact", "beta"} & each for each in counted.values()) else 1)
PY
