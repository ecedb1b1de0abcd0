#!/usr/bin/env bash
# agno: one field, three meanings. The input of an OpenAI call holds what came out of the cache, that of an Anthropic call does not, and the total follows; of a
# Gemini call the output, and so the total, are without the thoughts. A team's total over vendors leaves out 92 of 100 tokens of a well cached Claude.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install agno==3.1.10 openai==3.57.0 anthropic==2.14.0 google-genai==3.6.1 > /dev/null 2>&1 || exit 2
timeout 120 "$folder/v/bin/python" -W ignore - <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

ANSWERS = {
    "/chat/completions": {
        "id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5.4",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}],
        "usage": {"prompt_tokens": 21942, "completion_tokens": 704, "total_tokens": 22646, "prompt_tokens_details": {"cached_tokens": 20111}},
    },
    "/messages": {
        "id": "m", "type": "message", "role": "assistant", "model": "claude-opus-4-6", "stop_reason": "end_turn", "stop_sequence": None,
        "content": [{"type": "text", "text": "Hello."}],
        "usage": {"input_tokens": 1019, "cache_read_input_tokens": 20111, "cache_creation_input_tokens": 812, "output_tokens": 704},
    },
    ":generateContent": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Hello."}]}, "finishReason": "STOP", "index": 0}], "modelVersion": "gemini-3-pro",
        "usageMetadata": {"promptTokenCount": 21942, "cachedContentTokenCount": 20111, "candidatesTokenCount": 97, "thoughtsTokenCount": 607, "totalTokenCount": 22646},
    },
}


class Vendor(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = next((answer for end, answer in ANSWERS.items() if self.path.split("?")[0].endswith(end)), {})
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Vendor)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
from agno.agent import Agent
from agno.models.anthropic import Claude
from agno.models.google import Gemini
from agno.models.openai import OpenAIChat

models = {
    "OpenAI": OpenAIChat(id="gpt-5.4", base_url=f"{url}/v1", api_key="x"),
    "Anthropic": Claude(id="claude-opus-4-6", api_key="x", client_params={"base_url": url}),
    "Gemini": Gemini(id="gemini-3-pro", api_key="x", client_params={"http_options": {"base_url": url}}),
}
print("agno", version("agno"))
print("guess: input 21,942, output 704, total 22,646 of each vendor, of which 20,111 came out of a cache")
seen = []
for name, model in models.items():
    used = Agent(model=model, telemetry=False).run("Hello").metrics.to_dict()
    seen.append((used["input_tokens"], used["output_tokens"], used["total_tokens"]))
    print(f"seen of {name}: input %s, output %s, total %s" % seen[-1])
sys.exit(0 if seen == [(21942, 704, 22646), (1019, 704, 1723), (21942, 97, 22039)] else 1)
PY
