#!/usr/bin/env bash
# Portkey's gateway: the thoughts of a Gemini call are beside its completion, and in the details of it.
set -euo pipefail
folder=$(mktemp -d); trap 'kill %1 %2 2> /dev/null || true; rm -rf "$folder"' EXIT
command -v node > /dev/null && npm install --silent --prefix "$folder" @portkey-ai/gateway@1.15.2 > /dev/null 2>&1 || exit 2
cat > "$folder/vendor.py" <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

ANSWER = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello."}]}, "finishReason": "STOP", "index": 0}], "modelVersion": "gemini-2.5-flash",
          "usageMetadata": {"promptTokenCount": 3007, "candidatesTokenCount": 97, "thoughtsTokenCount": 1042, "totalTokenCount": 4146}}


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
curl -s -m 20 "http://127.0.0.1:$port/v1/chat/completions" -H "x-portkey-provider: google" -H "Authorization: Bearer x" \
  -H "x-portkey-custom-host: http://127.0.0.1:$(cat "$folder/port")/v1beta" -H "Content-Type: application/json" \
  -d '{"model": "gemini-2.5-flash", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}' > "$folder/answer" || exit 2
python3 - "$folder/answer" <<'PY'
import json
import sys

usage = json.load(open(sys.argv[1]))["usage"]
print("@portkey-ai/gateway 1.15.2")
print("guess: completion_tokens is 1,139, the answer and the thoughts")
print("seen:", json.dumps(usage))
sys.exit(0 if usage["completion_tokens"] == 97 and usage["completion_tokens_details"]["reasoning_tokens"] == 1042 else 1)
PY
