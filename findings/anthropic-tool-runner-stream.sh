#!/usr/bin/env bash
# Anthropic's SDK for JavaScript runs tools in a loop. Streamed, it takes the bytes of each answer from its own promise and parses them itself, past all that
# an instrumentation has put around `beta.messages.create`: OpenInference has a span for each request of a whole loop, and none of a streamed one.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
command -v npm > /dev/null && (cd "$folder" && npm init -y > /dev/null && npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps @anthropic-ai/sdk@1.14.0 \
  @arizeai/openinference-instrumentation-anthropic@0.2.8 @opentelemetry/api@1.10.0 @opentelemetry/sdk-trace-node@2.12.1 > /dev/null 2>&1) || exit 2
cat > "$folder/try.mjs" <<'JS'
import http from "node:http";
import Anthropic from "@anthropic-ai/sdk";
import { AnthropicInstrumentation } from "@arizeai/openinference-instrumentation-anthropic";
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";

const exporter = new InMemorySpanExporter();
const tracerProvider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
new AnthropicInstrumentation({ tracerProvider }).manuallyInstrument(Anthropic);

let requests = 0;
const server = http.createServer((request, response) => {
  let text = "";
  request.on("data", (part) => (text += part));
  request.on("end", () => {
    const output_tokens = requests++ % 2 ? 709 : 31, isCall = output_tokens === 31;
    const block = isCall ? { type: "tool_use", id: "toolu_1", name: "look", input: {} } : { type: "text", text: "Sunny." };
    const message = { id: "m", type: "message", role: "assistant", model: "claude-opus-4-6", content: [block], stop_reason: isCall ? "tool_use" : "end_turn", stop_sequence: null };
    const usage = { input_tokens: 1019, output_tokens };
    if (!JSON.parse(text).stream) {
      response.setHeader("Content-Type", "application/json");
      return response.end(JSON.stringify({ ...message, usage }));
    }
    const delta = isCall ? { type: "input_json_delta", partial_json: "{}" } : { type: "text_delta", text: "Sunny." };
    const events = [
      { type: "message_start", message: { ...message, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } } },
      { type: "content_block_start", index: 0, content_block: isCall ? block : { type: "text", text: "" } },
      { type: "content_block_delta", index: 0, delta },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: message.stop_reason, stop_sequence: null }, usage: { output_tokens } },
      { type: "message_stop" },
    ];
    response.setHeader("Content-Type", "text/event-stream");
    response.end(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(""));
  });
});
server.listen(0, "127.0.0.1", async () => {
  const client = new Anthropic({ apiKey: "x", baseURL: `http://127.0.0.1:${server.address().port}` });
  const look = { name: "look", input_schema: { type: "object" }, parse: (input) => input, run: () => "sun" };
  const asked = { model: "claude-opus-4-6", max_tokens: 99, messages: [{ role: "user", content: "The weather?" }], tools: [look] };
  const seen = {};
  for (const stream of [false, true]) {
    const before = requests;
    for await (const answer of client.beta.messages.toolRunner({ ...asked, stream })) if (stream) for await (const _ of answer);
    const spans = exporter.getFinishedSpans().map((span) => span.attributes["llm.token_count.completion"]);
    exporter.reset();
    seen[stream ? "streamed" : "whole"] = { requests: requests - before, spans };
  }
  console.log("guess: a span for each request, with 31 and 709 tokens out, streamed or not");
  console.log("seen:", JSON.stringify(seen));
  process.exit(JSON.stringify(seen) === '{"whole":{"requests":2,"spans":[31,709]},"streamed":{"requests":2,"spans":[]}}' ? 0 : 1);
});
JS
for name in @anthropic-ai/sdk @arizeai/openinference-instrumentation-anthropic; do echo "$name $(node -p "require('$folder/node_modules/$name/package.json').version")"; done
(cd "$folder" && timeout 60 node try.mjs)
