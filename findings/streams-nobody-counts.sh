#!/usr/bin/env bash
# Four frameworks know what a call of OpenAI's chat used, and lose it once the same call is streamed: LangChain as soon as there is a gateway (any base_url),
# Haystack, AutoGen and the AI SDK's provider for gateways always, since OpenAI names the usage of a stream only if asked. AutoGen says 0, so sums have no gap.
set -euo pipefail
folder=$(mktemp -d); trap 'kill %1 2> /dev/null || true; rm -rf "$folder"' EXIT
command -v npm > /dev/null || exit 2
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install openai==3.57.0 langchain-openai==1.7.4 langchain-core==1.8.3 haystack-ai==3.4.1 \
  'autogen-ext[openai]==0.7.5' autogen-core==0.7.5 > /dev/null 2>&1 || exit 2
npm install --silent --no-audit --no-fund --prefix "$folder" ai@7.0.173 @ai-sdk/openai-compatible@3.0.92 > /dev/null 2>&1 || exit 2
cat > "$folder/vendor.py" <<'PY'
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CHUNK, USAGE = {"id": "c", "created": 1, "model": "gpt-5.4"}, {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314}


class OpenAI(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text, part = {"role": "assistant", "content": "Hello."}, {**CHUNK, "object": "chat.completion.chunk"}
        parts = [{**part, "choices": [{"index": 0, "delta": text, "finish_reason": "stop"}]}]
        if (asked.get("stream_options") or {}).get("include_usage"):
            parts.append({**part, "choices": [], "usage": USAGE})
        whole = {**CHUNK, "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": text}], "usage": USAGE}
        body = "".join(f"data: {json.dumps(each)}\n\n" for each in parts) + "data: [DONE]\n\n" if asked.get("stream") else json.dumps(whole)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if asked.get("stream") else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), OpenAI)
print(server.server_port, flush=True)
server.serve_forever()
PY
cat > "$folder/try.py" <<'PY'
import asyncio
import json
import sys
from importlib.metadata import version

URL = sys.argv[1]


def langchain():
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="gpt-5.4", api_key="x", base_url=URL, use_responses_api=False)
    parts = list(model.stream("Hello"))
    usage = [part.usage_metadata["input_tokens"] for part in parts if part.usage_metadata]
    return "langchain-openai", model.invoke("Hello").usage_metadata["input_tokens"], usage[0] if usage else None


def haystack():
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.utils import Secret

    def usage(callback):
        made = OpenAIChatGenerator(model="gpt-5.4", api_base_url=URL, api_key=Secret.from_token("x"), streaming_callback=callback)
        return (made.run([ChatMessage.from_user("Hello")])["replies"][0].meta.get("usage") or {}).get("prompt_tokens")

    return "haystack-ai", usage(None), usage(lambda part: None)


def autogen():
    from autogen_core.models import UserMessage
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    about = {"vision": False, "function_calling": True, "json_output": True, "family": "unknown", "structured_output": True}
    client, hello = OpenAIChatCompletionClient(model="gpt-5.4", base_url=URL, api_key="x", model_info=about), [UserMessage(content="Hello", source="u")]

    async def both():
        whole = (await client.create(hello)).usage.prompt_tokens
        async for last in client.create_stream(hello):
            pass
        return whole, last.usage.prompt_tokens

    return "autogen-ext", *asyncio.run(both())


package, whole, stream = {"langchain": langchain, "haystack": haystack, "autogen": autogen}[sys.argv[2]]()
print(json.dumps([f"{package} {version(package)}", whole, stream]))
PY
cat > "$folder/try.mjs" <<'JS'
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";

const call = { model: createOpenAICompatible({ name: "gateway", apiKey: "x", baseURL: process.argv[2] })("gpt-5.4"), prompt: "Hello" };
const whole = await generateText(call);
const stream = streamText(call);
await stream.consumeStream();
console.log(JSON.stringify(["@ai-sdk/openai-compatible 3.0.92", whole.usage.inputTokens, (await stream.usage).inputTokens ?? null]));
JS
python3 "$folder/vendor.py" > "$folder/port" &
for _ in $(seq 100); do [ -s "$folder/port" ] && break; sleep 0.1; done
url="http://127.0.0.1:$(cat "$folder/port")/v1"
for name in langchain haystack autogen; do
  HAYSTACK_TELEMETRY_ENABLED=False timeout 60 "$folder/v/bin/python" -W ignore "$folder/try.py" "$url" "$name" 2> /dev/null >> "$folder/seen" || exit 2
done
timeout 60 node "$folder/try.mjs" "$url" 2> /dev/null >> "$folder/seen" || exit 2
echo "guess: a stream has the 2,903 tokens of input that a whole answer has"
python3 - "$folder/seen" <<'PY'
import json
import sys

seen = [json.loads(line) for line in open(sys.argv[1])]
for package, whole, stream in seen:
    print(f"seen: {package}: whole {whole}, stream {stream}")
sys.exit(0 if [each[1:] for each in seen] == [[2903, None], [2903, None], [2903, 0], [2903, None]] else 1)
PY
