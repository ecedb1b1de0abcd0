#!/usr/bin/env bash
# Portkey's gateway: the cached tokens of a DeepSeek call are gone.
set -euo pipefail
folder=$(mktemp -d); trap 'kill %1 %2 2> /dev/null || true; rm -rf "$folder"' EXIT
command -v node > /dev/null && npm install --silent --prefix "$folder" @portkey-ai/gateway@1.15.2 > /dev/null 2>&1 || exit 2
cat > "$folder/vendor.py" <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

ANSWER = {"id": "c", "object": "chat.completion", "created": 1, "model": "deepseek-chat", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
          "usage": {"prompt_tokens": 3007, "completion_tokens": 139, "total_tokens": 3146, "prompt_cache_hit_tokens": 2003, "prompt_cache_miss_tokens": 1004}}


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
curl -s -m 20 "http://127.0.0.1:$port/v1/chat/completions" -H "x-portkey-provider: deepseek" -H "Authorization: Bearer x" \
  -H "x-portkey-custom-host: http://127.0.0.1:$(cat "$folder/port")" -H "Content-Type: application/json" \
  -d '{"model": "deepseek-chat", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}' > "$folder/answer" || exit 2
python3 - "$folder/answer" <<'PY'
import json
import sys

usage = json.load(open(sys.argv[1]))["usage"]
print("@portkey-ai/gateway 1.15.2")
print("guess: prompt_cache_hit_tokens or cached_tokens is 2,003")
print("seen:", json.dumps(usage))
sys.exit(0 if "2003" not in json.dumps(usage) and usage["prompt_tokens"] == 3007 else 1)
PY
