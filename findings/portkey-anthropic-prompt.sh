#!/usr/bin/env bash
# Portkey's gateway: the prompt of an Anthropic call leaves out what came from the cache, which its details have.
set -euo pipefail
folder=$(mktemp -d); trap 'kill %1 %2 2> /dev/null || true; rm -rf "$folder"' EXIT
command -v node > /dev/null && npm install --silent --prefix "$folder" @portkey-ai/gateway@1.15.2 > /dev/null 2>&1 || exit 2
cat > "$folder/vendor.py" <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

ANSWER = {"id": "m", "type": "message", "role": "assistant", "model": "claude-opus-4-6", "stop_reason": "end_turn", "stop_sequence": None, "content": [{"type": "text", "text": "Hello."}],
          "usage": {"input_tokens": 1019, "output_tokens": 704, "cache_read_input_tokens": 20111, "cache_creation_input_tokens": 812,
                    "cache_creation": {"ephemeral_5m_input_tokens": 308, "ephemeral_1h_input_tokens": 504}}}


class Vendor(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Vendor)
print(server.server_port, flush=True)
server.serve_forever()
PY
python3 "$folder/vendor.py" > "$folder/port" &
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
node "$folder/node_modules/@portkey-ai/gateway/build/start-server.js" --port="$port" --headless > /dev/null 2>&1 &
for _ in $(seq 100); do [ -s "$folder/port" ] && curl -s -o /dev/null "http://127.0.0.1:$port" && break; sleep 0.2; done
curl -s -m 20 "http://127.0.0.1:$port/v1/chat/completions" -H "x-portkey-provider: anthropic" -H "Authorization: Bearer x" \
  -H "x-portkey-custom-host: http://127.0.0.1:$(cat "$folder/port")/v1" -H "Content-Type: application/json" \
  -d '{"model": "claude-opus-4-6", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}' > "$folder/answer" || exit 2
python3 - "$folder/answer" <<'PY'
import json
import sys

usage = json.load(open(sys.argv[1]))["usage"]
print("@portkey-ai/gateway 1.15.2")
print("guess: prompt_tokens is 21,942 with 20,111 of them cached, as OpenAI counts")
print("seen:", json.dumps(usage))
sys.exit(0 if usage["prompt_tokens"] == 1019 and usage["prompt_tokens_details"]["cached_tokens"] == 20111 and usage["total_tokens"] == 22646 else 1)
PY
