#!/usr/bin/env bash
# OpenAI's SDK for JavaScript: the total of `runTools` is without cached and reasoning tokens, and 0 for streams.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
command -v npm > /dev/null && (cd "$folder" && npm init -y > /dev/null && npm install --silent --no-audit --no-fund openai@6.49.0 > /dev/null 2>&1) || exit 2
cat > "$folder/try.mjs" <<'JS'
import http from "node:http";
import OpenAI from "openai";

let requests = 0;
const server = http.createServer((request, response) => {
  let text = "";
  request.on("data", (part) => (text += part));
  request.on("end", () => {
    const isFirst = requests++ % 2 === 0;
    const call = { index: 0, id: "call_1", type: "function", function: { name: "weather", arguments: "{}" } };
    const message = isFirst ? { role: "assistant", content: null, tool_calls: [call] } : { role: "assistant", content: "Sunny." };
    const usage = {
      prompt_tokens: isFirst ? 1009 : 2017, completion_tokens: isFirst ? 31 : 53, total_tokens: isFirst ? 1040 : 2070,
      prompt_tokens_details: { cached_tokens: isFirst ? 701 : 907 }, completion_tokens_details: { reasoning_tokens: isFirst ? 11 : 13 },
    };
    const common = { id: "c", created: 1, model: "gpt-5.4" }, finish_reason = isFirst ? "tool_calls" : "stop";
    if (JSON.parse(text).stream) {
      const parts = [{ index: 0, delta: message, finish_reason: null }, { index: 0, delta: {}, finish_reason }];
      response.setHeader("Content-Type", "text/event-stream");
      for (const part of parts) response.write(`data: ${JSON.stringify({ ...common, object: "chat.completion.chunk", choices: [part] })}\n\n`);
      response.end("data: [DONE]\n\n");
    } else {
      response.setHeader("Content-Type", "application/json");
      response.end(JSON.stringify({ ...common, object: "chat.completion", choices: [{ index: 0, finish_reason, message }], usage }));
    }
  });
});
server.listen(0, "127.0.0.1", async () => {
  const client = new OpenAI({ apiKey: "x", baseURL: `http://127.0.0.1:${server.address().port}/v1` });
  const weather = { name: "weather", parameters: { type: "object", properties: {} }, function: () => "sun" };
  const ask = { model: "gpt-5.4", messages: [{ role: "user", content: "The weather?" }], tools: [{ type: "function", function: weather }] };
  const whole = await client.chat.completions.runTools(ask).totalUsage();
  const streamed = await client.chat.completions.runTools({ ...ask, stream: true }).totalUsage();
  console.log("guess: 3,026 in (1,608 cached) and 84 out (24 reasoning), streamed or not");
  console.log("seen: whole", JSON.stringify(whole), "streamed", JSON.stringify(streamed), "in", requests, "requests");
  const isSame = whole.prompt_tokens === 3026 && !JSON.stringify(whole).includes("cached") && streamed.prompt_tokens === 0 && requests === 4;
  process.exit(isSame ? 0 : 1);
});
JS
echo "openai (npm) $(node -p "require('$folder/node_modules/openai/package.json').version")"
(cd "$folder" && timeout 60 node try.mjs)
