#!/usr/bin/env bash
# browser-use's summary of tokens and cost, which an agent's history has, counts an answer once it fits what the agent asked for. One that does not fit raises before its usage is read, so that of
# two that the vendor charges the summary has one. DeepSeek's answers are never counted. What Claude wrote for an hour has the price of 5 minutes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install browser-use==0.13.14 > /dev/null 2>&1 || exit 2
HOME="$folder" ANONYMIZED_TELEMETRY=false timeout 120 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

# As LiteLLM's list names the prices, which is what browser-use fetches unless told to use another.
PRICES = {"claude-sonnet-4-5": {"input_cost_per_token": 3e-6, "output_cost_per_token": 15e-6, "cache_read_input_token_cost": 3e-7,
                                "cache_creation_input_token_cost": 3.75e-6, "cache_creation_input_token_cost_above_1hr": 6e-6}}
OPENAI = {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314}
CLAUDE = {"input_tokens": 1019, "cache_read_input_tokens": 20111, "cache_creation_input_tokens": 812, "output_tokens": 704,
          "cache_creation": {"ephemeral_5m_input_tokens": 308, "ephemeral_1h_input_tokens": 504}}
texts, asked = [], []


class Vendor(BaseHTTPRequestHandler):
    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(PRICES)

    def do_POST(self):
        model = json.loads(self.rfile.read(int(self.headers["content-length"])))["model"]
        asked.append(self.path)
        text = texts.pop(0)
        if self.path.endswith("/messages"):
            return self.answer({"id": "m", "type": "message", "role": "assistant", "model": model, "content": [{"type": "text", "text": text}],
                                "stop_reason": "end_turn", "stop_sequence": None, "usage": CLAUDE})
        self.answer({"id": "c", "object": "chat.completion", "created": 1, "model": model, "usage": OPENAI,
                     "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}]})

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Vendor)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
from browser_use import ChatAnthropic, ChatOpenAI
from browser_use.llm.deepseek.chat import ChatDeepSeek
from browser_use.llm.messages import UserMessage
from browser_use.tokens.service import TokenCost
from pydantic import BaseModel


class Step(BaseModel):
    text: str


async def count(model, answers, form):
    """The summary after an answer for each text, of which those that do not fit raise."""
    service = TokenCost(include_cost=True, pricing_url=f"{url}/prices")
    service.register_llm(model)
    texts[:] = answers
    asked.clear()
    for _ in answers:
        try:
            await model.ainvoke([UserMessage(content="Hello.")], *form)
        except Exception as error:
            print(f"  an answer that does not fit raises {type(error).__name__}")
    if len(asked) != len(answers):
        sys.exit(2)
    summary = await service.get_usage_summary()
    return summary.total_prompt_tokens, summary.total_completion_tokens, round(summary.total_cost, 7)


async def main():
    print("browser-use", version("browser-use"))
    print("guess: after a step that did not fit and one that did, 5806 in, 822 out; of DeepSeek 2903 and 411; of Claude 21942 and 704, $0.0238293")
    again = await count(ChatOpenAI(model="gpt-x", api_key="k", base_url=f"{url}/v1"), ["I would rather not.", '{"text": "Hello."}'], [Step])
    print("seen: OpenAI, two answers: %s in, %s out" % again[:2])
    deepseek = await count(ChatDeepSeek(model="deepseek-chat", api_key="k", base_url=f"{url}/v1"), ["Hello."], [])
    print("seen: DeepSeek: %s in, %s out" % deepseek[:2])
    claude = await count(ChatAnthropic(model="claude-sonnet-4-5", api_key="k", base_url=url), ["Hello."], [])
    print("seen: Claude: %s in, %s out, $%s" % claude)
    return again[:2] == (2903, 411) and deepseek[:2] == (0, 0) and claude == (21130, 704, 0.0226953)


sys.exit(0 if asyncio.run(main()) else 1)
PY
