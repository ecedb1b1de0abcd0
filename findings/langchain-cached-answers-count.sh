#!/usr/bin/env bash
# LangChain: an answer out of its own cache brings the tokens of the call that filled it, so its counter and three instrumentations report a second call
# that nobody made or pays for: the better a cache works, the more it seems to cost.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install langchain==1.5.2 langchain-openai==1.7.4 langchain-core==1.8.3 openai==3.57.0 opentelemetry-sdk==1.45.2 \
  openinference-instrumentation-langchain==0.1.80 opentelemetry-instrumentation-langchain==0.62.4 opentelemetry-instrumentation-genai-langchain==1.3b0 > /dev/null 2>&1 || exit 2
cat > "$folder/try.py" <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from importlib.metadata import version

USAGE = {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314}
ANSWER = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5.4", "usage": USAGE,
          "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}]}
COUNTED = {
    "openinference-instrumentation-langchain": ("openinference.instrumentation.langchain", "LangChainInstrumentor", "llm.token_count.prompt"),
    "opentelemetry-instrumentation-langchain": ("opentelemetry.instrumentation.langchain", "LangchainInstrumentor", "gen_ai.usage.input_tokens"),
    "opentelemetry-instrumentation-genai-langchain": ("opentelemetry.instrumentation.genai.langchain", "LangChainInstrumentor", "gen_ai.usage.input_tokens"),
}
asked = []


class OpenAI(BaseHTTPRequestHandler):
    def do_POST(self):
        asked.append(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), OpenAI)
threading.Thread(target=server.serve_forever, daemon=True).start()
package = sys.argv[1]
if package in COUNTED:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    module, name, count = COUNTED[package]
    getattr(import_module(module), name)().instrument(tracer_provider=provider)
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.globals import set_llm_cache
from langchain_openai import ChatOpenAI

set_llm_cache(InMemoryCache())
model = ChatOpenAI(model="gpt-5.4", api_key="x", base_url=f"http://127.0.0.1:{server.server_port}/v1", use_responses_api=False)
with get_usage_metadata_callback() as counter:
    for _ in range(3):
        model.invoke("Hello")
if package in COUNTED:
    counts = [span.attributes.get(count) for span in kept.get_finished_spans()]
else:
    counts = [counter.usage_metadata["gpt-5.4"]["input_tokens"]]
print(f"seen: {package} {version(package)}: {len(asked)} request, tokens of input {counts}")
sys.exit(0 if len(asked) == 1 and sum(counts) == 3 * 2903 else 1)
PY
echo "guess: of three equal questions one is a call, with 2,903 tokens of input"
for package in langchain-core openinference-instrumentation-langchain opentelemetry-instrumentation-langchain opentelemetry-instrumentation-genai-langchain; do
  timeout 60 "$folder/v/bin/python" -W ignore "$folder/try.py" "$package" 2> /dev/null
done
