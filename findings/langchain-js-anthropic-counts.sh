#!/usr/bin/env bash
# LangChain.js: what Claude wrote for an hour is in the same count as what it wrote for 5 minutes, and a stream's output has its first count on top.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
command -v npm > /dev/null && (cd "$folder" && npm init -y > /dev/null &&
  npm install --silent --no-audit --no-fund @langchain/anthropic@1.5.11 @langchain/core > /dev/null 2>&1) || exit 2
cat > "$folder/try.mjs" <<'JS'
import http from "node:http";
import { ChatAnthropic } from "@langchain/anthropic";

const written = { ephemeral_5m_input_tokens: 308, ephemeral_1h_input_tokens: 504 };
const usage = { input_tokens: 1019, cache_read_input_tokens: 20111, cache_creation_input_tokens: 812, cache_creation: written, output_tokens: 704 };
const server = http.createServer((request, response) => {
  let text = "";
  request.on("data", (part) => (text += part));
  request.on("end", () => {
    const message = { id: "m", type: "message", role: "assistant", model: "claude-opus-4-6", stop_reason: "end_turn", stop_sequence: null };
    if (!JSON.parse(text).stream) {
      response.setHeader("Content-Type", "application/json");
      return response.end(JSON.stringify({ ...message, content: [{ type: "text", text: "Hello." }], usage }));
    }
    response.setHeader("Content-Type", "text/event-stream");
    for (const event of [
      { type: "message_start", message: { ...message, stop_reason: null, content: [], usage: { ...usage, output_tokens: 3 } } },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello." } },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 704 } },
      { type: "message_stop" },
    ]) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    response.end();
  });
});
server.listen(0, "127.0.0.1", async () => {
  const model = new ChatAnthropic({ apiKey: "x", model: "claude-opus-4-6", anthropicApiUrl: `http://127.0.0.1:${server.address().port}` });
  const whole = (await model.invoke("Hello")).usage_metadata;
  let streamed;
  for await (const part of await model.stream("Hello")) streamed = streamed ? streamed.concat(part) : part;
  console.log("guess: 704 out both times, and 504 of the 812 written under a name of their own");
  console.log("seen: whole", JSON.stringify(whole), "streamed", JSON.stringify(streamed.usage_metadata));
  const hasHour = JSON.stringify([whole, streamed.usage_metadata]).includes("504");
  process.exit(whole.output_tokens === 704 && streamed.usage_metadata.output_tokens === 707 && !hasHour ? 0 : 1);
});
JS
echo "@langchain/anthropic $(node -p "require('$folder/node_modules/@langchain/anthropic/package.json').version")"
(cd "$folder" && timeout 60 node try.mjs 2> /dev/null)
