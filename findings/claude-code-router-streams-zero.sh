#!/usr/bin/env bash
# claude-code-router: a stream of an OpenAI model has 0 tokens, also where its usage was asked for and came; an answer in one piece has them.
set -euo pipefail
folder=$(mktemp -d); trap 'kill %1 %2 2> /dev/null || true; rm -rf "$folder"' EXIT
command -v npm > /dev/null && (cd "$folder" && npm init -y > /dev/null && npm install --silent --no-audit --no-fund @musistudio/claude-code-router@2.0.0 > /dev/null 2>&1) || exit 2
cat > "$folder/vendor.py" <<'PY'
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USAGE = {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314, "prompt_tokens_details": {"cached_tokens": 2003}}
COMMON = {"id": "c", "created": 1, "model": "gpt-5.4"}


class OpenAI(BaseHTTPRequestHandler):
    """Names the usage of a stream where it is asked for, as the vendor does."""

    def do_POST(self):
        sent, choice = json.loads(self.rfile.read(int(self.headers["Content-Length"]))), {"index": 0, "finish_reason": "stop"}
        message = {"role": "assistant", "content": "Hello."}
        body = json.dumps({**COMMON, "object": "chat.completion", "choices": [{**choice, "message": message}], "usage": USAGE})
        if sent.get("stream"):
            chunk = {**COMMON, "object": "chat.completion.chunk"}
            parts = [{**chunk, "choices": [{**choice, "finish_reason": None, "delta": message}]}, {**chunk, "choices": [{**choice, "delta": {}}]}]
            if (sent.get("stream_options") or {}).get("include_usage"):
                parts.append({**chunk, "choices": [], "usage": USAGE})
            body = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if sent.get("stream") else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), OpenAI)
print(server.server_port, flush=True)
server.serve_forever()
PY
python3 "$folder/vendor.py" > "$folder/port" &
for _ in $(seq 50); do [ -s "$folder/port" ] && break; sleep 0.2; done
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir -p "$folder/home/.claude-code-router"
provider() { echo "{\"name\": \"$1\", \"api_base_url\": \"http://127.0.0.1:$(cat "$folder/port")/v1/chat/completions\", \"api_key\": \"x\", \"models\": [\"gpt-5.4\"]$2}"; }
echo "{\"HOST\": \"127.0.0.1\", \"PORT\": $port, \"LOG\": false, \"NON_INTERACTIVE_MODE\": true, \"Router\": {\"default\": \"plain,gpt-5.4\"}, \"Providers\": [
  $(provider plain ""), $(provider asking ', "transformer": {"use": ["streamoptions"]}')]}" > "$folder/home/.claude-code-router/config.json"
HOME="$folder/home" timeout 100 node "$folder/node_modules/@musistudio/claude-code-router/dist/cli.js" start > /dev/null 2>&1 &
for _ in $(seq 100); do curl -s -m 2 -o /dev/null "http://127.0.0.1:$port/" && break; sleep 0.3; done
for kind in "plain false" "plain true" "asking true"; do
  set -- $kind
  curl -s -m 20 "http://127.0.0.1:$port/v1/messages" -H "Content-Type: application/json" -H "x-api-key: x" -H "anthropic-version: 2023-06-01" \
    -d "{\"model\": \"$1,gpt-5.4\", \"max_tokens\": 99, \"stream\": $2, \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}" > "$folder/$1-$2" || exit 2
done
python3 - "$folder" <<'PY'
import json
import pathlib
import re
import sys

folder = pathlib.Path(sys.argv[1])
seen = {name: json.loads(re.findall(r'"usage":(\{[^}]*\})', (folder / name).read_text())[-1]) for name in ("plain-false", "plain-true", "asking-true")}
print("@musistudio/claude-code-router 2.0.0")
print("guess: 900 in, 2,003 cached and 411 out, streamed or not")
print("seen: whole", seen["plain-false"], "streamed", seen["plain-true"], "streamed with the transformer `streamoptions`", seen["asking-true"])
counted = [seen[name]["output_tokens"] for name in ("plain-false", "plain-true", "asking-true")]
sys.exit(0 if counted == [411, 0, 0] else 1)
PY
