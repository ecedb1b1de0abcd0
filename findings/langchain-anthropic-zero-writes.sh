#!/usr/bin/env bash
# langchain-anthropic: the general count of cache writes is 0 where the counts by lifetime are there.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install langchain-anthropic==1.7.10 > /dev/null 2>&1 || exit 2
timeout 120 "$folder/v/bin/python" - <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

USAGE = {
    "input_tokens": 1019, "output_tokens": 704, "cache_read_input_tokens": 20111, "cache_creation_input_tokens": 812,
    "cache_creation": {"ephemeral_5m_input_tokens": 308, "ephemeral_1h_input_tokens": 504},
}


class Answers(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-4-6", "stop_reason": "end_turn",
                   "stop_sequence": None, "content": [{"type": "text", "text": "Hello."}], "usage": USAGE}
        body = json.dumps(message).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Answers)
threading.Thread(target=server.serve_forever, daemon=True).start()
from langchain_anthropic import ChatAnthropic

model = ChatAnthropic(model="claude-opus-4-6", api_key="x", base_url=f"http://127.0.0.1:{server.server_port}", max_retries=0)
usage = dict(model.invoke("Hello").usage_metadata)
details = dict(usage["input_token_details"])
print("langchain-anthropic", version("langchain-anthropic"))
print("guess: cache_creation is 812, the sum of 308 and 504")
print("seen:", usage["input_tokens"], json.dumps(details))
parts = details.get("ephemeral_5m_input_tokens"), details.get("ephemeral_1h_input_tokens")
sys.exit(0 if details.get("cache_creation") == 0 and parts == (308, 504) else 1)
PY
