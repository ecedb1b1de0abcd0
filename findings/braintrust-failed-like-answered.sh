#!/usr/bin/env bash
# Braintrust: the event of a call to OpenAI that failed names no error, and looks like one without counts.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install braintrust==0.48.1 openai==3.57.0 anthropic==2.14.0 pytest > /dev/null 2>&1 || exit 2
cat > "$folder/try.py" <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version


class Refuses(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}}'
        self.send_response(429)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Refuses)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
import anthropic
import braintrust.logger
import openai
from braintrust.test_helpers import init_test_logger

init_test_logger("p")
messages = [{"role": "user", "content": "Hello"}]
chat = braintrust.wrap_openai(openai.OpenAI(api_key="x", base_url=f"{url}/v1", max_retries=0)).chat.completions
claude = braintrust.wrap_anthropic(anthropic.Anthropic(api_key="x", base_url=url, max_retries=0)).messages
seen = {}
with braintrust.logger._internal_with_memory_background_logger() as kept:
    for name, call in (("openai", lambda: chat.create(model="gpt-5.4", messages=messages)),
                       ("anthropic", lambda: claude.create(model="claude-opus-4-6", max_tokens=9, messages=messages))):
        try:
            call()
        except (openai.RateLimitError, anthropic.RateLimitError):
            [event] = kept.pop()
            seen[name] = {"error": str(event.get("error"))[:40] if event.get("error") else None, "metrics": sorted(event.get("metrics", {}))}
print("braintrust", version("braintrust"), "openai", version("openai"), "anthropic", version("anthropic"))
print("guess: the event of a call that was refused names its error")
print("seen:", json.dumps(seen))
sys.exit(0 if seen["openai"]["error"] is None and seen["openai"]["metrics"] == ["end", "start"] else 1)
PY
timeout 60 "$folder/v/bin/python" -W ignore "$folder/try.py" 2> /dev/null
