// Each call of a client of OpenAI's or Anthropic's SDK is one run, in the oldest version and the newest.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OldestAnthropic from "@anthropic-ai/sdk-oldest";
import OpenAI, { toFile } from "openai";
import OpenAI4 from "openai-4";
import OldestOpenAI from "openai-oldest";
import { wrap } from "runtally";
import { CANARY, provider, storedOf } from "./service.js";

const MESSAGES = [{ role: "user" as const, content: CANARY }];
const CHAT = { model: "gpt-4o-mini", messages: MESSAGES };
const CLAUDE = { model: "claude-sonnet-4-5", max_tokens: 100, messages: MESSAGES };
const TOKENS = { inputTokens: 1200, outputTokens: 350, cachedInputTokens: 1000 };
const OPENAI = { provider: "openai", model: "gpt-4o-mini", status: "success" };
const ANTHROPIC = { provider: "anthropic", model: "claude-sonnet-4-5", status: "success", ...TOKENS, cacheWriteTokens: 50 };
const TIMEOUT_MS = 300;

const said: string[] = [];
const { warn } = console;
console.warn = (...words: unknown[]) => {
  said.push(words.join(" "));
  warn(...words);
};

async function drain(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of stream);
}

/** The one run that is stored of this work, if it has these fields. */
async function isOneRun(work: () => unknown, expected: Record<string, unknown>): Promise<any> {
  const runs = await storedOf(work);
  assert.equal(runs.length, 1);
  const shown = Object.fromEntries(Object.keys(expected).map((name) => [name, runs[0][name] ?? null]));
  assert.deepEqual(shown, expected);
  assert.ok(runs[0].latencyMs >= 0);
  return runs[0];
}

for (const [version, Client] of Object.entries({ newest: OpenAI, 4: OpenAI4, oldest: OldestOpenAI } as Record<string, any>)) {
  describe(`openai, ${version}`, () => {
    const client = (...traits: string[]) =>
      wrap(new Client({ apiKey: "x", baseURL: `${provider(...traits)}/v1`, maxRetries: 0 })) as OpenAI;
    const FAILED = { ...OPENAI, status: "error", inputTokens: null };

    test("a chat completion", async () => {
      const run = await isOneRun(() => client().chat.completions.create(CHAT), { ...OPENAI, ...TOKENS, reasoningTokens: 200 });
      assert.equal(run.finishReason, "stop");
      assert.equal(run.metadata.responseModel, "gpt-4o-mini-2024-07-18");
    });

    test("a call of a tool", () => isOneRun(() => client("tools").chat.completions.create(CHAT), { ...OPENAI, ...TOKENS }));

    test("an answer of which the raw response is read too", () =>
      isOneRun(() => client().chat.completions.create(CHAT).withResponse(), { ...OPENAI, ...TOKENS }));

    test("a raw response that is not parsed", () =>
      isOneRun(() => client().chat.completions.create(CHAT).asResponse(), { provider: "openai", inputTokens: null }));

    test("a stream without usage", async () => {
      const run = await isOneRun(async () => drain(await client().chat.completions.create({ ...CHAT, stream: true })), {
        ...OPENAI,
        inputTokens: null,
      });
      assert.ok(run.timeToFirstTokenMs <= run.latencyMs);
      // Of all such streams of the process one says how to mend it.
      assert.equal(said.filter((one) => one.includes("streamUsage: true")).length, 1);
    });

    test("a stream that is asked for its usage", () =>
      isOneRun(async () => {
        const asking = wrap(new Client({ apiKey: "x", baseURL: `${provider()}/v1` }), { streamUsage: true }) as OpenAI;
        await drain(await asking.chat.completions.create({ ...CHAT, stream: true }));
      }, { ...OPENAI, ...TOKENS }));

    test("a stream that is not read to its end", () =>
      isOneRun(async () => {
        for await (const _ of await client().chat.completions.create({ ...CHAT, stream: true })) break;
      }, { ...OPENAI, inputTokens: null, finishReason: "cancelled" }));

    test("a stream whose request the program ends", () =>
      isOneRun(async () => {
        const stream = await client("held").chat.completions.create({ ...CHAT, stream: true });
        for await (const _ of stream) stream.controller.abort();
      }, { ...OPENAI, inputTokens: null, finishReason: "cancelled" }));

    test("a stream that tells its usage as Groq's do", () =>
      isOneRun(async () => drain(await client("groq").chat.completions.create({ ...CHAT, stream: true })), { ...OPENAI, ...TOKENS }));

    test("a stream that tells its timings as llama.cpp's do", () =>
      isOneRun(async () => drain(await client("llama").chat.completions.create({ ...CHAT, stream: true })), { ...OPENAI, ...TOKENS }));

    test("a stream that a proxy ends before its last events", () =>
      isOneRun(async () => drain(await client("short").chat.completions.create({ ...CHAT, stream: true })), {
        ...FAILED,
        errorCode: "stream_cut",
      }));

    test("a stream that breaks", () =>
      isOneRun(async () => drain(await client("cut").chat.completions.create({ ...CHAT, stream: true })), FAILED));

    test("an embedding", () =>
      isOneRun(() => client().embeddings.create({ model: "text-embedding-3-small", input: CANARY }), {
        provider: "openai",
        model: "text-embedding-3-small",
        inputTokens: 8,
        outputTokens: null,
      }));

    test("images", () =>
      isOneRun(() => client().images.generate({ model: "dall-e-3", prompt: CANARY, n: 2 }), {
        model: "dall-e-3",
        units: { images: 2 },
      }));

    test("what is heard", () =>
      isOneRun(async () => client().audio.transcriptions.create({ model: "whisper-1", file: await toFile(Buffer.from("RIFF"), "a.wav") }), {
        model: version === "newest" ? "whisper-1" : "unknown", // Before, it is in the middle of a file that is sent.
        units: { audioSeconds: 12.5 },
      }));

    test("what is spoken", { skip: version === "oldest" && "it did not speak yet" }, () =>
      isOneRun(() => client().audio.speech.create({ model: "tts-1", voice: "alloy", input: CANARY }), {
        model: "tts-1",
        units: { characters: CANARY.length },
      }));

    test("an answer without usage", () =>
      isOneRun(() => client("no-usage").chat.completions.create(CHAT), { ...OPENAI, inputTokens: null }));

    test("what OpenRouter charged", () =>
      isOneRun(() => client("costs").chat.completions.create(CHAT), { ...OPENAI, ...TOKENS, reportedCostUsd: 0.0123 }));

    test("a refusal", () => isOneRun(() => client("429").chat.completions.create(CHAT), { ...FAILED, errorCode: "RateLimitError" }));

    test("a failure", () =>
      isOneRun(() => client("500").chat.completions.create(CHAT), { ...FAILED, errorCode: "InternalServerError" }));

    test("a call that took too long", () =>
      isOneRun(() => client("slow").chat.completions.create(CHAT, { timeout: TIMEOUT_MS }), { ...FAILED, status: "timeout" }));

    test("a call that was cancelled", () =>
      isOneRun(
        () => client("slow").chat.completions.create(CHAT, { signal: AbortSignal.timeout(TIMEOUT_MS) }),
        { ...FAILED, errorCode: "APIUserAbortError" },
      ));

    test("a call that the SDK repeated", () =>
      isOneRun(() => {
        const patient = wrap(new Client({ apiKey: "x", baseURL: `${provider("flaky")}/v1`, maxRetries: 3 })) as OpenAI;
        return patient.chat.completions.create(CHAT);
      }, { ...OPENAI, ...TOKENS }));

    test("five calls at once", async () => {
      const one = client();
      const runs = await storedOf(() => Promise.all([..."12345"].map(() => one.chat.completions.create(CHAT))));
      assert.equal(runs.length, 5);
    });
  });
}

describe("openai, newest", () => {
  const client = () => wrap(new OpenAI({ apiKey: "x", baseURL: `${provider()}/v1` }));
  const RESPONSE = { model: "gpt-4o-mini", input: CANARY };

  test("a response", async () => {
    const run = await isOneRun(() => client().responses.create(RESPONSE), { ...OPENAI, ...TOKENS, reasoningTokens: 200 });
    assert.equal(run.finishReason, "completed");
  });

  test("a streamed response", () =>
    isOneRun(async () => drain(await client().responses.create({ ...RESPONSE, stream: true })), { ...OPENAI, ...TOKENS }));

  test("a response in the background, once it is retrieved", async () => {
    const body = JSON.stringify(RESPONSE);
    const headers = { "Content-Type": "application/json" };
    const done: any = await (await fetch(`${provider()}/v1/responses`, { method: "POST", headers, body })).json();
    const created_at = Math.floor(Date.now() / 1_000) - 60;
    const queued = { ...done, id: crypto.randomUUID(), background: true, status: "queued", created_at, usage: null };
    const ended = { ...queued, status: "completed", completed_at: created_at + 42, usage: done.usage };
    const answers = [queued, { ...queued, status: "in_progress" }, ended, ended, { ...ended, background: false, id: "other" }];
    const sdk = wrap(new OpenAI({ apiKey: "x", maxRetries: 0, fetch: async () => (answers.length ? Response.json(answers.shift()) : new Response("", { status: 404 })) }));
    const run = await isOneRun(async () => {
      await sdk.responses.create({ ...RESPONSE, background: true });
      for (const _ of [1, 2, 3, 4, 5]) await sdk.responses.retrieve(queued.id);
    }, { ...OPENAI, ...TOKENS, model: done.model, latencyMs: 42_000 });
    assert.equal(Date.parse(run.occurredAt), 1_000 * created_at);
    assert.equal(run.finishReason, "completed");
  });

  test("a conversation that is made shorter", () =>
    isOneRun(() => client().responses.compact(RESPONSE), { ...OPENAI, ...TOKENS }));

  test("a response with the SDK's helper", () =>
    isOneRun(() => client().responses.stream(RESPONSE).finalResponse(), { ...OPENAI, ...TOKENS }));

  test("a chat completion with the SDK's helper", () =>
    isOneRun(
      () => client().chat.completions.stream({ ...CHAT, stream_options: { include_usage: true } }).finalChatCompletion(),
      { ...OPENAI, ...TOKENS },
    ));

  test("a client with other options is wrapped as well", () =>
    isOneRun(() => client().withOptions({ maxRetries: 1 }).chat.completions.create(CHAT), { ...OPENAI, ...TOKENS }));

  test("a client that is wrapped twice", () =>
    isOneRun(() => wrap(client()).chat.completions.create(CHAT), { ...OPENAI, ...TOKENS }));

  test("a gateway in front of somebody else's server", () =>
    isOneRun(() => wrap(new OpenAI({ apiKey: "x", baseURL: `${provider()}/v1` }), { provider: "azure" }).chat.completions.create(CHAT), {
      provider: "azure",
      model: "gpt-4o-mini-2024-07-18",
    }));

  test("a beta response, a decision", async () => {
    const one = client() as any;
    const expected = { ...OPENAI, ...TOKENS, reasoningTokens: 200 };
    await isOneRun(() => one.beta.responses.create(RESPONSE), expected);
    await isOneRun(() => one.decisions.create({ ...RESPONSE, questions: [] }), { ...expected, provider: "openai-decisions" });
  });

  for (const [address, name] of Object.entries({
    "https://api.sambanova.ai/v1": "sambanova",
    "https://api.z.ai/api/paas/v4": "zai",
    "https://api.cloudflare.com/client/v4/accounts/a/ai/v1": "cloudflare",
    "https://gateway.ai.cloudflare.com/v1/a/g/openai": "openai",
    "https://llm.example.com/v1": "openai",
  }))
    test(`a server at ${address}`, () => {
      const sdk = new OpenAI({ apiKey: "x", baseURL: address, fetch: (_: any, given: any) => fetch(`${provider()}/v1/responses`, given) });
      return isOneRun(() => wrap(sdk).responses.create(RESPONSE), { ...OPENAI, ...TOKENS, provider: name });
    });

  test("what is no call of a model is no run", async () => {
    assert.deepEqual(await storedOf(() => client().models.list()), []);
  });
});

for (const [version, Client] of Object.entries({ newest: Anthropic, oldest: OldestAnthropic } as Record<string, any>)) {
  describe(`anthropic, ${version}`, () => {
    const client = (...traits: string[]) =>
      wrap(new Client({ apiKey: "x", baseURL: provider(...traits), maxRetries: 0 })) as Anthropic;
    const FAILED = { ...ANTHROPIC, status: "error", inputTokens: null, outputTokens: null, cachedInputTokens: null, cacheWriteTokens: null };

    test("a message", async () => {
      const run = await isOneRun(() => client().messages.create(CLAUDE), ANTHROPIC);
      assert.equal(run.finishReason, "end_turn");
    });

    test("a call of a tool", () => isOneRun(() => client("tools").messages.create(CLAUDE), ANTHROPIC));

    test("a message of the beta", () => {
      const { beta } = client() as any;
      return isOneRun(() => (beta.messages ?? beta.tools.messages).create(CLAUDE), ANTHROPIC);
    });

    test("what another model did for a call is a run beside it", async () => {
      const runs = await storedOf(() => client("advisor").messages.create(CLAUDE));
      const [whole, part] = ["claude-sonnet-4-5", "claude-opus-4-6"].map((model) => runs.find((run) => run.model === model));
      assert.equal(runs.length, 2);
      assert.deepEqual([part.inputTokens, part.outputTokens, part.id], [1200, 350, `${whole.id}-0`]);
      assert.equal(part.metadata.partOf, whole.id);
    });

    test("a stream", async () => {
      const run = await isOneRun(async () => drain(await client().messages.create({ ...CLAUDE, stream: true })), ANTHROPIC);
      assert.ok(run.timeToFirstTokenMs <= run.latencyMs);
    });

    test("a stream with the SDK's helper", () => isOneRun(() => client().messages.stream(CLAUDE).finalMessage(), ANTHROPIC));

    test("a failure", () => isOneRun(() => client("500").messages.create(CLAUDE), { ...FAILED, errorCode: "InternalServerError" }));

    test("a call that took too long", () =>
      isOneRun(() => client("slow").messages.create(CLAUDE, { timeout: TIMEOUT_MS }), { ...FAILED, status: "timeout" }));
  });
}

describe("anthropic, newest", () => {
  const client = (...traits: string[]) => wrap(new Anthropic({ apiKey: "x", baseURL: provider(...traits) }));
  const look = { name: "look", input_schema: { type: "object" as const }, run: () => CANARY, parse: (input: unknown) => input };

  for (const stream of [false, true]) {
    test(`a call of the runner of tools, ${stream ? "streamed" : "whole"}`, () =>
      isOneRun(async () => {
        const runner = client("tools").beta.messages.toolRunner({ ...CLAUDE, stream, tools: [look], max_iterations: 1 });
        for await (const answer of runner) if (stream) await drain(answer as any);
      }, { ...ANTHROPIC, finishReason: "tool_use" }));
  }

  test("a stream whose request the program ends has the tokens that were told", () =>
    isOneRun(async () => {
      const stream = await client("held").messages.create({ ...CLAUDE, stream: true });
      for await (const _ of stream) stream.controller.abort();
    }, { ...ANTHROPIC, outputTokens: 1, finishReason: "cancelled" }));
});
