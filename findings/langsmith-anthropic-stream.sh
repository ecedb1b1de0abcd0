#!/usr/bin/env bash
# LangSmith: its wrapper of Anthropic's newest SDK raises at the end of each stream made by `create(stream=True)`, and its trace never ends.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install langsmith==0.15.1 anthropic==2.14.0 > /dev/null 2>&1 || exit 2
timeout 120 "$folder/v/bin/python" -W ignore - <<'PY'
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

USAGE = {"input_tokens": 1019, "output_tokens": 704}
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "claude-opus-4-5", "content": [], "stop_reason": None, "stop_sequence": None,
           "usage": {**USAGE, "output_tokens": 1}}
EVENTS = [
    {"type": "message_start", "message": MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": USAGE},
    {"type": "message_stop"},
]


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        is_call = self.path == "/v1/messages"
        body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS) if is_call else "{}"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if is_call else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
os.environ.update(LANGSMITH_TRACING="true", LANGSMITH_ENDPOINT=url, LANGSMITH_API_KEY="x")
import anthropic
from langsmith.wrappers import wrap_anthropic


def outcome(client):
    events = client.messages.create(model="claude-opus-4-5", max_tokens=9, messages=[{"role": "user", "content": "Hello"}], stream=True)
    try:
        return sum(1 for _ in events)
    except Exception as error:
        return type(error).__name__


plain, wrapped = (outcome(wrap(anthropic.Anthropic(api_key="x", base_url=url))) for wrap in (lambda client: client, wrap_anthropic))
print("langsmith", version("langsmith"), "anthropic", version("anthropic"))
print("guess: a wrapped client streams what the client does")
print(f"seen: {plain} events without the wrapper, {wrapped} with it")
sys.exit(0 if (plain, wrapped) == (len(EVENTS), "TypeError") else 1)
PY
