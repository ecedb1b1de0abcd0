#!/usr/bin/env bash
# The Claude Agent SDK: each answer of one client comes with `usage` and `total_cost_usd`. The usage is that of the answer, the cost that of all answers so far, as is `model_usage`: who adds
# up the costs of a conversation pays for its first answer as often as there are answers. The usage of each message on the way has the output that its stream began with.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install claude-agent-sdk==0.2.189 > /dev/null 2>&1 || exit 2
mkdir "$folder/home"
HOME="$folder/home" IS_SANDBOX=1 timeout 120 "$folder/v/bin/python" - "$folder/home" 2> /dev/null <<'PY'
import asyncio
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

USAGE = {"input_tokens": 1019, "cache_read_input_tokens": 20111, "cache_creation_input_tokens": 812, "output_tokens": 704}
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [], "stop_reason": None, "stop_sequence": None}
asked = []


class Anthropic(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)))
        if not self.path.startswith("/v1/messages?") or not body.get("stream"):
            return self.answer("{}", "application/json")
        asked.append(MESSAGE["id"] + str(len(asked)))
        events = [
            {"type": "message_start", "message": {**MESSAGE, "id": asked[-1], "usage": {**USAGE, "output_tokens": 3}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 704}},
            {"type": "message_stop"},
        ]
        return self.answer("".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events), "text/event-stream")

    def answer(self, text, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Anthropic)
threading.Thread(target=server.serve_forever, daemon=True).start()
own = {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}", "ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CONFIG_DIR": sys.argv[1]}
results, outputs = [], []


async def talk():
    async with ClaudeSDKClient(ClaudeAgentOptions(env=own, model="claude-sonnet-4-5", tools=[], max_turns=1, cwd=sys.argv[1])) as client:
        for question in ("Hello", "Hello again", "And again"):
            before = len(asked)
            await client.query(question)
            async for message in client.receive_response():
                if isinstance(message, AssistantMessage):
                    outputs.append(message.usage["output_tokens"])
                elif isinstance(message, ResultMessage):
                    spent = {name: each["outputTokens"] for name, each in message.model_usage.items()}
                    results.append((len(asked) - before, message.usage["output_tokens"], round(message.total_cost_usd, 6), *spent.values()))


asyncio.run(talk())
print("claude-agent-sdk", version("claude-agent-sdk"))
print("guess: usage and total_cost_usd of an answer are both that answer's, 704 tokens out for each request")
for requests, output, cost, of_models in results:
    print(f"seen: {requests} requests: usage {output} out, total_cost_usd {cost}, model_usage {of_models} out")
print("seen: the output of the messages on the way:", outputs)
per_answer = all(output == 704 * requests for requests, output, _, _ in results)
first = results[0][2] / results[0][0]
made = [sum(each[0] for each in results[: place + 1]) for place in range(len(results))]
adds_up = [round(each[2] / first) for each in results] == made and [each[3] for each in results] == [704 * number for number in made]
sys.stdout.flush()
os._exit(0 if len(results) == 3 and per_answer and adds_up and set(outputs) == {3} else 1)
PY
