#!/usr/bin/env bash
# DeepEval says what an evaluation cost from the answer's tokens and prices of its own. What came from the cache is a part of OpenAI's prompt and has the full price there; with Anthropic it stands
# beside the input, as does what was written, and costs nothing. So one is too much, and the other too little.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install deepeval==4.3.1 openai==3.57.0 anthropic==2.14.0 > /dev/null 2>&1 || exit 2
cd "$folder" && HOME="$folder" DEEPEVAL_TELEMETRY_OPT_OUT=YES timeout 100 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

CHAT = {"prompt_tokens": 10_000, "completion_tokens": 100, "total_tokens": 10_100, "prompt_tokens_details": {"cached_tokens": 9_000}}
CLAUDE = {"input_tokens": 1_000, "cache_read_input_tokens": 8_000, "cache_creation_input_tokens": 1_000, "output_tokens": 100}


class Vendor(BaseHTTPRequestHandler):
    def do_POST(self):
        model = json.loads(self.rfile.read(int(self.headers["content-length"])))["model"]
        if "messages" in self.path:
            content = [{"type": "text", "text": "Fine."}]
            answer = {"id": "m", "type": "message", "role": "assistant", "stop_reason": "end_turn", "content": content, "usage": CLAUDE}
        else:
            choices = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Fine."}}]
            answer = {"id": "c", "object": "chat.completion", "created": 1, "choices": choices, "usage": CHAT}
        body = json.dumps({**answer, "model": model}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Vendor)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
os.environ.update(OPENAI_API_KEY="k", ANTHROPIC_API_KEY="k", OPENAI_BASE_URL=f"{url}/v1", ANTHROPIC_BASE_URL=url)

from deepeval.models import AnthropicModel, OpenAIModel

print("deepeval", version("deepeval"))
print("guess: gpt-4o costs $0.014750 (9,000 of 10,000 cached, at half the price), claude-sonnet-4-5 $0.010650 (8,000 read, 1,000 written for 5 minutes)")
found = [model.generate("Hello.")[1] for model in (OpenAIModel(model="gpt-4o"), AnthropicModel(model="claude-sonnet-4-5"))]
print("seen: gpt-4o ${:.6f}, claude-sonnet-4-5 ${:.6f}".format(*found))
sys.exit([round(cost, 6) for cost in found] != [0.026, 0.0045])
PY
