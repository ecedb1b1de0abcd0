#!/usr/bin/env bash
# ccusage: a line of Claude Code counts only if its JSON has no blank after a colon.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
command -v npm > /dev/null && [ "$(uname -sm)" = "Linux x86_64" ] || exit 2
(cd "$folder" && npm init -y > /dev/null && npm install --silent --no-audit --no-fund @ccusage/ccusage-linux-x64@20.0.24 > /dev/null 2>&1) || exit 2
program="$folder/node_modules/@ccusage/ccusage-linux-x64/bin/ccusage"; chmod +x "$program"
python3 - "$folder" <<'PY'
import json
import pathlib
import sys

usage = {"input_tokens": 7, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-4-6", "content": [], "usage": usage}
line = {"type": "assistant", "requestId": "req_1", "sessionId": "s", "timestamp": "2026-11-20T10:00:00.000Z",
        "cwd": "/w", "version": "2.1.332", "message": message}
for name, separators in (("compact", (",", ":")), ("spaced", (", ", ": "))):
    path = pathlib.Path(sys.argv[1]) / name / ".claude/projects/-w/s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(line, separators=separators) + "\n")
PY
count() { HOME="$folder/$1" timeout 60 "$program" claude daily --offline --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["totals"]["totalTokens"])'; }
compact=$(count compact); spaced=$(count spaced)
"$program" --version
echo "guess: 12 tokens in both files, which differ in the blanks between JSON's tokens"
echo "seen: compact $compact, spaced $spaced"
[ "$compact" = 12 ] || exit 2
[ "$spaced" = 0 ] || exit 1
