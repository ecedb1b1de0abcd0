#!/usr/bin/env bash
# google-genai: an answer for which Python functions were called has the usage of the last request alone.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install google-genai==3.6.1 openinference-instrumentation-google-genai==1.4.14 \
  opentelemetry-sdk==1.45.0 > /dev/null 2>&1 || exit 2
cat > "$folder/try.py" <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

served = []


class Gemini(BaseHTTPRequestHandler):
    """Asks for a function first, and answers then."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        part, usage = ({"functionCall": {"name": "weather", "args": {"city": "Rome"}}}, (1009, 31)) if len(served) % 2 == 0 else ({"text": "Sunny."}, (2017, 53))
        served.append(usage)
        counts = {"promptTokenCount": usage[0], "candidatesTokenCount": usage[1], "totalTokenCount": sum(usage)}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        body = json.dumps({"candidates": [candidate], "usageMetadata": counts, "modelVersion": "gemini-2.5-pro"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Gemini)
threading.Thread(target=server.serve_forever, daemon=True).start()

from openinference.instrumentation.google_genai import GoogleGenAIInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

kept, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
GoogleGenAIInstrumentor().instrument(tracer_provider=provider)

from google import genai
from google.genai import types


def weather(city: str) -> str:
    """The weather in a city."""
    return "sun"


client = genai.Client(api_key="x", http_options=types.HttpOptions(base_url=f"http://127.0.0.1:{server.server_port}"))
options = types.GenerateContentConfig(tools=[weather])
chat = client.chats.create(model="gemini-2.5-pro", config=options).send_message("The weather in Rome?").usage_metadata
kept.clear()
direct = client.models.generate_content(model="gemini-2.5-pro", contents="The weather in Rome?", config=options).usage_metadata
spans = [span.attributes.get("llm.token_count.prompt") for span in kept.get_finished_spans()]
print("google-genai", version("google-genai"), "openinference-instrumentation-google-genai", version("openinference-instrumentation-google-genai"))
print("guess: the usage of an answer, and its spans, have the 3,026 input tokens of both requests")
seen = len(served), chat.prompt_token_count, direct.prompt_token_count, spans
print("seen: {} requests; a chat's answer has {}, that of generate_content {}, OpenInference's spans of the latter {}".format(*seen))
sys.exit(0 if seen == (4, 2017, 2017, [2017]) else 1)
PY
timeout 60 "$folder/v/bin/python" -W ignore "$folder/try.py" 2> /dev/null
