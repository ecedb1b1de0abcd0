#!/usr/bin/env bash
# LiveKit Agents and Pipecat measure speech themselves: of a transcription by OpenAI, which is charged by its tokens, LiveKit's metrics have the seconds that it was given and Pipecat's the
# seconds that it sent, and of one by Deepgram LiveKit's have not the length that Deepgram names and charges for. None of the vendor's counts is anywhere in either.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
for framework in livekit pipecat; do python3 -m venv "$folder/$framework"; done
"$folder/livekit/bin/pip" -q install livekit-agents==1.8.9 livekit-plugins-openai==1.8.9 livekit-plugins-deepgram==1.8.9 > /dev/null 2>&1 || exit 2
"$folder/pipecat/bin/pip" -q install 'pipecat-ai[openai]==1.14.0' > /dev/null 2>&1 || exit 2
cat > "$folder/vendors.py" <<'PY'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USAGE = {"type": "tokens", "input_tokens": 709, "output_tokens": 29, "total_tokens": 738, "input_token_details": {"audio_tokens": 700, "text_tokens": 9}}
ABOUT = {"transaction_key": "deprecated", "request_id": "11111111-2222-4333-8444-555555555555", "sha256": "x", "created": "2026-11-28T10:00:00Z", "duration": 61.375, "channels": 1, "models": []}
HEARD = {"channels": [{"alternatives": [{"transcript": "Hello.", "confidence": 0.9, "words": []}]}], "utterances": []}


class Vendor(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"] or 0))
        body = json.dumps({"metadata": ABOUT, "results": HEARD} if "listen" in self.path else {"text": "Hello.", "usage": USAGE}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def start():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Vendor)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"
PY
cat > "$folder/of_livekit.py" <<'PY'
import asyncio

from livekit import rtc
from livekit.agents.utils import http_context
from livekit.plugins import deepgram, openai

import vendors


async def main():
    base = vendors.start()
    frame = rtc.AudioFrame(b"\0\0" * 48000, 24000, 1, 48000)
    async with http_context.open():
        for recognizer in (openai.STT(api_key="k", model="gpt-4o-transcribe", base_url=base), deepgram.STT(api_key="k", base_url=f"{base}/listen")):
            recognizer.on("metrics_collected", lambda told: print(told.model_dump_json()))
            await recognizer.recognize([frame])


asyncio.run(asyncio.wait_for(main(), 60))
PY
cat > "$folder/of_pipecat.py" <<'PY'
import asyncio

from pipecat.frames.frames import EndFrame, Frame, InputAudioRawFrame, MetricsFrame, TranscriptionFrame, VADUserStartedSpeakingFrame, VADUserStoppedSpeakingFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.runner import PipelineRunner
from pipecat.pipeline.task import PipelineParams, PipelineTask
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.openai.stt import OpenAISTTService

import vendors


class Sink(FrameProcessor):
    def __init__(self):
        super().__init__()
        self.told, self.heard = asyncio.Event(), asyncio.Event()

    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        if isinstance(frame, TranscriptionFrame):
            self.heard.set()
        for data in frame.data if isinstance(frame, MetricsFrame) else ():
            if "Usage" in type(data).__name__:
                print(data.model_dump_json())
                self.told.set()
        await self.push_frame(frame, direction)


async def main():
    service = OpenAISTTService(api_key="k", base_url=vendors.start(), settings=OpenAISTTService.Settings(model="gpt-4o-transcribe"))
    sink, sound = Sink(), InputAudioRawFrame(audio=b"\0\0" * 16000, sample_rate=16000, num_channels=1)
    task = PipelineTask(Pipeline([service, sink]), params=PipelineParams(enable_metrics=True, enable_usage_metrics=True))
    running = asyncio.create_task(PipelineRunner(handle_sigint=False).run(task))
    await task.queue_frames([VADUserStartedSpeakingFrame(), sound, sound, VADUserStoppedSpeakingFrame()])
    await sink.told.wait()
    await sink.heard.wait()
    await task.queue_frames([EndFrame()])
    await running


asyncio.run(asyncio.wait_for(main(), 60))
PY
cd "$folder"
livekit=$(timeout 100 livekit/bin/python -W ignore of_livekit.py 2> /dev/null) || exit 2
pipecat=$(timeout 100 pipecat/bin/python -W ignore of_pipecat.py 2> /dev/null) || exit 2
echo "guess: what LiveKit Agents 1.8.9 and Pipecat 1.14.0 say of a transcription has OpenAI's 709 and 29 tokens, and Deepgram's 61.375 seconds"
echo "$livekit" | sed 's/^/seen: LiveKit: /'
echo "$pipecat" | sed 's/^/seen: Pipecat: /'
[[ $(echo "$livekit" | grep -c '"audio_duration":2.0') == 2 && $pipecat == *'"audio_seconds"'* ]] || exit 2
[[ "$livekit$pipecat" =~ :(709|738|61\.375)[,}] ]] && exit 1
exit 0
