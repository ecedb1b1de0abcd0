#!/usr/bin/env bash
# Claude Code: a fork of a compacted session copies the answers that it kept, with usage of 0 tokens.
set -euo pipefail
folder=$(mktemp -d); server=""; trap '[ -z "$server" ] || kill "$server" 2> /dev/null; rm -rf "$folder"' EXIT
command -v npm > /dev/null && [ "$(uname -sm)" = "Linux x86_64" ] || exit 2
(cd "$folder" && npm init -y > /dev/null && npm install --silent --no-audit --no-fund @anthropic-ai/claude-code-linux-x64@2.1.332 > /dev/null 2>&1) || exit 2
program="$folder/node_modules/@anthropic-ai/claude-code-linux-x64/claude"; chmod +x "$program"
cat > "$folder/server.py" <<'PY'
import http.server
import json
import sys

answers = 0


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass

    def do_POST(self):
        global answers
        answers += 1
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        usage = {"input_tokens": 1000 + answers, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
        message = {"id": f"msg_{answers}", "type": "message", "role": "assistant", "model": asked.get("model"), "content": [],
                   "stop_reason": None, "stop_sequence": None, "usage": usage}
        events = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "<summary>All is well.</summary>"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 700 + answers}},
            {"type": "message_stop"},
        ]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("request-id", f"req_{answers}")
        self.end_headers()
        self.wfile.write("".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events).encode())


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
PY
python3 "$folder/server.py" > "$folder/port" & server=$!
for _ in $(seq 50); do [ -s "$folder/port" ] && break; sleep 0.1; done
mkdir "$folder/home" "$folder/work"
ask() {
  (cd "$folder/work" && env -i PATH="$PATH" HOME="$folder/home" ANTHROPIC_BASE_URL="http://127.0.0.1:$(cat "$folder/port")" ANTHROPIC_API_KEY=none \
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 IS_SANDBOX=1 timeout 60 "$program" --model claude-opus-4-6 --output-format json "$@" < /dev/null)
}
session=$(ask -p hello | python3 -c 'import json,sys; print(json.load(sys.stdin)["session_id"])') || exit 2
ask -p more --resume "$session" > /dev/null
ask -p /compact --resume "$session" > /dev/null
ask -p fork --resume "$session" --fork-session > /dev/null
"$program" --version
echo "guess: an answer that a fork copied has the usage of the call, as it has without a compaction"
python3 - "$folder/home" "$session" <<'PY'
import json
import pathlib
import sys

found = {}
for path in pathlib.Path(sys.argv[1]).glob(".claude/projects/*/*.jsonl"):
    for line in map(json.loads, path.read_text().splitlines()):
        if line.get("requestId") == "req_2":
            usage = line["message"]["usage"]
            found["original" if path.stem == sys.argv[2] else "fork"] = usage["input_tokens"], usage["output_tokens"]
print(f"seen: input and output in the original {found.get('original')}, in the fork {found.get('fork')}")
if found.get("original") != (1002, 702):
    sys.exit(2)
sys.exit(found.get("fork") != (0, 0))
PY
