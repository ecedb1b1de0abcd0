#!/usr/bin/env bash
# google-genai: a live session begins TLS with a server whose address says http.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install google-genai==3.6.1 > /dev/null 2>&1 || exit 2
timeout 120 "$folder/v/bin/python" - <<'PY'
import asyncio
import sys
from importlib.metadata import version

from google import genai

first = []


async def main():
    async def greet(reader, writer):
        first.append(await reader.read(3))
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = genai.Client(api_key="x", http_options={"base_url": f"http://127.0.0.1:{port}"})
    try:
        async with asyncio.timeout(30), client.aio.live.connect(model="gemini-2.0-flash-live-001"):
            pass
    except Exception as error:
        print("ended with", type(error).__name__)
    server.close()


asyncio.run(main())
print("google-genai", version("google-genai"))
print("guess: the first bytes are GET, of a WebSocket without TLS")
print("seen:", first[:1])
# A TLS record of a handshake begins with 22 and the version 3.
sys.exit(2 if not first else 0 if first[0][:2] == b"\x16\x03" else 1)
PY
