#!/usr/bin/env bash
# LiteLLM: the second form of its OpenTelemetry callback has the name of a group as the model that was asked.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install litellm==1.108.7 opentelemetry-sdk opentelemetry-exporter-otlp-proto-http > /dev/null 2>&1 || exit 2
LITELLM_OTEL_V2=true LITELLM_LOCAL_MODEL_COST_MAP=True OTEL_EXPORTER=otlp_http timeout 100 "$folder/v/bin/python" -W ignore - <<'PY'
import asyncio
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
ANSWER = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini-2024-07-18", "choices": [CHOICE], "usage": USAGE}
sent, has_come = [], threading.Event()


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = json.dumps(ANSWER).encode()
        if self.path == "/v1/traces":
            sent.append(body)
            answer = b""
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if answer else "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        if not answer:
            has_come.set()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
os.environ["OTEL_ENDPOINT"] = f"{url}/v1/traces"
import litellm
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

litellm.callbacks = ["otel"]
router = litellm.Router([{"model_name": "cheap", "litellm_params": {"model": "openai/gpt-4o-mini", "api_base": f"{url}/v1", "api_key": "x"}}])


async def ask():
    await router.acompletion("cheap", [{"role": "user", "content": "Hello"}])
    await asyncio.to_thread(has_come.wait, 30)


asyncio.run(ask())
spans = [span for body in sent for resource in ExportTraceServiceRequest.FromString(body).resource_spans
         for scope in resource.scope_spans for span in scope.spans]
attributes = [{each.key: each.value.string_value for each in span.attributes} for span in spans]
found = [(one.get("gen_ai.request.model"), one["litellm.provider.model"]) for one in attributes if "litellm.provider.model" in one]
print("litellm", version("litellm"))
print("guess: gen_ai.request.model is the provider's model, gpt-4o-mini, as in the first form")
print("seen:", found)
sys.exit(2 if not found else found != [("cheap", "openai/gpt-4o-mini")])
PY
