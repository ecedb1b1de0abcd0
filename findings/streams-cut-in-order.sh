#!/usr/bin/env bash
# Ten SDKs: a stream that a proxy ends in order, but before its last events, is read as a whole answer.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install openai==3.57.0 anthropic==2.14.0 google-genai==3.6.1 mistralai==3.7.0 cohere==7.3.1 \
  groq==1.7.0 ollama==0.6.3 perplexityai==0.46.1 together==3.1.1 huggingface_hub==2.4.0 > /dev/null 2>&1 || exit 2
timeout 200 "$folder/v/bin/python" -W ignore - <<'PY'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello"}, "finish_reason": None}]}
START = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1019, "output_tokens": 3}}
GEMINI = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello"}]}, "index": 0}], "usageMetadata": {"promptTokenCount": 1019, "candidatesTokenCount": 3, "totalTokenCount": 1022}}
COHERE = {"type": "message-start", "id": "c", "delta": {"message": {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}}}
RESPONSE = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "in_progress", "output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": None}
BEGUN = {  # What each stream begins with. None of them says that the answer is over, or what it used.
    "/api/chat": ({"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", "content": "Hello"}, "done": False},),
    "/v2/chat": (COHERE,),
    "/chat/completions": (CHUNK,),
    "/responses": ({"type": "response.created", "sequence_number": 0, "response": RESPONSE},),
    "/messages": ({"type": "message_start", "message": START},),
    ":streamGenerateContent": (GEMINI,),
}


class Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        place = next(end for end in BEGUN if self.path.split("?")[0].endswith(end))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson" if place == "/api/chat" else "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in BEGUN[place]:
            data = json.dumps(event)
            named = f"event: {event['type']}\n" if "type" in event else ""
            frame = (data + "\n" if place == "/api/chat" else f"{named}data: {data}\n\n").encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(frame), frame))
        self.wfile.write(b"0\r\n\r\n")  # The end of the body, in order.

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
threading.Thread(target=server.serve_forever, daemon=True).start()
url, hello = f"http://127.0.0.1:{server.server_port}", [{"role": "user", "content": "Hello"}]


def chat(client):
    return client.chat.completions.create(model="m", messages=hello, stream=True)


def openai():
    from openai import OpenAI
    return chat(OpenAI(api_key="x", base_url=url, max_retries=0))


def openai_responses():
    from openai import OpenAI
    return OpenAI(api_key="x", base_url=url, max_retries=0).responses.create(model="m", input="Hello", stream=True)


def anthropic():
    from anthropic import Anthropic
    with Anthropic(api_key="x", base_url=url, max_retries=0).messages.stream(model="m", max_tokens=9, messages=hello) as stream:
        message = stream.get_final_message()
    return [f"final message with {message.usage.output_tokens} tokens, stop reason {message.stop_reason}"]


def google_genai():
    from google import genai
    client = genai.Client(api_key="x", http_options={"base_url": url})
    return [part for part in client.models.generate_content_stream(model="m", contents="Hello")]


def mistralai():
    from mistralai.client import Mistral
    return Mistral(api_key="x", server_url=url).chat.stream(model="m", messages=hello)


def cohere():
    from cohere import ClientV2
    return ClientV2(api_key="x", base_url=url).chat_stream(model="m", messages=hello)


def groq():
    from groq import Groq
    return chat(Groq(api_key="x", base_url=url, max_retries=0))


def ollama():
    from ollama import Client
    return Client(host=url).chat(model="m", messages=hello, stream=True)


def perplexityai():
    from perplexity import Perplexity
    return chat(Perplexity(api_key="x", base_url=url, max_retries=0))


def together():
    from together import Together
    return chat(Together(api_key="x", base_url=url, max_retries=0))


def huggingface_hub():
    from huggingface_hub import InferenceClient
    client = InferenceClient(base_url=url, api_key="x")
    return list(client.chat_completion(messages=hello, model="m", stream=True))


print("guess: the SDK raises, since the event that ends an answer never came")
raised = 0
for call in (openai, openai_responses, anthropic, google_genai, mistralai, cohere, groq, ollama, perplexityai, together, huggingface_hub):
    name = call.__name__.replace("_", "-")
    try:
        parts = list(call())
        seen = parts[0] if call is anthropic else f"{len(parts)} part, then the end"
    except Exception as error:
        raised += 1
        seen = f"{type(error).__name__}: {error}"[:90]
    print(f"seen: {name} {version('openai' if call is openai_responses else name)}: {seen}")
sys.exit(1 if raised else 0)
PY
