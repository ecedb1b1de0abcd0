#!/usr/bin/env bash
# DSPy 3.4.1 calls vendors itself, and LiteLLM only where it is told to or cannot: a callback of LiteLLM's, by which its calls were recorded before, is never called, and nothing says so.
# The usage of its own way lacks what LiteLLM's has, such as what Claude wrote for an hour, and so does its cost. `engine="litellm"` brings both back.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install dspy==3.4.1 litellm==1.110.2 > /dev/null 2>&1 || exit 2
HOME="$folder" DSPY_CACHEDIR="$folder/c" LITELLM_LOCAL_MODEL_COST_MAP=True timeout 200 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

import dspy, litellm

WRITTEN = {"ephemeral_5m_input_tokens": 308, "ephemeral_1h_input_tokens": 504}
USAGE = {"input_tokens": 1019, "cache_read_input_tokens": 20111, "cache_creation_input_tokens": 812, "cache_creation": WRITTEN, "output_tokens": 704}
ANSWER = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [{"type": "text", "text": "Hello."}], "stop_reason": "end_turn",
          "stop_sequence": None, "usage": USAGE}


class Anthropic(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"] or 0))
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Anthropic)
threading.Thread(target=server.serve_forever, daemon=True).start()
heard, was_heard = [], threading.Event()
litellm.success_callback = [lambda kwargs, *_: (heard.append(kwargs["model"]), was_heard.set())]
seen = {}
print("dspy", version("dspy"), "litellm", version("litellm"))
print("guess: a call of DSPy is one of LiteLLM's, with its callbacks, and costs what Anthropic charges, $0.0238")
for engine in ("auto", "litellm"):
    lm = dspy.LM("anthropic/claude-sonnet-4-5", api_key="k", api_base=f"http://127.0.0.1:{server.server_port}", cache=False, engine=engine)
    lm("Hello.")
    last = lm.history[-1]
    seen[engine] = ("504" in str(last["usage"]), round(last["cost"], 4))
    print(f"seen: engine={engine!r}: the hour's tokens are {'there' if seen[engine][0] else 'gone'}, the cost is ${last['cost']:.7f}")
if not was_heard.wait(30) or seen["litellm"] != (True, 0.0238):
    sys.exit(2)
print(f"seen: of the two calls LiteLLM's callback heard {len(heard)}")
sys.exit(0 if len(heard) == 1 and seen["auto"] == (False, 0.0227) else 1)
PY
