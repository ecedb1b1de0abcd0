#!/usr/bin/env bash
# DSPy's tracker of usage counts what runs in its own thread or task. Of what `dspy.Parallel`, `batch` and `Evaluate` run in threads, where most of a program's calls are, it has nothing:
# each thread gets a copy of the tracker, and nobody adds the copies up. The usage is empty, as after no call.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install dspy==3.4.1 > /dev/null 2>&1 || exit 2
HOME="$folder" DSPY_CACHEDIR="$folder/c" timeout 200 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

import dspy

TEXT = "[[ ## answer ## ]]\nHello.\n\n[[ ## completed ## ]]"
ANSWER = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": TEXT}}],
          "usage": {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314}}
asked = []


class OpenAI(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"] or 0))
        asked.append(self.path)
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), OpenAI)
threading.Thread(target=server.serve_forever, daemon=True).start()
dspy.configure(lm=dspy.LM("openai/m", api_key="k", api_base=f"http://127.0.0.1:{server.server_port}/v1", cache=False), track_usage=True)
answer = dspy.Predict("question -> answer")
questions = [dspy.Example(question=str(number)).with_inputs("question") for number in range(3)]
WAYS = {
    "one after the other": lambda: [answer(**each.inputs()) for each in questions],
    "dspy.Parallel": lambda: dspy.Parallel(num_threads=2, disable_progress_bar=True)([(answer, each.inputs()) for each in questions]),
    "batch": lambda: answer.batch(questions, num_threads=2, disable_progress_bar=True),
    "Evaluate": lambda: dspy.Evaluate(devset=questions, metric=lambda *_: 1.0, num_threads=2)(answer),
}
seen = {}
print("dspy", version("dspy"))
print("guess: track_usage has the tokens of three calls, 8709 in, whatever runs them")
for name, ask in WAYS.items():
    asked.clear()
    with dspy.track_usage() as tracker:
        ask()
    seen[name] = sum(usage["prompt_tokens"] for usage in tracker.get_total_tokens().values())
    print(f"seen: {name}: {len(asked)} requests, {seen[name]} tokens in")
    if len(asked) != 3:
        sys.exit(2)
if seen.pop("one after the other") != 8709:
    sys.exit(2)
sys.exit(0 if not any(seen.values()) else 1)
PY
