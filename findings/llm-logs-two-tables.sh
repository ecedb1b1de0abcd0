#!/usr/bin/env bash
# llm: since its logs have threads, a call is a row of `turns`; `responses`, whose token columns every query names, keeps the calls of before and gets no
# more, without an error. Two versions on one machine write a table each, so either sum of tokens is short.
set -euo pipefail
folder=$(mktemp -d); trap 'kill %1 2> /dev/null || true; rm -rf "$folder"' EXIT
for pair in 0.27.1/2.54.0 0.36/3.57.0; do
  version=${pair%/*}
  python3 -m venv "$folder/$version" && "$folder/$version/bin/pip" -q install "llm==$version" "openai==${pair#*/}" > /dev/null 2>&1 || exit 2
done
cat > "$folder/vendor.py" <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

ANSWER = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314},
          "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}]}


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
for _ in $(seq 100); do [ -s "$folder/port" ] && break; sleep 0.1; done
export LLM_USER_PATH="$folder/home" OPENAI_API_KEY=x
mkdir "$LLM_USER_PATH"
printf -- '- model_id: own\n  model_name: m\n  api_base: http://127.0.0.1:%s/v1\n' "$(cat "$folder/port")" > "$LLM_USER_PATH/extra-openai-models.yaml"
for version in 0.27.1 0.36 0.36 0.27.1; do
  timeout 60 "$folder/$version/bin/llm" -m own --no-stream Hello > /dev/null 2> "$folder/said" || { tail -1 "$folder/said"; exit 2; }
done
echo "llm 0.27.1 and 0.36, one logs.db: a call by the old, two by the new, one by the old"
echo "guess: the sum of input_tokens of responses is 11,612, of 4 calls"
python3 - "$LLM_USER_PATH/logs.db" <<'PY'
import sqlite3
import sys

database = sqlite3.connect(sys.argv[1])
seen = [database.execute(f"SELECT count(*), sum(input_tokens) FROM {table}").fetchone() for table in ("responses", "turns")]
print("seen: responses has %s calls with %s, turns %s with %s" % (*seen[0], *seen[1]))
sys.exit(0 if seen == [(2, 5806), (2, 5806)] else 1)
PY
