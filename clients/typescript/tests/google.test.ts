// Each call of Google's SDK is one run, and so is each answer over a connection that stays open, of Google's or OpenAI's.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { describe, test } from "node:test";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { wrap } from "runtally";
import { WebSocketServer, type WebSocket } from "ws";
import { CANARY, provider, storedOf } from "./service.js";

const ASKED = { model: "gemini-2.5-flash", contents: CANARY };
const TOKENS = { inputTokens: 1200, outputTokens: 350, cachedInputTokens: 1000 };
const GEMINI = { provider: "google", model: "gemini-2.5-flash", status: "success", ...TOKENS };
const FAILED = { ...GEMINI, status: "error", inputTokens: null, outputTokens: null, cachedInputTokens: null };

/** The runs that are stored of this work, with these fields each. */
async function areRuns(work: () => unknown, ...expected: Record<string, unknown>[]): Promise<any> {
  const runs = await storedOf(work);
  assert.equal(runs.length, expected.length);
  expected.forEach((fields, place) => {
    const shown = Object.fromEntries(Object.keys(fields).map((name) => [name, runs[place][name] ?? null]));
    assert.deepEqual(shown, fields);
  });
  return runs;
}

async function drain(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of stream);
}

/** The address of a server whose connections are answered so, until the work is done. */
async function answering(answer: (socket: WebSocket, asked: any) => void, hello: object | undefined, work: (url: string) => Promise<void>) {
  const server = createServer();
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (socket) => {
    if (hello) socket.send(JSON.stringify(hello));
    socket.on("message", (text) => answer(socket, JSON.parse(String(text))));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    sockets.clients.forEach((socket) => socket.terminate());
    server.close();
  }
}

describe("@google/genai", () => {
  const client = (...traits: string[]) => wrap(new GoogleGenAI({ apiKey: "x", httpOptions: { baseUrl: provider(...traits) } }));

  test("generated content", async () => {
    const [run] = await areRuns(() => client().models.generateContent(ASKED), { ...GEMINI, reasoningTokens: 200 });
    assert.equal(run.finishReason, "STOP");
  });

  test("a call at a service tier", () =>
    areRuns(() => client().models.generateContent({ ...ASKED, config: { serviceTier: "flex" as any } }), { ...GEMINI, serviceTier: "flex" }));

  test("a stream", async () => {
    const [run] = await areRuns(async () => drain(await client().models.generateContentStream(ASKED)), GEMINI);
    assert.ok(run.timeToFirstTokenMs <= run.latencyMs);
  });

  test("a stream that is left, or that a proxy ends before its last part", () =>
    areRuns(
      async () => {
        for await (const _ of await client().models.generateContentStream(ASKED)) break;
        await drain(await client("short").models.generateContentStream(ASKED));
      },
      { ...GEMINI, outputTokens: 201, finishReason: "cancelled" },
      { ...GEMINI, outputTokens: 201, status: "error", errorCode: "stream_cut" },
    ));

  test("a turn of a chat", () => areRuns(() => client().chats.create({ model: ASKED.model }).sendMessage({ message: CANARY }), GEMINI));

  test("an embedding", () =>
    areRuns(() => client().models.embedContent({ model: "gemini-embedding-001", contents: CANARY }), { model: "gemini-embedding-001" }));

  test("an interaction", () =>
    areRuns(() => client().interactions.create({ model: ASKED.model, input: CANARY }), { ...GEMINI, reasoningTokens: 200 }));

  test("a streamed interaction", () =>
    areRuns(async () => drain(await client().interactions.create({ model: ASKED.model, input: CANARY, stream: true })), GEMINI));

  test("a refusal", () => areRuns(() => client("429").models.generateContent(ASKED), { ...FAILED, errorCode: "ApiError" }));

  test("each answer of a live session", () => {
    const counts = { promptTokenCount: 1200, cachedContentTokenCount: 1000, responseTokenCount: 350 };
    const answer = (socket: WebSocket, asked: any) => {
      const parts = asked.setup
        ? [{ setupComplete: {} }]
        : [{ serverContent: { modelTurn: { parts: [{ text: CANARY }] } } }, { serverContent: { turnComplete: true }, usageMetadata: counts }];
      for (const part of parts) socket.send(JSON.stringify(part));
    };
    return areRuns(() =>
      answering(answer, undefined, async (baseUrl) => {
        let isOver = () => {};
        const heard: unknown[] = [];
        const callbacks = {
          onmessage: (message: any) => {
            heard.push(message);
            if (message.usageMetadata) isOver();
          },
        };
        const session = await wrap(new GoogleGenAI({ apiKey: "x", httpOptions: { baseUrl } })).live.connect({ model: ASKED.model, callbacks });
        for (const _ of "12") {
          const over = new Promise<void>((done) => (isOver = done));
          session.sendClientContent({ turns: CANARY });
          await over;
        }
        session.close();
        assert.equal(heard.length, 5);
      }), GEMINI, GEMINI);
  });
});

test("each answer of OpenAI's Realtime, and what was said", () => {
  const usage = {
    input_tokens: 1200, output_tokens: 350, total_tokens: 1550,
    input_token_details: { cached_tokens: 1000, audio_tokens: 390, cached_tokens_details: { audio_tokens: 90 } },
  };
  const heard = { type: "tokens", input_tokens: 17, output_tokens: 5, total_tokens: 22 };
  const transcription = { model: "gpt-4o-transcribe" };
  const hello = { type: "session.created", session: { model: "gpt-realtime", audio: { input: { transcription } } } };
  const answer = (socket: WebSocket) => {
    const about = { id: "r-1", object: "realtime.response" };
    for (const event of [
      { type: "conversation.item.input_audio_transcription.completed", transcript: CANARY, usage: heard },
      { type: "response.created", response: { ...about, status: "in_progress" } },
      { type: "response.output_text.delta", response_id: "r-1", delta: CANARY },
      { type: "response.done", response: { ...about, status: "completed", usage } },
    ]) socket.send(JSON.stringify(event));
  };
  return areRuns(
    () =>
      answering(answer, hello, async (url) => {
        const { hostname, port } = new URL(url);
        const options = { createConnection: () => connect(Number(port), hostname) }; // The SDK insists on TLS.
        const client = new OpenAI({ apiKey: "x", baseURL: `${url}/v1` });
        const connection = wrap(new OpenAIRealtimeWS({ model: "gpt-realtime", options }, client));
        await new Promise<void>((done) => {
          connection.on("session.created", () => connection.send({ type: "response.create" }));
          connection.on("response.done", () => done());
        });
        connection.close();
      }),
    { provider: "openai", model: "gpt-4o-transcribe", inputTokens: 17, outputTokens: 5 },
    { provider: "openai", model: "gpt-realtime", ...TOKENS, audioInputTokens: 300, finishReason: "completed", units: { cachedAudioInput: 90 } },
  );
});
