#!/usr/bin/env bash
# Genkit: the usage of an OpenAI model has neither cached nor reasoning tokens, while that of a Gemini model has its thoughts beside the output.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
command -v npm > /dev/null && (cd "$folder" && npm init -y > /dev/null &&
  npm install --silent --no-audit --no-fund genkit@1.42.0 @genkit-ai/compat-oai@1.42.0 @genkit-ai/google-genai@1.42.0 > /dev/null 2>&1) || exit 2
cat > "$folder/try.mjs" <<'JS'
import http from "node:http";
import { genkit } from "genkit";
import { openAI } from "@genkit-ai/compat-oai/openai";
import { googleAI } from "@genkit-ai/google-genai";

const message = { role: "assistant", content: "Hello." };
const ofOpenAI = {
  id: "c", object: "chat.completion", created: 1, model: "gpt-5.4", choices: [{ index: 0, finish_reason: "stop", message }],
  usage: {
    prompt_tokens: 2903, completion_tokens: 411, total_tokens: 3314,
    prompt_tokens_details: { cached_tokens: 2003 }, completion_tokens_details: { reasoning_tokens: 307 },
  },
};
const ofGemini = {
  candidates: [{ content: { role: "model", parts: [{ text: "Hello." }] }, finishReason: "STOP", index: 0 }], modelVersion: "gemini-2.5-pro",
  usageMetadata: { promptTokenCount: 2903, cachedContentTokenCount: 2003, candidatesTokenCount: 97, thoughtsTokenCount: 1042, totalTokenCount: 4042 },
};
const server = http.createServer((request, response) => {
  request.resume().on("end", () => {
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify(request.url.includes("generateContent") ? ofGemini : ofOpenAI));
  });
});
server.listen(0, "127.0.0.1", async () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const ai = genkit({ plugins: [openAI({ apiKey: "x", baseURL: `${url}/v1` }), googleAI({ apiKey: "x", baseUrl: url })] });
  const openai = (await ai.generate({ model: openAI.model("gpt-5.4"), prompt: "Hello" })).usage;
  const gemini = (await ai.generate({ model: googleAI.model("gemini-2.5-pro"), prompt: "Hello" })).usage;
  console.log("guess: of both models 2,003 cached tokens, and the thinking in the output: 411 and 1,139");
  console.log("seen: OpenAI", JSON.stringify(openai), "Gemini", JSON.stringify(gemini));
  const isSame = openai.inputTokens === 2903 && !/2003|307/.test(JSON.stringify(openai)) && gemini.outputTokens === 97 && gemini.thoughtsTokens === 1042;
  process.exit(isSame ? 0 : 1);
});
JS
echo "genkit, @genkit-ai/compat-oai, @genkit-ai/google-genai $(node -p "require('$folder/node_modules/genkit/package.json').version")"
(cd "$folder" && timeout 90 node try.mjs 2> /dev/null)
