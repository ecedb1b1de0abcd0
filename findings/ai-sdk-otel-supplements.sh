#!/usr/bin/env bash
# The spans of the AI SDK by @ai-sdk/otel, as they are by default, lack counts that its own `usage` and `providerMetadata` have: reasoning, what Claude wrote for an hour, and what
# OpenRouter charged. Two options bring them.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
command -v npm > /dev/null && (cd "$folder" && npm init -y > /dev/null && npm install --silent --no-audit --no-fund ai@7.0.173 @ai-sdk/otel@1.0.173 \
  @ai-sdk/openai@4.0.118 @ai-sdk/anthropic@4.0.105 @openrouter/ai-sdk-provider@3.1.0 @opentelemetry/sdk-trace-node@2.12.1 > /dev/null 2>&1) || exit 2
cat > "$folder/try.mjs" <<'JS'
import http from "node:http";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { OpenTelemetry } from "@ai-sdk/otel";
import { createOpenRouter } from "@openrouter/ai-sdk-provider";
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { generateText } from "ai";

const chat = { prompt_tokens: 2903, completion_tokens: 1411, total_tokens: 4314, completion_tokens_details: { reasoning_tokens: 971 } };
const routed = { ...chat, completion_tokens_details: { reasoning_tokens: 0 }, cost: 0.07531 };
const claude = {
  input_tokens: 1019, cache_read_input_tokens: 20111, cache_creation_input_tokens: 812, output_tokens: 704,
  cache_creation: { ephemeral_5m_input_tokens: 308, ephemeral_1h_input_tokens: 504 },
};
const server = http.createServer((request, response) => {
  request.resume().on("end", () => {
    response.setHeader("Content-Type", "application/json");
    const message = { id: "m", type: "message", role: "assistant", model: "m", content: [{ type: "text", text: "Hello." }], stop_reason: "end_turn", usage: claude };
    const choices = [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "Hello." } }];
    const usage = request.url.startsWith("/api/") ? routed : chat;
    response.end(JSON.stringify(request.url.endsWith("/messages") ? message : { id: "c", object: "chat.completion", created: 1, model: "m", choices, usage }));
  });
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const exporter = new InMemorySpanExporter();
new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register();
const at = `http://127.0.0.1:${server.address().port}`;
const calls = {
  "reasoning of OpenAI": [createOpenAI({ apiKey: "k", baseURL: `${at}/v1` }).chat("gpt-5.4"), /971/],
  "what Claude wrote for an hour": [createAnthropic({ apiKey: "k", baseURL: `${at}/v1` })("claude-opus-4-6"), /504/],
  "what OpenRouter charged": [createOpenRouter({ apiKey: "k", baseURL: `${at}/api/v1` }).chat("openai/gpt-5.4"), /0\.07531/],
};
const seen = [];
console.log("guess: the span of a call has the reasoning, the lifetimes of written tokens and the cost that its answer has");
for (const options of [{}, { usage: true, providerMetadata: true }]) {
  for (const [name, [model, counted]] of Object.entries(calls)) {
    exporter.reset();
    const answer = await generateText({ model, prompt: "Hello", telemetry: { integrations: [new OpenTelemetry(options)] } });
    const span = exporter.getFinishedSpans().find((each) => each.attributes["gen_ai.operation.name"] === "chat");
    if (!span || !counted.test(JSON.stringify([answer.usage, answer.providerMetadata]))) process.exit(2);
    seen.push(counted.test(JSON.stringify(span.attributes)));
    console.log(`seen: with ${JSON.stringify(options)} ${name} is ${seen.at(-1) ? "" : "not "}in the span`);
  }
}
process.exit(JSON.stringify(seen) === "[false,false,false,true,true,true]" ? 0 : 1);
JS
echo "ai $(node -p "require('$folder/node_modules/ai/package.json').version"), @ai-sdk/otel $(node -p "require('$folder/node_modules/@ai-sdk/otel/package.json').version")"
(cd "$folder" && timeout 60 node try.mjs 2> "$folder/log") || { code=$?; cat "$folder/log" >&2; exit $code; }
