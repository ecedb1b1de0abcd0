#!/usr/bin/env bash
# Ax's usage of a call of OpenAI has OpenAI's names, and under `promptTokens` what is left of the prompt without what came out of the cache: prompt and completion are not the total. The span of a
# call has no counts among its attributes; they are in an event of it.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cd "$folder" # Its package writes files of its own where npm is started.
command -v npm > /dev/null && npm install --silent --legacy-peer-deps --no-audit --no-fund --prefix "$folder" @ax-llm/ax@24.0.21 @opentelemetry/api@1.10.0 @opentelemetry/sdk-trace-node@2.12.1 > /dev/null 2>&1 || exit 2
cat > try.mjs <<'JS'
import http from "node:http";
import { ai, ax } from "@ax-llm/ax";
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";

const kept = new InMemorySpanExporter();
const tracer = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(kept)] }).getTracer("ax");
const usage = { prompt_tokens: 2903, completion_tokens: 411, total_tokens: 3314, prompt_tokens_details: { cached_tokens: 2003 } };
const message = { role: "assistant", content: "Answer: Hello." };
const server = http.createServer((request, response) => {
  request.resume();
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify({ id: "c", object: "chat.completion", created: 1, model: "gpt-5.4", choices: [{ index: 0, finish_reason: "stop", message }], usage }));
});
server.listen(0, "127.0.0.1", async () => {
  const llm = ai({ name: "openai", apiKey: "k", apiURL: `http://127.0.0.1:${server.address().port}/v1`, config: { model: "gpt-5.4" }, options: { tracer } });
  const greet = ax("question:string -> answer:string");
  await greet.forward(llm, { question: "Hello" }, { stream: false, tracer });
  const { promptTokens, completionTokens, totalTokens, cacheReadTokens } = greet.getUsage()[0].tokens;
  const spans = kept.getFinishedSpans().filter((span) => span.attributes["gen_ai.request.model"]);
  const counted = spans.filter((span) => "gen_ai.usage.input_tokens" in span.attributes).length;
  const events = spans.flatMap((span) => span.events).filter((event) => event.attributes?.["gen_ai.usage.input_tokens"]);
  console.log("@ax-llm/ax 24.0.21");
  console.log("guess: promptTokens of OpenAI is OpenAI's 2,903, of which 2,003 were cached, and the span of the call has its counts");
  console.log("seen:", JSON.stringify({ promptTokens, completionTokens, totalTokens, cacheReadTokens }), `spans ${spans.length}, with counts ${counted}; events with counts`, JSON.stringify(events.map((each) => each.attributes)));
  process.exit(promptTokens === 900 && totalTokens === 3314 && cacheReadTokens === 2003 && spans.length === 1 && counted === 0 ? 0 : 1);
});
JS
timeout 60 node try.mjs 2> /dev/null
