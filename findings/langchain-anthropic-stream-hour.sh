#!/usr/bin/env bash
# langchain-anthropic: a whole answer says how many tokens were written to the cache for an hour, its stream does not: LangChain reads the counts of the last
# event, and Anthropic gives the lifetimes with the first one alone. An agent streams, so its one-hour writes (2 times the input) look like five minutes (1.25).
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install langchain-anthropic==1.7.10 langchain-core==1.8.3 anthropic==2.14.0 > /dev/null 2>&1 || exit 2
timeout 120 "$folder/v/bin/python" -W ignore - <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

COUNTS = {"input_tokens": 1019, "cache_read_input_tokens": 20111, "cache_creation_input_tokens": 812, "output_tokens": 704}
USAGE = {**COUNTS, "cache_creation": {"ephemeral_5m_input_tokens": 308, "ephemeral_1h_input_tokens": 504}}
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "claude-opus-4-6", "content": [{"type": "text", "text": "Hello."}],
           "stop_reason": "end_turn", "stop_sequence": None, "usage": USAGE}
EVENTS = [
    {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None, "usage": {**USAGE, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": COUNTS},
    {"type": "message_stop"},
]


class Anthropic(BaseHTTPRequestHandler):
    def do_POST(self):
        is_stream = json.loads(self.rfile.read(int(self.headers["Content-Length"]))).get("stream")
        body = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in EVENTS) if is_stream else json.dumps(MESSAGE)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if is_stream else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Anthropic)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
import anthropic
from anthropic.types import MessageDeltaUsage
from langchain_anthropic import ChatAnthropic

with anthropic.Anthropic(api_key="x", base_url=url).messages.stream(model="claude-opus-4-6", max_tokens=9, messages=[{"role": "user", "content": "Hello"}]) as stream:
    final = stream.get_final_message().usage.cache_creation.ephemeral_1h_input_tokens
model = ChatAnthropic(model="claude-opus-4-6", api_key="x", base_url=url, max_retries=0)
whole = model.invoke("Hello").usage_metadata["input_token_details"].get("ephemeral_1h_input_tokens")
parts = list(model.stream("Hello"))
streamed = sum(parts[1:], parts[0]).usage_metadata["input_token_details"]
print("langchain-anthropic", version("langchain-anthropic"), "anthropic", version("anthropic"))
print("guess: 504 tokens for an hour of a stream, as of a whole answer:", whole, "and as in the SDK's own final message of the stream:", final)
print("seen:", json.dumps(streamed), "- the last event may name a lifetime:", "cache_creation" in MessageDeltaUsage.model_fields)
sys.exit(0 if whole == final == 504 and streamed == {"cache_creation": 812, "cache_read": 20111} else 1)
PY
