#!/usr/bin/env bash
# LiteLLM: the cost of an OpenRouter call with a key of one's own is OpenRouter's fee alone.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install litellm==1.110.2 > /dev/null 2>&1 || exit 2
LITELLM_LOCAL_MODEL_COST_MAP=True timeout 100 "$folder/v/bin/python" -W ignore - <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

USAGE = {"prompt_tokens": 10_000, "completion_tokens": 1_000, "total_tokens": 11_000, "cost": 0.05, "is_byok": True,
         "cost_details": {"upstream_inference_cost": 1.0}}


class OpenRouter(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}
        answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "openai/gpt-5.4", "choices": [choice], "usage": USAGE}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), OpenRouter)
threading.Thread(target=server.serve_forever, daemon=True).start()
import litellm

url = f"http://127.0.0.1:{server.server_port}"
hello = [{"role": "user", "content": "Hello"}]
answer = litellm.completion(model="openrouter/openai/gpt-5.4", api_key="x", api_base=url, messages=hello)
cost = answer._hidden_params["response_cost"]
print("litellm", version("litellm"))
print("guess: response_cost is 1.05, the fee of 0.05 and the 1.00 that the provider charges")
print("seen:", cost)
sys.exit(0 if cost == 0.05 else 1)
PY
