#!/usr/bin/env bash
# LangChain: a call of OpenAI's flex tier has its cached, written and reasoning tokens under names that begin with the tier.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install langchain-openai==1.7.4 langchain-core==1.8.3 > /dev/null 2>&1 || exit 2
timeout 120 "$folder/v/bin/python" -W ignore - <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

USAGE = {"input_tokens": 3001, "input_tokens_details": {"cached_tokens": 1408, "cache_write_tokens": 256}, "output_tokens": 507,
         "output_tokens_details": {"reasoning_tokens": 331}, "total_tokens": 3508}


class OpenAI(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = {"type": "output_text", "text": "Hello.", "annotations": []}
        body = json.dumps({
            "id": "r", "object": "response", "created_at": 1, "status": "completed", "model": "gpt-5.4", "usage": USAGE,
            "service_tier": asked.get("service_tier", "default"), "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "metadata": {},
            "output": [{"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [text]}],
        }).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), OpenAI)
threading.Thread(target=server.serve_forever, daemon=True).start()
from langchain_openai import ChatOpenAI


def details(**options):
    model = ChatOpenAI(model="gpt-5.4", api_key="x", base_url=f"http://127.0.0.1:{server.server_port}/v1", use_responses_api=True, **options)
    usage = model.invoke("Hello").usage_metadata
    return usage["input_token_details"], usage["output_token_details"]


usual, flex = details(), details(service_tier="flex")
print("langchain-openai", version("langchain-openai"), "langchain-core", version("langchain-core"))
print("guess: `cache_read`, `cache_creation` and `reasoning` are the same names for each tier")
print("seen without a tier:", *usual)
print("seen with flex:", *flex)
is_so = usual == ({"cache_read": 1408, "cache_creation": 256}, {"reasoning": 331}) and flex == (
    {"flex_cache_read": 1408, "flex_cache_creation": 256, "flex": 1593}, {"flex_reasoning": 331, "flex": 176})
sys.exit(0 if is_so else 1)
PY
