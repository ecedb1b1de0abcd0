#!/usr/bin/env bash
# Google's ADK for JavaScript: the span of a call has its prompt and its answer's own tokens alone, though the event beside it has what was cached, thought and used by tools; and where
# ADK was imported before OpenTelemetry's provider was registered, there is no span at all, since it brings a copy of OpenTelemetry's API of its own.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
command -v npm > /dev/null && (cd "$folder" && npm init -y > /dev/null &&
  npm install --silent --no-audit --no-fund @google/adk@2.0.0 @opentelemetry/sdk-trace-node@2.12.1 > /dev/null 2>&1) || exit 2
cat > "$folder/try.mjs" <<'JS'
import http from "node:http";
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";

const usage = { promptTokenCount: 3007, cachedContentTokenCount: 2048, candidatesTokenCount: 97, thoughtsTokenCount: 1042, toolUsePromptTokenCount: 51, totalTokenCount: 4197 };
const answer = { candidates: [{ content: { role: "model", parts: [{ text: "Hello." }] }, finishReason: "STOP" }], usageMetadata: usage };
const server = http.createServer((request, response) =>
  request.resume().on("end", () => response.setHeader("Content-Type", "application/json").end(JSON.stringify(answer))));
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
process.env.GOOGLE_GEMINI_BASE_URL = `http://127.0.0.1:${server.address().port}`;

const exporter = new InMemorySpanExporter();
const register = () => new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register();
const isLate = process.argv[2] === "late";
if (!isLate) register();
const { Gemini, InMemoryRunner, LlmAgent, setLogLevel, LogLevel } = await import("@google/adk");
setLogLevel?.(LogLevel.ERROR);
if (isLate) register();
const model = new Gemini({ model: "gemini-2.5-flash", apiKey: "k" });
const runner = new InMemoryRunner({ agent: new LlmAgent({ name: "a", model }), appName: "app" });
const session = await runner.sessionService.createSession({ appName: "app", userId: "u" });
let event;
for await (const each of runner.runAsync({ userId: "u", sessionId: session.id, newMessage: { role: "user", parts: [{ text: "Hello" }] } })) event = each;
if (event?.usageMetadata?.thoughtsTokenCount !== 1042) process.exit(2);
const spans = exporter.getFinishedSpans();
const call = Object.entries(spans.find((each) => each.name === "call_llm")?.attributes ?? {}).filter(([name]) => name.includes("usage"));
console.log(`seen: registered ${isLate ? "after" : "before"} the import: ${spans.length} spans, that of the call with`, JSON.stringify(Object.fromEntries(call)));
const counts = call.map(([, count]) => count).join();
process.exit(isLate ? (spans.length ? 1 : 0) : counts === "3007,97" ? 0 : 1);
JS
echo "@google/adk $(node -p "require('$folder/node_modules/@google/adk/package.json').version")"
echo "guess: the span of a call has the 2048 cached and 1042 thought tokens of its event, whenever the provider was registered"
cd "$folder"; for order in before late; do timeout 60 node try.mjs "$order" 2> log | grep -v INFO; done
