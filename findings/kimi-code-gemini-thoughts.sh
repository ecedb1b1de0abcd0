#!/usr/bin/env bash
# Kimi Code writes a record of the usage of each call into its session, which its own sums and readers of its files add up. Of Gemini, which counts thoughts beside the answer and charges both,
# the record has the answer alone; of OpenAI's Responses, where reasoning is a part of the output, it has all.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
command -v npm > /dev/null && (cd "$folder" && npm init -y > /dev/null && npm install --silent --no-audit --no-fund node@24.21.0 @moonshot-ai/kimi-code@2.1.0 > /dev/null 2>&1) || exit 2
cat > "$folder/vendors.mjs" <<'JS'
import http from "node:http";
import fs from "node:fs";

const gemini = {
  candidates: [{ content: { role: "model", parts: [{ text: "Fine." }] }, finishReason: "STOP", index: 0 }],
  usageMetadata: { promptTokenCount: 3007, candidatesTokenCount: 97, thoughtsTokenCount: 1042, totalTokenCount: 4146 },
  modelVersion: "gemini-2.5-pro",
  responseId: "g1",
};
const message = { type: "message", id: "m", role: "assistant", status: "completed", content: [{ type: "output_text", text: "Fine.", annotations: [] }] };
const usage = { input_tokens: 3007, input_tokens_details: { cached_tokens: 0 }, output_tokens: 1139, output_tokens_details: { reasoning_tokens: 1042 }, total_tokens: 4146 };
const response = { id: "r1", object: "response", created_at: 1, model: "gpt-5.4", status: "completed", output: [message], usage };
const openai = [
  { type: "response.created", response: { ...response, status: "in_progress", output: [], usage: null } },
  { type: "response.output_item.added", output_index: 0, item: { ...message, status: "in_progress", content: [] } },
  { type: "response.output_text.delta", item_id: "m", output_index: 0, content_index: 0, delta: "Fine." },
  { type: "response.output_item.done", output_index: 0, item: message },
  { type: "response.completed", response },
];
const lines = (events) => events.map((event) => `${event.type ? `event: ${event.type}\n` : ""}data: ${JSON.stringify(event)}\n\n`).join("");
const server = http.createServer((request, answer) => {
  request.resume();
  request.on("end", () => {
    answer.writeHead(200, { "content-type": "text/event-stream" }).end(lines(request.url.includes("enerateContent") ? [gemini] : openai));
  });
});
server.listen(0, "127.0.0.1", () => fs.writeFileSync(process.argv[2], String(server.address().port)));
setTimeout(() => process.exit(0), 150_000);
JS
export HOME="$folder/home" PATH="$folder/node_modules/.bin:$PATH"
node "$folder/vendors.mjs" "$folder/port" & server=$!
trap 'kill "$server" 2> /dev/null; rm -rf "$folder"' EXIT
for _ in $(seq 50); do [ -s "$folder/port" ] && break; sleep 0.2; done
port=$(cat "$folder/port") || exit 2
mkdir -p "$HOME/.kimi-code" "$HOME/work"
cat > "$HOME/.kimi-code/config.toml" <<TOML
default_model = "gemini"
default_permission_mode = "auto"
telemetry = false
providers.google = { type = "google-genai", base_url = "http://127.0.0.1:$port", api_key = "k" }
providers.openai = { type = "openai_responses", base_url = "http://127.0.0.1:$port/v1", api_key = "k" }
models.gemini = { provider = "google", model = "gemini-2.5-pro", max_context_size = 200000 }
models.gpt = { provider = "openai", model = "gpt-5.4", max_context_size = 200000 }
TOML
echo "kimi-code $(node -p "require('$folder/node_modules/@moonshot-ai/kimi-code/package.json').version")"
echo "guess: the record of a call of 97 tokens of an answer and 1,042 of thoughts has 1,139 tokens out"
cd "$HOME/work"
for model in gemini gpt; do timeout 60 kimi -m "$model" -p "Hello." < /dev/null > /dev/null 2>&1 || exit 2; done
seen=$(cat "$HOME"/.kimi-code/sessions/*/*/agents/main/wire.jsonl | node -e '
const found = {};
for (const line of require("fs").readFileSync(0, "utf8").split("\n").filter((line) => line.includes("usage.record"))) {
  const { model, usage } = JSON.parse(line);
  found[model] = usage.output;
}
console.log(`gemini ${found.gemini}, gpt ${found.gpt}`);')
echo "seen: tokens out: $seen"
case "$seen" in "gemini 97, gpt 1139") exit 0 ;; *undefined*) exit 2 ;; *) exit 1 ;; esac
