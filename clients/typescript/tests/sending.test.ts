// Recorded runs reach the service once, whatever happens on the way, and the program that records notices nothing.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { receiving, storedOf } from "./service.js";

type Client = typeof import("runtally");
type Reply = Parameters<typeof receiving>[0];

const RUN = { provider: "acme", model: "acme-large" };
let loaded = 0;

/** A client that was not set up yet: each test has a module of its own. */
const load = (): Promise<Client> => import(`${import.meta.resolve("runtally")}?${(loaded += 1)}`);

async function start(t: TestContext, reply?: Reply) {
  const receiver = await receiving(reply);
  t.after(receiver.close);
  const client = await load();
  client.init({ url: receiver.url, key: "secret-of-the-test", project: "p" });
  const messages: string[] = [];
  for (const method of ["warn", "error"] as const) t.mock.method(console, method, (text: string) => messages.push(text));
  return { ...receiver, client, messages };
}

/** Let pauses pass a hundred times faster. */
function hurry(t: TestContext): void {
  const { setTimeout: original } = globalThis;
  t.mock.method(globalThis, "setTimeout", (work: any, ms = 0, ...rest: any[]) => original(work, ms / 100, ...rest));
}

test("what is recorded is stored once, and a bad run costs no other", async (t) => {
  const { record, tokensOf, context, flush } = await import("runtally");
  t.mock.method(console, "warn", () => {});
  const once = crypto.randomUUID();
  const runs = await storedOf(async () => {
    context({ session: "s", user: "u", tags: ["a"], metadata: { one: 1 } }, () =>
      context({ user: "u2", tags: ["b", "a"], metadata: { two: 2 } }, () => record({ ...RUN, runId: once, metadata: { one: 0 } })),
    );
    record({ ...RUN, ...tokensOf({ prompt_tokens: 3, completion_tokens: 4 }) });
    record({ ...RUN, inputTokens: -1 });
    record({ ...RUN, metadata: { amount: 1n } });
    assert.equal(await flush(), false, "some were refused");
    record({ ...RUN, runId: once, inputTokens: 7 });
  });
  assert.equal(runs.length, 2);
  const run = runs.find(({ id }) => id === once);
  assert.deepEqual([run.sessionId, run.userId, run.tags], ["s", "u2", ["a", "b"]]);
  assert.deepEqual(run.metadata, { one: 0, two: 2 });
  assert.equal(run.inputTokens ?? null, null);
});

test("concurrent work has contexts of its own", async (t) => {
  const { client, received } = await start(t);
  await Promise.all(
    ["a", "b", "c"].map((user) =>
      client.context({ user }, async () => {
        await new Promise(setImmediate);
        client.record({ ...RUN, runId: user });
      }),
    ),
  );
  assert.ok(await client.flush());
  assert.deepEqual(received[0]!.document.runs.map((run) => run.userId), ["a", "b", "c"]);
});

test("runs go together, compressed, with the key and the project", async (t) => {
  const { client, received } = await start(t);
  for (let number = 0; number < 1200; number += 1) client.record(RUN);
  assert.ok(await client.flush());
  assert.deepEqual(received.map(({ document }) => document.runs.length), [500, 500, 200]);
  const [{ headers, path, document }] = received as [any];
  assert.equal(headers.authorization, "Bearer secret-of-the-test");
  assert.equal(headers["content-encoding"], "gzip");
  assert.equal(path, "/api/ingest?onError=skip");
  assert.equal(document.projectId, "p");
});

test("the same is sent again until it is taken", async (t) => {
  hurry(t);
  const replies = [{ status: 503 }, { status: 429 }, { status: 408 }, { body: "<p>Sign in to the wireless network" }, { body: [] }];
  const { client, received, messages } = await start(t, () => replies.shift() ?? {});
  client.record(RUN);
  assert.ok(await client.flush(60_000));
  assert.equal(received.length, 6);
  assert.equal(new Set(received.map(({ document }) => JSON.stringify(document))).size, 1);
  assert.deepEqual(messages, []);
});

test("the client waits as long as it is asked to", async (t) => {
  const { client, received } = await start(t, () => ({ status: 429, headers: { "Retry-After": "7" } }));
  client.record(RUN);
  assert.equal(await client.flush(5_000), false);
  assert.equal(await client.flush(5_000), false);
  assert.equal(received.length, 1);
});

test("a refused key is reported once and stops sending", async (t) => {
  const { client, received, messages } = await start(t, () => ({ status: 401, body: { error: { message: "No such key." } } }));
  for (let number = 0; number < 3; number += 1) {
    client.record(RUN);
    assert.equal(await client.flush(), false);
  }
  assert.equal(received.length, 1);
  assert.deepEqual(messages, ["Runtally tries again once a minute: the server refused with 401: No such key."]);
});

test("what is refused for good is not sent again", async (t) => {
  const { client, received, messages } = await start(t, () => ({ status: 404 }));
  client.record(RUN);
  assert.equal(await client.flush(), false);
  assert.equal(received.length, 1);
  assert.match(messages[0]!, /1 run\(s\) lost, the server refused with 404/);
});

test("a flush that takes too long says so, and the runs are sent later", async (t) => {
  let isAway = true;
  const { client, received } = await start(t, () => (isAway ? null : {}));
  client.record({ ...RUN, runId: "late" });
  assert.equal(await client.flush(50), false);
  isAway = false;
  client.record({ ...RUN, runId: "next" });
  assert.ok(await client.flush());
  assert.deepEqual(received.at(-1)!.document.runs.map((run) => run.runId), ["late", "next"]);
});

test("above ten thousand new runs are dropped, and counted together", async (t) => {
  const { client, messages } = await start(t, () => null);
  for (let number = 0; number < 10_100; number += 1) client.record(RUN);
  assert.deepEqual(messages, ["Runtally: 1 run(s) lost, 10000 are waiting already"]);
});

test("names are cut to what the server takes", async (t) => {
  const { client, received } = await start(t);
  client.record({ provider: "acme", model: "m".repeat(1000), tags: ["t".repeat(1000)], finishReason: "f".repeat(1000) });
  assert.ok(await client.flush());
  const [run] = received[0]!.document.runs;
  assert.deepEqual([run.model.length, run.tags[0].length, run.finishReason.length], [256, 64, 64]);
});

test("runs before init are reported once", async (t) => {
  const client = await load();
  const warn = t.mock.method(console, "warn", () => {});
  client.record(RUN);
  client.record(RUN);
  assert.equal(warn.mock.callCount(), 1);
});

test("an invalid address is reported and throws nothing", async (t) => {
  const error = t.mock.method(console, "error", () => {});
  for (const url of ["runtally.example.com", "ftp://there", "http://", "http://there:port"]) (await load()).init({ url });
  assert.equal(error.mock.callCount(), 4);
});

test("the environment can turn it off", async (t) => {
  const receiver = await receiving();
  t.after(receiver.close);
  process.env.RUNTALLY_DISABLED = "1";
  t.after(() => delete process.env.RUNTALLY_DISABLED);
  const warn = t.mock.method(console, "warn", () => {});
  const client = await load();
  client.init({ url: receiver.url });
  client.record(RUN);
  assert.ok(await client.flush());
  assert.equal(receiver.received.length, 0);
  assert.equal(warn.mock.callCount(), 0);
});
