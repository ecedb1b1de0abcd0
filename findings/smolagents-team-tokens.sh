#!/usr/bin/env bash
# smolagents: the usage of a run's result is that of the agent that was asked, without the agents that it managed, which may make most of the requests. A manager that asks a helper twice
# has 2903 of 11305 tokens in. The helper's own monitor does not fill the gap: it begins again with each run, so it has the last one.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install smolagents==1.26.0 openai==3.57.0 > /dev/null 2>&1 || exit 2
HOME="$folder" timeout 120 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

from smolagents import CodeAgent, OpenAIModel

WRITTEN = {
    "manager": ("Thought: I ask twice.\n<code>\na = helper(task='Say hello.')\nb = helper(task='Say it again.')\nfinal_answer(a + b)\n</code>", 2903, 411),
    "helper": ("Thought: I know it.\n<code>\nfinal_answer('Hello.')\n</code>", 4201, 97),
}
sent, received = [], []


class OpenAI(BaseHTTPRequestHandler):
    def do_POST(self):
        model = json.loads(self.rfile.read(int(self.headers["content-length"])))["model"]
        text, prompt, completion = WRITTEN[model]
        sent.append(prompt)
        received.append(completion)
        body = json.dumps({
            "id": "c", "object": "chat.completion", "created": 1, "model": model,
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion},
        }).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), OpenAI)
threading.Thread(target=server.serve_forever, daemon=True).start()


def agent(model, **others):
    return CodeAgent(tools=[], model=OpenAIModel(model, api_base=f"http://127.0.0.1:{server.server_port}/v1", api_key="k"), verbosity_level=0, **others)


helper = agent("helper", name="helper", description="It says hello.")
result = agent("manager", managed_agents=[helper]).run("Have hello said twice.", return_full_result=True)
usage, last = result.token_usage, helper.monitor.get_total_token_counts()
print("smolagents", version("smolagents"))
print("guess: the token_usage of a run's result has all that the run used")
print(f"seen: {len(sent)} requests, {sum(sent)} in and {sum(received)} out; token_usage {usage.input_tokens} and {usage.output_tokens};",
      f"the managed agent's monitor {last.input_tokens} and {last.output_tokens} of two runs")
if (sum(sent), sum(received)) != (11305, 605):
    sys.exit(2)
sys.exit(0 if (usage.input_tokens, usage.output_tokens, last.input_tokens, last.output_tokens) == (2903, 411, 4201, 97) else 1)
PY
