#!/usr/bin/env bash
# Lunary: the completion tokens of a stream are the number of its parts, though its end names the usage; of Responses nothing is kept.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install lunary==1.4.41 openai==3.57.0 anthropic==2.14.0 > /dev/null 2>&1 || exit 2
cat > "$folder/try.py" <<'PY'
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

events = []
CHUNK = {"id": "c", "created": 1, "model": "gpt-5.4", "object": "chat.completion.chunk"}
USAGE = {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314}
OF_CLAUDE = {"input_tokens": 1019, "cache_read_input_tokens": 20111, "cache_creation_input_tokens": 812, "output_tokens": 704}


class Vendors(BaseHTTPRequestHandler):
    """OpenAI, Anthropic and Lunary's own server, by their paths."""

    def do_POST(self):
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "messages" in self.path:
            content = {"content": [{"type": "text", "text": "Hello."}], "stop_reason": "end_turn", "stop_sequence": None}
            body = json.dumps({"id": "m", "type": "message", "role": "assistant", "model": sent["model"], "usage": OF_CLAUDE, **content})
        elif "chat/completions" in self.path:
            parts = [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None} for text in ("Good", " day", ".")]
            chunks = [*({**CHUNK, "choices": [part]} for part in parts), {**CHUNK, "choices": [], "usage": USAGE}]
            body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        else:
            events.extend(sent.get("events", []))
            body = "{}"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if body.startswith("data") else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Vendors)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
os.environ |= {"LUNARY_API_URL": url, "LUNARY_PUBLIC_KEY": "x"}
import anthropic
import lunary
import openai

messages = [{"role": "user", "content": "Hello"}]
client, claude = openai.OpenAI(api_key="x", base_url=f"{url}/v1"), anthropic.Anthropic(api_key="x", base_url=url)
lunary.monitor(client)
lunary.monitor(claude)
for _ in client.chat.completions.create(model="gpt-5.4", messages=messages, stream=True, stream_options={"include_usage": True}):
    pass
claude.messages.create(model="claude-opus-4-6", max_tokens=9, messages=messages)
until = time.time() + 20
while time.time() < until and sum(event.get("event") == "end" for event in events) < 2:
    time.sleep(0.2)
found = [event.get("tokensUsage") for event in events if event.get("event") == "end"]
print("lunary", version("lunary"), "openai", version("openai"), "anthropic", version("anthropic"))
print("guess: 2,903 and 411 of a stream that names its usage; of Claude 21,942 in, 20,111 of them cached")
print("seen:", *map(json.dumps, found))
sys.stdout.flush()
stream, whole = found
is_so = stream["completion"] in (3, 4) and not stream["prompt"] and (whole["prompt"], whole["promptCached"]) == (1019, 20923)
os._exit(0 if is_so else 1)
PY
timeout 60 "$folder/v/bin/python" -W ignore "$folder/try.py" 2> /dev/null
