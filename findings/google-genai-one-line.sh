#!/usr/bin/env bash
# google-genai: a client that nobody holds has closed its connections before its call is sent.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install google-genai==3.6.1 > /dev/null 2>&1 || exit 2
timeout 100 "$folder/v/bin/python" -W ignore - <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version


class Answers(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        content = {"content": {"role": "model", "parts": [{"text": "Hello."}]}, "finishReason": "STOP"}
        body = json.dumps({"candidates": [content], "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 9}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Answers)
threading.Thread(target=server.serve_forever, daemon=True).start()
from google import genai

options = {"base_url": f"http://127.0.0.1:{server.server_port}"}
call = {"model": "gemini-2.5-flash", "contents": "Hello"}
client = genai.Client(api_key="x", http_options=options)
held = client.models.generate_content(**call).text
try:
    unheld = genai.Client(api_key="x", http_options=options).models.generate_content(**call).text
except RuntimeError as error:
    unheld = f"RuntimeError: {error}"
print("google-genai", version("google-genai"))
print("guess: Client(...).models.generate_content(...) in one line answers as with a client in a variable")
print(f"seen: in a variable {held!r}, in one line {unheld!r}")
sys.exit(0 if held == "Hello." and unheld.startswith("RuntimeError") else 1)
PY
