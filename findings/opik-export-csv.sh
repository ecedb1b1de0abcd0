#!/usr/bin/env bash
# Opik: `opik export WORKSPACE PROJECT traces --format csv` of a function that calls a model, which Opik's own decorator and wrapper recorded, exports no trace: the columns are those
# of the first span, and the other one has more. As JSON the same trace is exported whole.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install --no-compile opik==2.2.122 openai==3.57.0 > /dev/null 2>&1 || exit 2
cat > "$folder/try.py" <<'PY'
import gzip
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

folder = Path(sys.argv[1])
PROJECT = {"id": "0198c0de-0000-7000-8000-000000000001", "name": "p"}
USAGE = {"prompt_tokens": 3001, "completion_tokens": 411, "total_tokens": 3412}
CHOICES = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}]
kept = {"traces": {}, "spans": {}}
newest_first = False


class Vendor(BaseHTTPRequestHandler):
    """OpenAI's chat, and of Opik's server what keeps and gives traces and spans."""

    protocol_version = "HTTP/1.1"

    def body(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        raw = gzip.decompress(raw) if self.headers.get("content-encoding") == "gzip" else raw
        return json.loads(raw) if raw.startswith(b"{") else {}

    def answer(self):
        asked, (path, _, query) = self.body(), self.path.partition("?")
        kind, is_batch = next((name for name in kept if f"/{name}" in path), None), path.endswith("/batch")
        if path.endswith("/chat/completions"):
            found = {"id": "c", "object": "chat.completion", "created": 1, "model": asked["model"], "choices": CHOICES, "usage": USAGE}
        elif kind and is_batch:
            for each in asked[kind]:
                kept[kind].setdefault(each["id"], {}).update({name: value for name, value in each.items() if value is not None})
            found = {}
        elif kind and self.command == "GET":
            rows = sorted(kept[kind].values(), key=lambda each: each["start_time"], reverse=newest_first)
            found = {"page": 1, "size": len(rows), "total": len(rows), "content": rows if "page=1" in query else []}
        elif "/projects" in path:
            found = {**PROJECT, "page": 1, "size": 1, "total": 1, "content": [PROJECT]}
        else:
            found = {"page": 1, "size": 0, "total": 0, "content": []}
        sent = b"" if is_batch else json.dumps(found).encode()
        self.send_response(204 if is_batch else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    do_GET = do_POST = do_PUT = do_PATCH = answer

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Vendor)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
os.environ |= {"HOME": str(folder), "OPIK_URL_OVERRIDE": f"{url}/api", "OPIK_WORKSPACE": "default", "OPIK_PROJECT_NAME": "p", "OPIK_SENTRY_ENABLE": "false",
               "OPIK_ANALYTICS_DISABLED": "true"}
import openai
import opik
from opik.integrations.openai import track_openai

client = track_openai(openai.OpenAI(api_key="x", base_url=f"{url}/v1"))


@opik.track
def answer(question):
    return client.chat.completions.create(model="gpt-5.4", messages=[{"role": "user", "content": question}]).choices[0].message.content


answer("Hello?")
opik.flush_tracker()


def exported(format, place):
    path = folder / place
    subprocess.run([folder / "v/bin/opik", "export", "default", "p", "traces", "--format", format, "--path", path], capture_output=True, timeout=90)
    files = list(path.rglob(f"trace_*.{format}"))
    if format == "json":
        return sum(len(json.loads(each.read_text())["spans"]) for each in files)
    return sum(max(0, each.read_text().count("\n") - 1) for each in files)


spans, whole = len(kept["spans"]), exported("json", "json")
one = exported("csv", "csv")
newest_first = True
other = exported("csv", "other")
print(f"opik {version('opik')}\nguess: each format of the export has each span")
print(f"seen: {spans} spans; as JSON {whole}; as CSV {one}, or {other} if the server gives the newest first")
sys.exit(2 if spans != 2 or whole != 2 else 0 if max(one, other) < 2 else 1)
PY
timeout 250 "$folder/v/bin/python" -W ignore "$folder/try.py" "$folder" 2> /dev/null
