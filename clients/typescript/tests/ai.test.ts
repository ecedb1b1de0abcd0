// Each call of the AI SDK is one run: by its spans up to version 6, by its events since version 7.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAI as createOpenAI4 } from "@ai-sdk/openai-4";
import { createOpenAI as createOpenAI5 } from "@ai-sdk/openai-5";
import { createOpenAI as createOpenAI6 } from "@ai-sdk/openai-6";
import * as ai from "ai";
import * as ai4 from "ai-4";
import * as ai5 from "ai-5";
import * as ai6 from "ai-6";
import { telemetry } from "runtally";
import { z } from "zod";
import { CANARY, provider, storedOf } from "./service.js";

const VERSIONS: Record<string, { sdk: any; create: any; option: string }> = {
  4: { sdk: ai4, create: createOpenAI4, option: "experimental_telemetry" },
  5: { sdk: ai5, create: createOpenAI5, option: "experimental_telemetry" },
  6: { sdk: ai6, create: createOpenAI6, option: "experimental_telemetry" },
  7: { sdk: ai, create: createOpenAI, option: "telemetry" },
};
const CALL = { provider: "openai", model: "gpt-4o-mini", status: "success" };

for (const [version, { sdk, create, option }] of Object.entries(VERSIONS)) {
  describe(`ai, ${version}`, () => {
    const TOKENS = { inputTokens: 1200, outputTokens: 350 };
    // What was cached, the spans of version 4 never say, and those of version 5 only of streams.
    const CACHED = { cachedInputTokens: 1000 };
    const openai = (...traits: string[]) => create({ apiKey: "x", baseURL: `${provider(...traits)}/v1` });
    const call = (...traits: string[]) => ({
      model: openai(...traits).chat("gpt-4o-mini"),
      prompt: CANARY,
      maxRetries: 0,
      [option]: telemetry({ user: "u1", metadata: { feature: "search" } }),
    });
    const shown = (run: any, expected: object) =>
      Object.fromEntries(Object.keys(expected).map((name) => [name, run?.[name] ?? null]));

    test("a text", async () => {
      const [run, ...others] = await storedOf(() => sdk.generateText(call()));
      const cached = version < "6" ? {} : CACHED;
      const expected = { ...CALL, ...TOKENS, ...cached, userId: "u1", finishReason: "stop" };
      assert.deepEqual(shown(run, expected), expected);
      assert.equal(run.metadata.feature, "search");
      assert.deepEqual(others, []);
    });

    test("a streamed text", async () => {
      const [run, ...others] = await storedOf(() => sdk.streamText(call()).consumeStream());
      // Version 4 asks for no usage of a stream, unless its provider is told to.
      const tokens = version === "4" ? { inputTokens: null } : { ...TOKENS, ...CACHED };
      assert.deepEqual(shown(run, { ...CALL, ...tokens }), { ...CALL, ...tokens });
      assert.ok(run.timeToFirstTokenMs <= run.latencyMs);
      assert.deepEqual(others, []);
    });

    test("a failure", async () => {
      const [run, ...others] = await storedOf(() => sdk.generateText(call("500")));
      const expected = { ...CALL, status: "error", errorCode: "AI_APICallError", inputTokens: null };
      assert.deepEqual(shown(run, expected), expected);
      assert.deepEqual(others, []);
    });

    test("a stream that fails", async () => {
      const [run, ...others] = await storedOf(() => sdk.streamText({ ...call("500"), onError() {} }).consumeStream());
      assert.deepEqual(shown(run, { status: "" }), { status: "error" });
      assert.deepEqual(others, []);
    });

    test("an embedding", async () => {
      const { prompt: _, ...rest } = call();
      const model = openai().textEmbeddingModel?.("text-embedding-3-small") ?? openai().embedding("text-embedding-3-small");
      const [run, ...others] = await storedOf(() => sdk.embed({ ...rest, model, value: CANARY }));
      const expected = { provider: "openai", model: "text-embedding-3-small", inputTokens: 8, outputTokens: null };
      assert.deepEqual(shown(run, expected), expected);
      assert.deepEqual(others, []);
    });

    test("the steps of one text have one trace", async () => {
      const look = { description: "Look", inputSchema: z.any(), parameters: z.any(), execute: async () => "nothing" };
      const steps = version === "4" ? { maxSteps: 2 } : { stopWhen: sdk.stepCountIs(2) };
      const runs = await storedOf(() => sdk.generateText({ ...call("tools"), tools: { look }, ...steps }));
      assert.equal(runs.length, 2);
      assert.ok(runs[0].traceId);
      assert.equal(runs[0].traceId, runs[1].traceId);
    });
  });
}

test("an event's usage has the vendor's own beside it, with what the SDK has no name for", async () => {
  const raw = { input_tokens: 150, cache_read_input_tokens: 1000, cache_creation_input_tokens: 50, output_tokens: 350 };
  const more = { cache_creation: { ephemeral_1h_input_tokens: 20 }, server_tool_use: { web_search_requests: 3 } };
  const usage = { inputTokens: 1200, outputTokens: 350, inputTokenDetails: { cacheReadTokens: 1000, cacheWriteTokens: 50 }, raw: { ...raw, ...more } };
  const [run] = await storedOf(() => {
    const { integrations } = telemetry();
    const about = { callId: "c", provider: "anthropic.messages", modelId: "claude-sonnet-4-5" };
    integrations[0].onLanguageModelCallStart(about);
    integrations[0].onLanguageModelCallEnd({ ...about, usage, providerMetadata: { openai: { serviceTier: "flex" } } });
  });
  assert.deepEqual([run.inputTokens, run.cacheWriteTokens, run.serviceTier], [1200, 50, "flex"]);
  assert.deepEqual(run.units, { cacheWrite1h: 20, webSearch: 3 });
});
