#!/usr/bin/env bash
# A program that leaves a stream ends its request, so the vendor stops writing. With OpenInference's instrumentations for JavaScript it does not: they read a
# copy of the stream to its end, so all of the answer is written, and paid for, that nobody reads.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
command -v npm > /dev/null && (cd "$folder" && npm init -y > /dev/null && npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps openai@6.49.0 @anthropic-ai/sdk@1.14.0 \
  @arizeai/openinference-instrumentation-openai@4.2.7 @arizeai/openinference-instrumentation-anthropic@0.2.8 @opentelemetry/api@1.10.0 @opentelemetry/sdk-trace-node@2.12.1 \
  > /dev/null 2>&1) || exit 2
cat > "$folder/try.mjs" <<'JS'
import http from "node:http";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { AnthropicInstrumentation } from "@arizeai/openinference-instrumentation-anthropic";
import { OpenAIInstrumentation } from "@arizeai/openinference-instrumentation-openai";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

const PARTS = 40, PAUSE_MS = 20;
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const common = { id: "c", created: 1, model: "gpt-5.4", object: "chat.completion.chunk" };
const chunk = { ...common, choices: [{ index: 0, delta: { role: "assistant", content: "x" }, finish_reason: null }] };
const message = { id: "m", type: "message", role: "assistant", model: "claude-opus-4-6", content: [], stop_reason: null, stop_sequence: null, usage: { input_tokens: 9, output_tokens: 1 } };
const words = (one) => Array(PARTS).fill(one);
const EVENTS = {
  openai: [...words(chunk), { ...common, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }],
  anthropic: [
    { type: "message_start", message },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    ...words({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "x" } }),
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: PARTS } },
    { type: "message_stop" },
  ],
};
let written = 0;
const server = http.createServer((request, response) => {
  request.resume();
  request.on("end", async () => {
    const events = EVENTS[request.url.includes("messages") ? "anthropic" : "openai"];
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const event of events) {
      if (response.destroyed) return;
      response.write(`${event.type ? `event: ${event.type}\n` : ""}data: ${JSON.stringify(event)}\n\n`);
      written++;
      await wait(PAUSE_MS);
    }
    response.end();
  });
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const url = `http://127.0.0.1:${server.address().port}`;
const messages = [{ role: "user", content: "Hello." }];
const STREAMS = {
  openai: () => new OpenAI({ apiKey: "x", baseURL: `${url}/v1` }).chat.completions.create({ model: "gpt-5.4", messages, stream: true }),
  anthropic: () => new Anthropic({ apiKey: "x", baseURL: url }).messages.create({ model: "claude-opus-4-6", max_tokens: 99, messages, stream: true }),
};
async function leave(name) {
  written = 0;
  for await (const _ of await STREAMS[name]()) break;
  await wait(2 * PAUSE_MS * EVENTS[name].length);
  return written;
}
const seen = {};
for (const name of Object.keys(STREAMS)) seen[name] = { events: EVENTS[name].length, alone: await leave(name) };
const tracerProvider = new NodeTracerProvider();
new OpenAIInstrumentation({ tracerProvider }).manuallyInstrument(OpenAI);
new AnthropicInstrumentation({ tracerProvider }).manuallyInstrument(Anthropic);
for (const name of Object.keys(STREAMS)) seen[name].instrumented = await leave(name);
console.log("guess: of a stream that is left after its first part the vendor writes a few parts more at most, instrumented or not");
console.log("seen, in events written:", JSON.stringify(seen));
const half = PARTS / 2;
process.exit(Object.values(seen).every(({ events, alone, instrumented }) => alone < half && instrumented === events) ? 0 : 1);
JS
for name in openai @anthropic-ai/sdk @arizeai/openinference-instrumentation-openai @arizeai/openinference-instrumentation-anthropic; do
  echo "$name $(node -p "require('$folder/node_modules/$name/package.json').version")"
done
(cd "$folder" && timeout 60 node try.mjs)
