/** The service that the tests send to, the provider that they call, and what is stored of it all. */
import { createServer, type IncomingHttpHeaders } from "node:http";
import { gunzipSync } from "node:zlib";
import { context, flush, init } from "runtally";

export const { PROVIDER_URL = "", CANARY = "", RUNTALLY_URL = "", RUNTALLY_PROJECT = "" } = process.env;

/** The provider's address with the traits of `tests/fake_provider.py`. */
export const provider = (...traits: string[]) => [PROVIDER_URL, ...traits].join("/");

/** Do the work and return what is stored of it, oldest first. Each piece of work is an experiment of its own. */
export async function storedOf(work: () => unknown): Promise<any[]> {
  init();
  const experiment = crypto.randomUUID();
  await context({ experiment }, async () => {
    await Promise.resolve(work()).catch(() => {});
  });
  if (!(await flush(30_000))) throw new Error("not committed");
  const query = new URLSearchParams({ project: RUNTALLY_PROJECT, experiment });
  const response = await fetch(`${RUNTALLY_URL}/runs/export.jsonl?${query}`);
  const text = await response.text();
  if (!response.ok) throw new Error(`${response.status}: ${text}`);
  if (text.includes(CANARY)) throw new Error("a prompt or a completion is stored");
  const runs = text.split("\n").filter(Boolean).map((line) => asSent(JSON.parse(line)));
  return runs.sort((one: any, other: any) => one.occurredAt.localeCompare(other.occurredAt));
}

/** Columns of the table under the names of the API. */
function asSent(columns: Record<string, unknown>): any {
  const camel = (name: string) => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(columns).map(([name, value]) => [camel(name), value]));
}

export type Received = { path: string; headers: IncomingHttpHeaders; document: { projectId: string; runs: any[] } };
type Reply = { status?: number; headers?: Record<string, string>; body?: unknown };

/** A server that answers as the test says, and keeps what it was sent. `null` is no answer at all. */
export async function receiving(reply: () => Reply | null = () => ({})) {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const raw = Buffer.concat(parts);
    const text = request.headers["content-encoding"] === "gzip" ? gunzipSync(raw) : raw;
    received.push({ path: request.url ?? "", headers: request.headers, document: JSON.parse(text.toString()) });
    const answer = reply();
    if (!answer) return;
    response.writeHead(answer.status ?? 200, answer.headers);
    response.end(typeof answer.body === "string" ? answer.body : JSON.stringify(answer.body ?? { ok: true }));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as { port: number };
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${port}`, received, close };
}
