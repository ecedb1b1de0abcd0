#!/usr/bin/env bash
# LiteLLM's router: the id of an answer of Responses is not the vendor's but an encoded one, which names the deployment and is four times as long; that of
# a chat is the vendor's. A log that joins calls to the vendor's own by their ids finds the chats alone, and a column of 64 or 128 characters is too short.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install litellm==1.110.2 > /dev/null 2>&1 || exit 2
LITELLM_LOCAL_MODEL_COST_MAP=True timeout 120 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

import litellm

GIVEN = {"chat": "chatcmpl-0123456789abcdef", "responses": "resp_" + "0123456789abcdef" * 3}
CHAT = {"id": GIVEN["chat"], "object": "chat.completion", "created": 1, "model": "gpt-5.4", "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}]}
RESPONSE = {"id": GIVEN["responses"], "object": "response", "created_at": 1, "model": "gpt-5.4", "status": "completed", "parallel_tool_calls": True, "tool_choice": "auto",
            "tools": [], "usage": {"input_tokens": 7, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 12},
            "output": [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "Hello.", "annotations": []}]}]}


class Vendor(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps(RESPONSE if self.path.endswith("responses") else CHAT).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


async def main(base):
    router = litellm.Router([{"model_name": "m", "litellm_params": {"model": "openai/gpt-5.4", "api_key": "k", "api_base": base}}], num_retries=0)
    chat = await router.acompletion(model="m", messages=[{"role": "user", "content": "Hello."}])
    return {"chat": chat.id, "responses": (await router.aresponses(model="m", input="Hello.")).id}


server = ThreadingHTTPServer(("127.0.0.1", 0), Vendor)
threading.Thread(target=server.serve_forever, daemon=True).start()
seen = asyncio.run(main(f"http://127.0.0.1:{server.server_port}/v1"))
print(f"litellm {version('litellm')}")
print("guess: the id of an answer is the vendor's")
for name, id_ in seen.items():
    print(f"seen: of {name}, {len(GIVEN[name])} characters came of the vendor and {len(id_)} of the router, {'the same' if id_ == GIVEN[name] else 'others'}")
sys.exit(0 if seen["chat"] == GIVEN["chat"] and seen["responses"] != GIVEN["responses"] and len(seen["responses"]) > 128 else 1)
PY
