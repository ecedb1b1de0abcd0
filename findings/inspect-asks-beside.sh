#!/usr/bin/env bash
# Inspect, which evaluates models, asks a reasoning model of OpenAI once for a greeting before it begins, to learn whether it gives summaries of its reasoning. The vendor charges for it; neither the
# log's usage nor its list of calls has it, so that 1 evaluation of 1 sample is 2 requests.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install inspect-ai==0.3.285 openai==3.57.0 > /dev/null 2>&1 || exit 2
cd "$folder" && HOME="$folder" timeout 100 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

served = []


class Vendor(BaseHTTPRequestHandler):
    def do_POST(self):
        model = json.loads(self.rfile.read(int(self.headers["content-length"])))["model"]
        served.append(1000 * 10 ** len(served))
        usage = {"input_tokens": served[-1], "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 100, "output_tokens_details": {"reasoning_tokens": 60}}
        content = [{"type": "output_text", "text": "Fine.", "annotations": []}]
        message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
        about = {"object": "response", "created_at": 1, "status": "completed", "tools": [], "parallel_tool_calls": True, "tool_choice": "auto"}
        body = json.dumps({"id": f"r{len(served)}", "model": model, "output": [message], "usage": {**usage, "total_tokens": served[-1] + 100}, **about}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Vendor)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ.update(OPENAI_API_KEY="k", OPENAI_BASE_URL=f"http://127.0.0.1:{server.server_port}/v1")

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate

print("inspect-ai", version("inspect-ai"))
print("guess: the usage in the log of one sample is that of all requests, and each is among its events")
log = eval(Task(dataset=[Sample(input="Hello.", target="Fine")], solver=[generate()], scorer=includes()), model="openai/gpt-5.4", display="none", log_dir="logs")[0]
recorded = sum(usage.input_tokens for usage in log.stats.model_usage.values())
events = sum(event.event == "model" for event in log.samples[0].events)
print(f"seen: {len(served)} requests of {sum(served):,} tokens, {events} among the events, {recorded:,} tokens in the log")
sys.exit(2 if log.status != "success" else (len(served), events, sum(served) - recorded) != (2, 1, served[0]))
PY
