#!/usr/bin/env bash
# Weave: the usage of a call of Claude has Anthropic's names and another meaning: `input_tokens` holds what came out of the cache and was written to it, and both
# stand beside it all the same. Who adds them up, as Anthropic's own documents say, counts 20,923 tokens twice. Its streams have no one-hour writes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install weave==0.54.0 anthropic==2.14.0 > /dev/null 2>&1 || exit 2
cat > "$folder/try.py" <<'PY'
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

USAGE = {"input_tokens": 1019, "output_tokens": 704, "cache_read_input_tokens": 20111, "cache_creation_input_tokens": 812,
         "cache_creation": {"ephemeral_5m_input_tokens": 308, "ephemeral_1h_input_tokens": 504}}
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "claude-opus-4-6", "stop_reason": "end_turn", "stop_sequence": None, "content": [{"type": "text", "text": "Hi."}]}
LAST = {name: count for name, count in USAGE.items() if name != "cache_creation"}
EVENTS = [
    {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None, "usage": {**USAGE, "output_tokens": 3}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": LAST},
    {"type": "message_stop"},
]
VIEWER = {"data": {"viewer": {"username": "me", "defaultEntity": {"name": "me"}}, "project": {"name": "p"}, "upsertModel": {"project": {"name": "p", "entityName": "me"}, "model": {"name": "p"}}}}
calls = []


class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(json.dumps({"min_required_weave_python_version": "0.0.1"}))

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["content-length"] or 0))
        if self.path == "/v1/messages":
            if json.loads(raw).get("stream"):
                return self.answer("".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in EVENTS), "text/event-stream")
            return self.answer(json.dumps({**MESSAGE, "usage": USAGE}))
        if self.path.endswith("/calls/complete"):
            calls.extend(json.loads(raw)["batch"])
        return self.answer(json.dumps(VIEWER if "graphql" in self.path else {"digest": "d", "id": "i", "trace_id": "t"}))

    def answer(self, body, kind="application/json"):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}"
os.environ.update(WANDB_API_KEY="x" * 40, WF_TRACE_SERVER_URL=base, WANDB_BASE_URL=base, WANDB_ENTITY="me")
import anthropic
import weave

weave.init("me/p")
client = anthropic.Anthropic(api_key="k", base_url=base, max_retries=0)
for stream in (False, True):
    answer = client.messages.create(model="claude-opus-4-6", max_tokens=9, messages=[{"role": "user", "content": "Hello."}], stream=stream)
    list(answer) if stream else None
weave.finish()
whole, streamed = ((each["summary"].get("usage") or {}).get("claude-opus-4-6", {}) for each in sorted(calls, key=lambda each: each["started_at"]))
print(f"\nweave {version('weave')}, anthropic {version('anthropic')}; 1019 tokens in, 20111 read from the cache, 812 written to it, 504 of them for an hour")
print("guess: counts under Anthropic's names are Anthropic's")
for name, each in (("whole", whole), ("stream", streamed)):
    print(f"seen: {name:6} input {each.get('input_tokens')}, read {each.get('cache_read_input_tokens')}, written {each.get('cache_creation_input_tokens')}, "
          f"for an hour {(each.get('cache_creation') or {}).get('ephemeral_1h_input_tokens')}")
is_so = all(each.get("input_tokens") == 21942 and each.get("cache_read_input_tokens") == 20111 for each in (whole, streamed)) and "cache_creation" not in streamed
sys.exit(0 if is_so else 1)
PY
out=$(timeout 120 "$folder/v/bin/python" -W ignore "$folder/try.py" 2> /dev/null) && code=0 || code=$?
printf '%s\n' "$out" | grep -E '^(weave [0-9]|guess|seen)'; exit "$code"
