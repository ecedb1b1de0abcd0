#!/usr/bin/env bash
# OpenAI's SDK for JavaScript: of two instrumentations around one client the later one takes the place of the earlier, which records nothing.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cd "$folder" && command -v npm > /dev/null && npm install --silent --no-audit --no-fund --legacy-peer-deps --prefix "$folder" openai@6.49.0 @arizeai/openinference-instrumentation-openai@4.2.7 \
  @traceloop/instrumentation-openai@0.27.0 @opentelemetry/sdk-trace-node@2.12.1 @opentelemetry/api@1.9.1 > /dev/null 2>&1 || exit 2
cat > seen.mjs <<'JS'
import { createServer } from "node:http";
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { OpenAIInstrumentation as OpenInference } from "@arizeai/openinference-instrumentation-openai";
import { OpenAIInstrumentation as Traceloop } from "@traceloop/instrumentation-openai";
import OpenAI from "openai";

const server = createServer((asked, answer) => {
  asked.resume().on("end", () => {
    answer.setHeader("Content-Type", "application/json");
    answer.end(JSON.stringify({ id: "1", object: "chat.completion", created: 1, model: "gpt-5.4",
      choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "Hello." } }],
      usage: { prompt_tokens: 3001, completion_tokens: 507, total_tokens: 3508, prompt_tokens_details: { cached_tokens: 1408 } } }));
  });
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const kept = new InMemorySpanExporter();
const tracerProvider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(kept)] });
for (const instrumentation of [new OpenInference(), new Traceloop()]) {
  instrumentation.setTracerProvider(tracerProvider);
  instrumentation.manuallyInstrument(OpenAI);
}
const client = new OpenAI({ apiKey: "x", baseURL: `http://127.0.0.1:${server.address().port}/v1` });
await client.chat.completions.create({ model: "gpt-5.4", messages: [{ role: "user", content: "Hello" }] });
const scopes = kept.getFinishedSpans().map((span) => span.instrumentationScope.name);
console.log("openai 6.49.0, OpenInference 4.2.7, Traceloop 0.27.0");
console.log("guess: with both there are two spans of a call, that of OpenInference with its cached tokens");
console.log("seen:", scopes);
server.close();
process.exitCode = JSON.stringify(scopes) === '["@traceloop/instrumentation-openai"]' ? 0 : 1;
JS
timeout 60 node seen.mjs
