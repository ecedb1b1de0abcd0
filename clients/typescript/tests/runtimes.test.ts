// The client in the runtimes that it is for: as a module and by require(), at a program's end, and where there is no Node.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { EdgeRuntime } from "edge-runtime";
import { buildSync } from "esbuild";
import { receiving } from "./service.js";

const RUNTIMES: Record<string, string[]> = {
  "this Node": [process.execPath, "--input-type=module", "--eval"],
  "Node 18": ["node_modules/node-18/bin/node", "--input-type=module", "--eval"],
  Bun: ["node_modules/@oven/bun-linux-x64-baseline/bin/bun", "--eval"],
  Deno: ["node_modules/@deno/linux-x64-glibc/deno", "eval"],
};
const IMPORT = 'import { context, init, record } from "runtally";';
const REQUIRE = 'const { context, init, record } = require("runtally");';
const PROGRAM = `
init({ project: "p" });
const work = async () => {
  await new Promise((done) => setTimeout(done, 1));
  record({ provider: "acme", model: "m" });
};
context({ user: "u" }, work);
`;

/** Run a program that only records and ends. Returns the runs that it sent, and what it printed. */
async function outcomeOf([command, ...rest]: string[], program: string) {
  const receiver = await receiving();
  const env = { ...process.env, RUNTALLY_URL: receiver.url, RUNTALLY_API_KEY: "key" };
  const child = spawn(command!, [...rest, program], { env, stdio: ["ignore", "pipe", "pipe"] });
  let told = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (part) => (told += part));
  const code = await new Promise((done) => child.on("close", done));
  receiver.close();
  assert.equal(code, 0, told);
  return { told, users: receiver.received.flatMap(({ document }) => document.runs.map(({ userId }) => userId)) };
}

for (const [name, command] of Object.entries(RUNTIMES)) {
  const skip = !existsSync(command[0]!) && "it is not installed on this kind of machine";
  test(`${name} sends what waits when a program ends, and knows its context`, { skip }, async () => {
    assert.deepEqual((await outcomeOf(command, IMPORT + PROGRAM)).users, ["u"]);
  });
}

test("the client can be required", async () => {
  const command = [process.execPath, "--input-type=commonjs", "--eval"];
  assert.deepEqual((await outcomeOf(command, REQUIRE + PROGRAM)).users, ["u"]);
});

test("a program says what is lost, and ends, though the server is away", async () => {
  const program = `${IMPORT} init({ url: "http://127.0.0.1:9" }); record({ provider: "acme", model: "m" });`;
  const { told, users } = await outcomeOf(RUNTIMES["this Node"]!, program);
  assert.deepEqual(users, []);
  assert.equal(told, "Runtally: 1 run(s) lost, the program ended before the server took them\n");
});

test("on the edge, flush sends within the request, also after one that was broken off", async (t) => {
  let isAway = true;
  const receiver = await receiving(() => (isAway ? null : {}));
  t.after(receiver.close);
  const program = `
    import { context, flush, init, record } from "runtally";
    init({ url: ${JSON.stringify(receiver.url)}, key: "key", project: "p" });
    addEventListener("fetch", (event) => {
      const user = new URL(event.request.url).pathname;
      const patience = user === "/first" ? 200 : 30_000;
      context({ user }, () => record({ provider: "acme", model: "m" }));
      event.respondWith(flush(patience).then((isSent) => new Response(String(isSent))));
    });`;
  const stdin = { contents: program, resolveDir: "." };
  const { outputFiles } = buildSync({ stdin, bundle: true, write: false, conditions: ["edge-light"] });
  const edge = new EdgeRuntime({ initialCode: outputFiles[0]!.text });
  const ask = async (path: string) => (await edge.dispatchFetch(`http://edge${path}`)).text();

  assert.equal(await ask("/first"), "false");
  isAway = false;
  assert.equal(await ask("/second"), "true");
  assert.deepEqual(receiver.received.at(-1)!.document.runs.map(({ userId }) => userId), ["/first", "/second"]);
});
