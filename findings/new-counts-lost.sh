#!/usr/bin/env bash
# Nine SDKs hand on a count of the usage that they do not know yet, as vendors add them; google-genai and Voyage's drop it, and nothing that they return has it:
# a new kind of tokens is charged for, and cannot be seen, until the SDK is newer.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install openai==3.57.0 anthropic==2.14.0 groq==1.7.0 cerebras_cloud_sdk==1.91.0 together==3.1.1 huggingface_hub==2.4.0 \
  sambanova==1.13.0 mistralai==3.7.0 cohere==7.3.1 google-genai==3.6.1 voyageai==0.5.0 > /dev/null 2>&1 || exit 2
timeout 200 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

import anthropic, cerebras.cloud.sdk, cohere, groq, huggingface_hub, openai, sambanova, together, voyageai
from google import genai
from mistralai.client import Mistral

NEW = 23
COMMON = {"id": "c", "created": 1, "model": "m"}
HELLO = {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]}
ANSWERS = {
    "embeddings": {"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": [0.1]}], "usage": {"total_tokens": 907, "newCount": NEW}},
    ":generateContent": {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello."}]}, "finishReason": "STOP", "index": 0}],
                         "usageMetadata": {"promptTokenCount": 2903, "candidatesTokenCount": 411, "totalTokenCount": 3314, "newCount": NEW}},
    "v2/chat": {"id": "c", "finish_reason": "COMPLETE", "message": HELLO, "usage": {"billed_units": {"input_tokens": 2903, "output_tokens": 411}, "newCount": NEW}},
    "v1/messages": {**HELLO, "id": "m", "type": "message", "model": "m", "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 2903, "output_tokens": 411, "newCount": NEW}},
    "": {**COMMON, "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}],
         "usage": {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314, "newCount": NEW}},
}


class Vendor(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"] or 0))
        body = json.dumps(next(answer for place, answer in ANSWERS.items() if place in self.path)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Vendor)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}"
asked = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}
gemini = genai.Client(api_key="k", http_options={"base_url": base})
CALLS = {
    "openai": lambda: openai.OpenAI(api_key="k", base_url=base).chat.completions.create(**asked).usage.model_dump(),
    "anthropic": lambda: anthropic.Anthropic(api_key="k", base_url=base).messages.create(max_tokens=9, **asked).usage.model_dump(),
    "groq": lambda: groq.Groq(api_key="k", base_url=base).chat.completions.create(**asked).usage.model_dump(),
    "cerebras_cloud_sdk": lambda: cerebras.cloud.sdk.Cerebras(api_key="k", base_url=base, warm_tcp_connection=False).chat.completions.create(**asked).usage.model_dump(),
    "together": lambda: together.Together(api_key="k", base_url=base).chat.completions.create(**asked).usage.model_dump(),
    "huggingface_hub": lambda: dict(huggingface_hub.InferenceClient(api_key="k", base_url=base).chat.completions.create(**asked).usage),
    "sambanova": lambda: sambanova.SambaNova(api_key="k", base_url=base).chat.completions.create(**asked).usage.model_dump(),
    "mistralai": lambda: Mistral(api_key="k", server_url=base).chat.complete(**asked).usage.model_dump(),
    "cohere": lambda: cohere.ClientV2(api_key="k", base_url=base).chat(**asked).usage.dict(),
    "google-genai": lambda: gemini.models.generate_content(model="m", contents="Hello.").model_dump(),
    "voyageai": lambda: {name: value for name, value in vars(voyageai.Client(api_key="k", base_url=base).embed(["Hello."], model="m")).items()},
}
has = {name: f": {NEW}" in json.dumps(call(), default=str) for name, call in CALLS.items()}
print("guess: an SDK hands on a count that it does not know")
for name, kept in has.items():
    print(f"seen: {name} {version(name)} {'hands it on' if kept else 'has nothing of it'}")
sys.exit(0 if [name for name, kept in has.items() if not kept] == ["google-genai", "voyageai"] else 1)
PY
