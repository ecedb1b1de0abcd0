#!/usr/bin/env bash
# aider's line of tokens and cost. Of streams, its default, it reads no usage and asks for none: it counts the text that it sent and got by itself, and prices that, so that a cache, thoughts
# and whatever the vendor adds are missing. Of whole answers of Claude it adds what was written to the cache to LiteLLM's prompt, which holds it already (`base_coder.py`).
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install aider-chat==0.86.2 > /dev/null 2>&1 || exit 2
AIDER="$folder/v/bin/aider" HOME="$folder" timeout 240 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

USED = {"input_tokens": 1019, "cache_read_input_tokens": 20111, "cache_creation_input_tokens": 812, "output_tokens": 704}
TEXT = {"type": "text", "text": "Hello."}
asked = []


class Claude(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked.append(request.get("stream", False))
        message = {"id": "m", "type": "message", "role": "assistant", "model": request["model"], "content": [], "stop_reason": None, "stop_sequence": None, "usage": USED}
        if request.get("stream"):
            events = [
                {"type": "message_start", "message": {**message, "usage": {**USED, "output_tokens": 3}}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 704}},
                {"type": "message_stop"},
            ]
            kind, body = "text/event-stream", "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events).encode()
        else:
            kind, body = "application/json", json.dumps({**message, "content": [TEXT], "stop_reason": "end_turn"}).encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Claude)
threading.Thread(target=server.serve_forever, daemon=True).start()
# A proxy at which nobody listens keeps what is not for this machine from leaving it.
env = {**os.environ, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_API_BASE": f"http://127.0.0.1:{server.server_port}", "LITELLM_LOCAL_MODEL_COST_MAP": "True",
       "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1", "TERM": "dumb"}
OPTIONS = ["--model", "anthropic/claude-sonnet-4-5", "--message", "/ask Hello", "--no-git", "--yes-always", "--no-check-update", "--no-show-model-warnings",
           "--analytics-disable", "--map-tokens", "0"]
seen = {}
print("aider-chat", version("aider-chat"), "with litellm", version("litellm"))
print("guess: 22k sent, of which 812 cache write and 20k cache hit, and 704 received, both times, for $0.02 (0.0227)")
for name, more in {"stream": [], "whole answer": ["--no-stream"]}.items():
    ran = subprocess.run([os.environ["AIDER"], *OPTIONS, *more], cwd=os.environ["HOME"], env=env, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
    lines = re.sub(r"\s+", " ", ran.stdout)
    line = re.search(r"Tokens: .*? session\.", lines)
    if not line:
        sys.exit(2)
    seen[name] = line[0]
    print(f"seen of a {name}: {line[0]}")
if asked != [True, False]:
    sys.exit(2)
streamed = re.fullmatch(r"Tokens: (\d+) sent, (\d+) received\. .*", seen["stream"])
sys.exit(0 if streamed and int(streamed[1]) < 1000 and int(streamed[2]) < 10 and "23k sent, 812 cache write, 20k cache hit, 704 received" in seen["whole answer"] else 1)
PY
