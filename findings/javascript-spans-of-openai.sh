#!/usr/bin/env bash
# OpenAI's SDK in JavaScript: with OpenInference and with Traceloop a refused call leaves no span at all, and a stream of chat has no counts, although it asked
# for them and they came. OpenTelemetry's own instrumentation has both, and does not say what was cached.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
command -v npm > /dev/null && npm install --silent --legacy-peer-deps --no-audit --no-fund --prefix "$folder" openai@6.49.0 @opentelemetry/api@1.10.0 @opentelemetry/sdk-trace-node@2.12.1 \
  @arizeai/openinference-instrumentation-openai@4.2.7 @traceloop/instrumentation-openai@0.27.0 @opentelemetry/instrumentation-openai@0.22.0 > /dev/null 2>&1 || exit 2
cat > "$folder/try.cjs" <<'JS'
const http = require("node:http");
const { createNoopMeter } = require("@opentelemetry/api");
const { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } = require("@opentelemetry/sdk-trace-node");

const kept = new InMemorySpanExporter();
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(kept)] });
provider.register();
const instrumentation = new (require(process.argv[2]).OpenAIInstrumentation)();
instrumentation.setTracerProvider(provider);
instrumentation.setMeterProvider(createNoopMeter ? { getMeter: createNoopMeter } : undefined);
const OpenAI = require("openai");
if (instrumentation.manuallyInstrument) instrumentation.manuallyInstrument(OpenAI.OpenAI);

const usage = { prompt_tokens: 2903, completion_tokens: 411, total_tokens: 3314, prompt_tokens_details: { cached_tokens: 2003 } };
const common = { id: "c", created: 1, model: "gpt-5.4" };
const choice = { index: 0, finish_reason: "stop" };
const server = http.createServer(async (request, response) => {
  let sent = "";
  for await (const part of request) sent += part;
  const { stream, user } = JSON.parse(sent);
  if (user === "refused") return response.writeHead(400, { "Content-Type": "application/json" }).end('{"error": {"message": "No."}}');
  const message = { role: "assistant", content: "Hello." };
  if (!stream) {
    response.setHeader("Content-Type", "application/json");
    return response.end(JSON.stringify({ ...common, object: "chat.completion", choices: [{ ...choice, message }], usage }));
  }
  response.setHeader("Content-Type", "text/event-stream");
  const chunk = { ...common, object: "chat.completion.chunk" };
  for (const each of [{ ...chunk, choices: [{ ...choice, delta: message }] }, { ...chunk, choices: [], usage }]) response.write(`data: ${JSON.stringify(each)}\n\n`);
  return response.end("data: [DONE]\n\n");
});
server.listen(0, "127.0.0.1", async () => {
  const client = new OpenAI.OpenAI({ apiKey: "x", maxRetries: 0, baseURL: `http://127.0.0.1:${server.address().port}/v1` });
  const asked = { model: "gpt-5.4", messages: [{ role: "user", content: "Hello" }] };
  const calls = {
    whole: () => client.chat.completions.create(asked),
    streamed: async () => {
      for await (const _ of await client.chat.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } }));
    },
    refused: () => client.chat.completions.create({ ...asked, user: "refused" }).catch(() => {}),
  };
  const seen = {};
  for (const [name, call] of Object.entries(calls)) {
    kept.reset();
    await call();
    await new Promise((resolve) => setTimeout(resolve, 300));
    const spans = kept.getFinishedSpans();
    const values = spans.flatMap((span) => Object.values(span.attributes));
    seen[name] = { spans: spans.length, counts: values.includes(2903), cached: values.includes(2003), failed: spans.some((span) => span.status.code === 2) };
  }
  console.log(JSON.stringify(seen));
  process.exit(0);
});
JS
cd "$folder"
for package in @arizeai/openinference-instrumentation-openai @traceloop/instrumentation-openai @opentelemetry/instrumentation-openai; do
  timeout 60 node try.cjs "$package" 2> /dev/null > "${package%%/*}" || exit 2
done
node - <<'JS'
const fs = require("node:fs");
const [arize, traceloop, otel] = ["@arizeai", "@traceloop", "@opentelemetry"].map((name) => JSON.parse(fs.readFileSync(name)));
console.log("openai 6.49.0 with @arizeai/openinference-instrumentation-openai 4.2.7, @traceloop/instrumentation-openai 0.27.0, @opentelemetry/instrumentation-openai 0.22.0");
console.log("guess: each has a span of a refused call, which failed, and the counts of a stream that names them, 2,003 cached");
console.log("seen: OpenInference", JSON.stringify(arize), "Traceloop", JSON.stringify(traceloop), "OpenTelemetry", JSON.stringify(otel));
const lose = [arize, traceloop].every((each) => each.whole.counts && !each.streamed.counts && each.refused.spans === 0);
process.exit(lose && otel.streamed.counts && otel.refused.failed && !otel.whole.cached ? 0 : 1);
JS
