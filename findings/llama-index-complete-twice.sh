#!/usr/bin/env bash
# LlamaIndex: its own counter of tokens counts a completion of Anthropic twice, and a chat once.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install llama-index-core==0.14.25 llama-index-llms-anthropic==0.12.3 anthropic==0.125.0 > /dev/null 2>&1 || exit 2
timeout 120 "$folder/v/bin/python" -W ignore - <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

asked = []


class Anthropic(BaseHTTPRequestHandler):
    def do_POST(self):
        asked.append(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"id": "m", "type": "message", "role": "assistant", "model": "claude-opus-4-5", "stop_reason": "end_turn", "stop_sequence": None,
                   "content": [{"type": "text", "text": "Hello."}], "usage": {"input_tokens": 1019, "output_tokens": 704}}
        body = json.dumps(message).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Anthropic)
threading.Thread(target=server.serve_forever, daemon=True).start()
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.llms import ChatMessage
from llama_index.llms.anthropic import Anthropic as Model


def counted(call):
    asked.clear()
    counter = TokenCountingHandler()
    call(Model(model="claude-opus-4-5", api_key="x", base_url=f"http://127.0.0.1:{server.server_port}", callback_manager=CallbackManager([counter])))
    return len(asked), counter.prompt_llm_token_count, counter.completion_llm_token_count


completion = counted(lambda model: model.complete("Hello"))
chat = counted(lambda model: model.chat([ChatMessage(role="user", content="Hello")]))
print("llama-index-core", version("llama-index-core"), "llama-index-llms-anthropic", version("llama-index-llms-anthropic"))
print("guess: one request of 1,019 tokens in and 704 out is counted as that, whether asked for as a chat or as a completion")
print(f"seen (requests, in, out): chat {chat}, completion {completion}")
sys.exit(0 if chat == (1, 1019, 704) and completion == (1, 2038, 1408) else 1)
PY
