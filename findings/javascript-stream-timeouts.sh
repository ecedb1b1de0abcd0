#!/usr/bin/env bash
# A timeout of a stream in JavaScript. The option `timeout` of OpenAI's, Anthropic's and Groq's SDKs is for the beginning of an answer: a stream goes on for as long
# as it takes. With a signal that ends after a time the loop over the stream ends in order, as after a whole answer, also in the AI SDK. Google's raises for both.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
PACKAGES="openai@6.49.0 @anthropic-ai/sdk@1.14.0 groq-sdk@1.6.0 @google/genai@2.32.0 ai@6.0.326 @ai-sdk/openai@3.0.141 zod@4.6.7"
command -v npm > /dev/null && (cd "$folder" && npm init -y > /dev/null && npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps $PACKAGES > /dev/null 2>&1) || exit 2
cat > "$folder/try.mjs" <<'JS'
import http from "node:http";
import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import { streamText } from "ai";
import Groq from "groq-sdk";
import OpenAI from "openai";

const MS = 700, PARTS = 12, PAUSE_MS = 200;
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const common = { id: "c", created: 1, model: "m", object: "chat.completion.chunk" };
const chat = { ...common, choices: [{ index: 0, delta: { role: "assistant", content: "x" }, finish_reason: null }] };
const message = { id: "m", type: "message", role: "assistant", model: "m", content: [], stop_reason: null, stop_sequence: null, usage: { input_tokens: 9, output_tokens: 1 } };
const ends = (first, one, last) => [...first, ...Array(PARTS).fill(one), ...last];
const EVENTS = {
  messages: ends(
    [{ type: "message_start", message }, { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }],
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "x" } },
    [{ type: "content_block_stop", index: 0 }, { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: PARTS } }, { type: "message_stop" }],
  ),
  generate: ends([], { candidates: [{ index: 0, content: { role: "model", parts: [{ text: "x" }] } }] }, [{ candidates: [{ index: 0, content: { role: "model", parts: [{ text: "x" }] }, finishReason: "STOP" }] }]),
  chat: ends([], chat, [{ ...common, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }]),
};
const server = http.createServer((request, response) => {
  request.resume();
  request.on("end", async () => {
    const kind = ["messages", "generate"].find((part) => request.url.includes(part)) ?? "chat";
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const event of EVENTS[kind]) {
      if (response.destroyed) return;
      response.write(`${event.type ? `event: ${event.type}\n` : ""}data: ${JSON.stringify(event)}\n\n`);
      await wait(PAUSE_MS);
    }
    response.end(kind === "chat" ? "data: [DONE]\n\n" : "");
  });
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const url = `http://127.0.0.1:${server.address().port}`;
const messages = [{ role: "user", content: "Hello." }];
const ask = { model: "m", messages, stream: true };
const openai = new OpenAI({ apiKey: "x", baseURL: `${url}/v1`, maxRetries: 0 });
const anthropic = new Anthropic({ apiKey: "x", baseURL: url, maxRetries: 0 });
const groq = new Groq({ apiKey: "x", baseURL: url, maxRetries: 0 });
const google = new GoogleGenAI({ apiKey: "x", httpOptions: { baseUrl: url } });
const model = createOpenAI({ apiKey: "x", baseURL: `${url}/v1` }).chat("m");
const gemini = (config) => google.models.generateContentStream({ model: "m", contents: "Hello.", config });
const CALLS = {
  openai: { timeout: () => openai.chat.completions.create(ask, { timeout: MS }), signal: (signal) => openai.chat.completions.create(ask, { signal }) },
  anthropic: {
    timeout: () => anthropic.messages.create({ ...ask, max_tokens: 99 }, { timeout: MS }),
    signal: (signal) => anthropic.messages.create({ ...ask, max_tokens: 99 }, { signal }),
  },
  groq: { timeout: () => groq.chat.completions.create(ask, { timeout: MS }), signal: (signal) => groq.chat.completions.create(ask, { signal }) },
  google: { timeout: () => gemini({ httpOptions: { timeout: MS } }), signal: (abortSignal) => gemini({ abortSignal }) },
  ai: { signal: async (abortSignal) => streamText({ model, prompt: "Hello.", maxRetries: 0, abortSignal }).textStream },
};
async function outcome(call) {
  let parts = 0;
  try {
    for await (const _ of await call(AbortSignal.timeout(MS))) parts++;
  } catch (error) {
    return "raises";
  }
  return parts >= PARTS ? "read to its end" : "ends in order";
}
const named = Object.entries(CALLS).flatMap(([name, calls]) => Object.entries(calls).map(([how, call]) => [`${name} ${how}`, call]));
const seen = Object.fromEntries(await Promise.all(named.map(async ([name, call]) => [name, await outcome(call)])));
console.log("guess: each of them raises");
for (const [name, what] of Object.entries(seen)) console.log(`seen: ${name}: ${what}`);
const SO_FAR = {
  "openai timeout": "read to its end", "openai signal": "ends in order", "anthropic timeout": "read to its end", "anthropic signal": "ends in order", "groq timeout": "read to its end",
  "groq signal": "ends in order", "google timeout": "raises", "google signal": "raises", "ai signal": "ends in order",
};
process.exit(JSON.stringify(seen) === JSON.stringify(SO_FAR) ? 0 : 1);
JS
for name in $PACKAGES; do echo "${name%@*} $(node -p "require('$folder/node_modules/${name%@*}/package.json').version")"; done
(cd "$folder" && timeout 60 node try.mjs 2> /dev/null)
