#!/usr/bin/env bash
# Ollama names what of a prompt came out of its cache, as its cloud charges less for it: `prompt_eval_cached_count` in its own API, `cached_tokens` in that of OpenAI. Its own package
# for Python drops the first, so that LangChain and what else is built upon it has none, and LiteLLM, which reads the answer itself, passes it over; the same call by /v1 has them.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install ollama==0.6.3 langchain-ollama==1.1.0 litellm==1.110.2 openai==3.57.0 > /dev/null 2>&1 || exit 2
LITELLM_LOCAL_MODEL_COST_MAP=True timeout 200 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

import litellm, ollama, openai
from langchain_ollama import ChatOllama

COUNTS = {"prompt_eval_count": 2903, "prompt_eval_cached_count": 2003, "eval_count": 411}
OWN = {"model": "m", "created_at": "2026-11-28T10:00:00Z", "message": {"role": "assistant", "content": "Hello."}, "done": True, "done_reason": "stop", **COUNTS}
CHAT = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}],
        "usage": {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314, "prompt_tokens_details": {"cached_tokens": 2003}}}


class Ollama(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"] or 0))
        body = json.dumps(CHAT if self.path.startswith("/v1") else OWN).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Ollama)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
asked = [{"role": "user", "content": "Hello."}]
of_openai = openai.OpenAI(api_key="k", base_url=f"{url}/v1")
CALLS = {
    "ollama": lambda: ollama.Client(host=url).chat(model="m", messages=asked).model_dump(),
    "langchain-ollama": lambda: ChatOllama(model="m", base_url=url).invoke("Hello.").model_dump(),
    "litellm": lambda: litellm.completion(model="ollama_chat/m", messages=asked, api_base=url).model_dump(),
    "openai": lambda: of_openai.chat.completions.create(model="m", messages=asked).model_dump(),
}
print("guess: a client of Ollama has the 2003 tokens of the prompt that came out of the cache")
said = {name: json.dumps(call(), default=str) for name, call in CALLS.items()}
for name, text in said.items():
    print(f"seen: {name} {version(name)} has the prompt's {'2903' if '2903' in text else 'tokens not'}, and of the cache {'2003' if '2003' in text else 'nothing'}")
if not all("2903" in text for text in said.values()):
    sys.exit(2)
sys.exit(0 if [name for name, text in said.items() if "2003" in text] == ["openai"] else 1)
PY
