#!/usr/bin/env bash
# ElevenLabs and Deepgram say in a header of the answer what a speech is charged by (`character-cost` in credits, `dg-char-count`), and their SDKs' usual calls yield the sound alone: who
# records the call has no count of the vendor's unless it was made by `with_raw_response`. Of what Deepgram heard the length is of one channel, and each channel is charged.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install elevenlabs==2.78.0 deepgram-sdk==7.17.0 > /dev/null 2>&1 || exit 2
timeout 100 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import inspect
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

from deepgram import DeepgramClient
from deepgram.environment import DeepgramClientEnvironment
from elevenlabs import ElevenLabs

ABOUT = {"request_id": "r", "sha256": "x", "created": "2026-11-28T10:00:00Z", "duration": 61.375, "channels": 2, "models": ["m"], "model_info": {}}
HEARD = {"metadata": ABOUT, "results": {"channels": [{"alternatives": [{"transcript": "Hello.", "confidence": 0.9, "words": []}]} for _ in range(2)]}}


class Vendor(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"] or 0))
        body = json.dumps(HEARD).encode() if "listen" in self.path else b"\0" * 480
        self.send_response(200)
        self.send_header("content-type", "application/json" if "listen" in self.path else "audio/pcm")
        self.send_header("content-length", str(len(body)))
        self.send_header("character-cost", "41")
        self.send_header("dg-char-count", "29")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Vendor)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}"
places = [name for name in inspect.signature(DeepgramClientEnvironment).parameters if name != "self"]
eleven = ElevenLabs(api_key="k", base_url=base).text_to_speech
deepgram = DeepgramClient(api_key="k", environment=DeepgramClientEnvironment(**dict.fromkeys(places, base)))
speak, asked = deepgram.speak.v1.audio, {"voice_id": "v", "text": "Hello.", "model_id": "m"}
plain = {"elevenlabs": list(eleven.convert(**asked)), "deepgram-sdk": list(speak.generate(text="Hello."))}
with eleven.with_raw_response.convert(**asked) as told_by_eleven, speak.with_raw_response.generate(text="Hello.") as told_by_deepgram:
    raw = {"elevenlabs": told_by_eleven.headers.get("character-cost"), "deepgram-sdk": told_by_deepgram.headers.get("dg-char-count")}
heard = deepgram.listen.v1.media.transcribe_file(request=b"\0" * 100, model="nova-3", multichannel=True).metadata
print("guess: what an SDK returns of a speech names what the speech is charged by, and a length is all that is charged")
for name, parts in plain.items():
    print(f"seen: {name} {version(name)} yields {sorted({type(part).__name__ for part in parts})}, and by with_raw_response {raw[name]}")
print(f"seen: of {heard.channels} channels Deepgram names {heard.duration} seconds")
if list(raw.values()) != ["41", "29"]:
    sys.exit(2)
only_sound = all(type(part) is bytes for parts in plain.values() for part in parts)
sys.exit(0 if only_sound and (heard.duration, heard.channels) == (61.375, 2) else 1)
PY
