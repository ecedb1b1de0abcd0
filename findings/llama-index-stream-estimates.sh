#!/usr/bin/env bash
# LlamaIndex: its counter of tokens takes the vendor's counts of whole answers, and of a stream its own guess by words, though the stream's end names what was
# used (and is there, in the last part): one total of measured and guessed tokens, with nothing that tells them apart.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install llama-index-core==0.14.25 llama-index-llms-openai==0.8.3 openai==2.54.0 > /dev/null 2>&1 || exit 2
timeout 120 "$folder/v/bin/python" -W ignore - <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

USAGE = {"input_tokens": 3001, "input_tokens_details": {"cached_tokens": 1408}, "output_tokens": 507, "output_tokens_details": {"reasoning_tokens": 331}, "total_tokens": 3508}
TEXT = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "Hello.", "annotations": []}]}
RESPONSE = {"id": "r", "object": "response", "created_at": 1, "status": "completed", "model": "gpt-5.4", "usage": USAGE, "output": [TEXT],
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "metadata": {}}
EVENTS = [
    {"type": "response.created", "sequence_number": 0, "response": {**RESPONSE, "status": "in_progress", "output": [], "usage": None}},
    {"type": "response.output_text.delta", "sequence_number": 1, "item_id": "m", "output_index": 0, "content_index": 0, "delta": "Hello.", "logprobs": []},
    {"type": "response.completed", "sequence_number": 2, "response": RESPONSE},
]


class OpenAI(BaseHTTPRequestHandler):
    def do_POST(self):
        is_stream = json.loads(self.rfile.read(int(self.headers["Content-Length"]))).get("stream")
        body = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in EVENTS) if is_stream else json.dumps(RESPONSE)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if is_stream else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), OpenAI)
threading.Thread(target=server.serve_forever, daemon=True).start()
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai import OpenAIResponses

hello = [ChatMessage(role="user", content="Hello")]


def counted(ask):
    # Its usual tokenizer is fetched from elsewhere, so words stand for tokens.
    counter = TokenCountingHandler(tokenizer=lambda text: text.split())
    model = OpenAIResponses(model="gpt-5.4", api_key="x", api_base=f"http://127.0.0.1:{server.server_port}/v1", callback_manager=CallbackManager([counter]))
    last = ask(model)
    return counter.prompt_llm_token_count, counter.completion_llm_token_count, last.additional_kwargs["usage"].input_tokens


whole, stream = counted(lambda model: model.chat(hello)), counted(lambda model: list(model.stream_chat(hello))[-1])
print("llama-index-core", version("llama-index-core"), "llama-index-llms-openai", version("llama-index-llms-openai"))
print("guess: the counter has 3,001 and 507, whole or streamed")
print(f"seen: whole {whole[0]} and {whole[1]}; streamed {stream[0]} and {stream[1]}, of an answer that says {stream[2]}")
sys.exit(0 if whole == (3001, 507, 3001) and stream[0] < 20 and stream[1] < 20 and stream[2] == 3001 else 1)
PY
