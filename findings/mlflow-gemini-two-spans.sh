#!/usr/bin/env bash
# MLflow: a call of Gemini is two spans with the same usage, and its thoughts are in the total alone.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install mlflow==3.17.2 google-genai==3.6.1 > /dev/null 2>&1 || exit 2
cat > "$folder/try.py" <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

USAGE = {"promptTokenCount": 2903, "candidatesTokenCount": 97, "thoughtsTokenCount": 1042, "totalTokenCount": 4042}
requests = []


class Gemini(BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(self.rfile.read(int(self.headers["Content-Length"])))
        candidate = {"content": {"role": "model", "parts": [{"text": "Hello."}]}, "finishReason": "STOP", "index": 0}
        body = json.dumps({"candidates": [candidate], "usageMetadata": USAGE, "modelVersion": "gemini-2.5-pro"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Gemini)
threading.Thread(target=server.serve_forever, daemon=True).start()

import mlflow
from google import genai
from google.genai import types

mlflow.set_tracking_uri(f"sqlite:///{sys.argv[1]}/mlflow.db")
mlflow.set_experiment("try")
mlflow.gemini.autolog()
client = genai.Client(api_key="x", http_options=types.HttpOptions(base_url=f"http://127.0.0.1:{server.server_port}"))
client.models.generate_content(model="gemini-2.5-pro", contents="Hello")
mlflow.flush_trace_async_logging()
[trace] = mlflow.search_traces(return_type="list")
found = [span.attributes.get("mlflow.chat.tokenUsage") for span in trace.data.spans if span.span_type == "LLM"]
print("mlflow", mlflow.__version__)
print("guess: one span of the type LLM, with 2,903 in and 1,139 out")
print(f"seen: {len(requests)} request, {len(found)} spans:", *map(json.dumps, found))
sys.exit(0 if len(found) == 2 and found[0] == found[1] and found[0]["output_tokens"] == 97 and found[0]["total_tokens"] == 4042 else 1)
PY
cd "$folder" && timeout 120 "$folder/v/bin/python" -W ignore "$folder/try.py" "$folder" 2> /dev/null
