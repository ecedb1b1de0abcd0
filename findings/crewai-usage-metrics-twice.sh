#!/usr/bin/env bash
# CrewAI's `token_usage` of a crew is the sum, over its agents, of all that each agent's model ever counted. Agents that share one `LLM` object are so counted once for each of them,
# and the second `kickoff` of a crew says what both used, though its result looks like that of one. `successful_requests` is as wrong: 8 after 2 runs of 2 requests.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install crewai==1.15.30 > /dev/null 2>&1 || exit 2
HOME="$folder" CREWAI_DISABLE_TELEMETRY=true CREWAI_TRACING_ENABLED=false OTEL_SDK_DISABLED=true timeout 200 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

from crewai import LLM, Agent, Crew, Task

ANSWER = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini",
          "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Thought: I know it.\nFinal Answer: Hello."}}],
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


def model():
    return LLM(model="openai/gpt-4o-mini", base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="k")


def crew(models):
    agents = [Agent(role=f"agent {number}", goal="Greet.", backstory="You greet.", llm=llm) for number, llm in enumerate(models)]
    return Crew(agents=agents, tasks=[Task(description="Say hello.", expected_output="A word.", agent=agent) for agent in agents])


shared = model()
seen = {}
print("crewai", version("crewai"))
print("guess: the token_usage of a kickoff of two requests is 5806 in, 822 out of 2 requests")
for name, models in {"a model for each agent": [model(), model()], "one model for both": [shared, shared]}.items():
    both = crew(models)
    for kickoff in ("first", "second"):
        asked.clear()
        usage = both.kickoff().token_usage
        seen[name, kickoff] = (usage.prompt_tokens, usage.completion_tokens, usage.successful_requests)
        print(f"seen: {name}, {kickoff} kickoff: {len(asked)} requests, token_usage %s in, %s out, %s requests" % seen[name, kickoff])
        if len(asked) != 2:
            sys.exit(2)
sys.exit(0 if list(seen.values()) == [(5806, 822, 2), (11612, 1644, 4), (11612, 1644, 4), (23224, 3288, 8)] else 1)
PY
