#!/usr/bin/env bash
# pi keeps the usage of a summary, for which it asks the model, with the line of the compaction and not with a message. Its own sums have it; ccusage's reader of pi adds up messages, so the
# call that reads most of a conversation is in no report of it.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
command -v npm > /dev/null && (cd "$folder" && npm init -y > /dev/null && npm install --silent --no-audit --no-fund --ignore-scripts @earendil-works/pi-coding-agent@1.6.0 @ccusage/pi@18.0.11 > /dev/null 2>&1 \
  && npm install --silent --no-audit --no-fund node@24.21.0 > /dev/null 2>&1) || exit 2
cat > "$folder/vendor.mjs" <<'JS'
import http from "node:http";
import fs from "node:fs";

let calls = 0;
const server = http.createServer((request, answer) => {
  request.resume();
  request.on("end", () => {
    calls += 1;
    const usage = { input_tokens: 1000 * 10 ** (calls - 1), cache_read_input_tokens: 0, cache_creation_input_tokens: 0, output_tokens: 7 };
    const message = { id: `msg_${calls}`, type: "message", role: "assistant", model: "claude-sonnet-4-5", content: [], stop_reason: null, stop_sequence: null, usage };
    const events = [
      { type: "message_start", message },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Fine." } },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 7 } },
      { type: "message_stop" },
    ];
    answer.writeHead(200, { "content-type": "text/event-stream" });
    answer.end(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(""));
  });
});
server.listen(0, "127.0.0.1", () => fs.writeFileSync(process.argv[2], String(server.address().port)));
setTimeout(() => process.exit(0), 120_000);
JS
export HOME="$folder/home" PATH="$folder/node_modules/.bin:$PATH" PI_OFFLINE=1 ANTHROPIC_API_KEY=k
mkdir -p "$HOME/.pi/agent" "$HOME/work"
node "$folder/vendor.mjs" "$folder/port" & server=$!
trap 'kill "$server" 2> /dev/null; rm -rf "$folder"' EXIT
for _ in $(seq 50); do [ -s "$folder/port" ] && break; sleep 0.2; done
echo "{\"providers\": {\"anthropic\": {\"baseUrl\": \"http://127.0.0.1:$(cat "$folder/port")\"}}}" > "$HOME/.pi/agent/models.json"
echo '{"compaction": {"keepRecentTokens": 0}}' > "$HOME/.pi/agent/settings.json"
for name in @earendil-works/pi-coding-agent @ccusage/pi; do echo "$name $(node -p "JSON.parse(require('fs').readFileSync('$folder/node_modules/$name/package.json')).version")"; done
echo "guess: a question and a compaction, of 1,000 and 10,000 tokens, are 11,000 tokens of input in each report"
cd "$HOME/work"
own=$({ echo '{"type": "prompt", "message": "Hello."}'; sleep 6; echo '{"type": "compact"}'; sleep 6; echo '{"type": "get_session_stats"}'; sleep 2; } \
  | timeout 60 pi --mode rpc --model anthropic/claude-sonnet-4-5 2> /dev/null | grep '"get_session_stats"' | node -p 'JSON.parse(require("fs").readFileSync(0)).data.tokens.input') || exit 2
reported=$(timeout 60 ccusage-pi daily --json --offline 2> /dev/null | node -p 'JSON.parse(require("fs").readFileSync(0)).totals.inputTokens') || exit 2
echo "seen: pi $own, ccusage $reported"
[ "$own" = 11000 ] || exit 2
[ "$reported" = 1000 ] && exit 0 || exit 1
