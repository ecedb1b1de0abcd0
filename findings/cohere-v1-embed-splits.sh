#!/usr/bin/env bash
# Cohere's SDK: one call of the older client's `embed` is a request for each 96 texts, and the newer client's is one.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install cohere==7.3.1 > /dev/null 2>&1 || exit 2
cat > "$folder/try.py" <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

sizes = []


class Cohere(BaseHTTPRequestHandler):
    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["texts"]
        sizes.append(len(texts))
        is_old = self.path.startswith("/v1")
        vectors = [[0.1]] * len(texts)
        meta = {"api_version": {"version": "1" if is_old else "2"}, "billed_units": {"input_tokens": 11 * len(texts)}}
        kind = {"response_type": "embeddings_floats" if is_old else "embeddings_by_type"}
        body = json.dumps({"id": "e", "texts": texts, "embeddings": vectors if is_old else {"float": vectors}, "meta": meta, **kind}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Cohere)
threading.Thread(target=server.serve_forever, daemon=True).start()
import cohere

url = f"http://127.0.0.1:{server.server_port}"
ask = {"model": "embed-v4.0", "input_type": "search_document", "texts": ["a"] * 200}
old = cohere.Client("x", base_url=url).embed(**ask).meta.billed_units.input_tokens
of_old, sizes[:] = sorted(sizes), []
new = cohere.ClientV2("x", base_url=url).embed(embedding_types=["float"], **ask).meta.billed_units.input_tokens
print("cohere", version("cohere"))
print("guess: embed() of 200 texts is one request, with 2,200 billed tokens")
print(f"seen: Client {of_old} with {old:.0f}, ClientV2 {sizes} with {new:.0f}")
sys.exit(0 if of_old == [8, 96, 96] and sizes == [200] and old == new == 2200 else 1)
PY
timeout 60 "$folder/v/bin/python" -W ignore "$folder/try.py" 2> /dev/null
