import { withinLimits, type Run } from "./run.js";

const MAX_WAITING = 10_000;
const MAX_RUNS = 500; // Of one request; the server's MAX_BATCH_RUNS is 1,000.
const MAX_LENGTH = 1_000_000; // Of one request; the server's MAX_BODY_BYTES is 5 MiB.
const LINGER_MS = 1_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;
const LONGEST_RETRY_AFTER_MS = 300_000;
const REFUSED_PAUSE_MS = 60_000;
const TIMEOUT_MS = 10_000;
const EXIT_MS = 2_000;
const COMPLAINT_MS = 60_000;

/** Where runs go. */
export interface Target {
  url: string;
  key?: string;
  project: string;
}

/** What became of one try: `retryAfter` milliseconds if it has to be repeated; how many runs the server refused, and why. */
type Outcome = { retryAfter?: number; lost?: number; why?: string };

/**
 * The queue of runs, and what sends them. Recording a run only adds to the queue.
 *
 * A run leaves the queue when the server has committed or refused it. Until then it is sent again: the server knows by its id
 * whether it has it. So sending may be given up at any moment, as by a runtime that freezes between two requests.
 */
export class Sender {
  #waiting: string[] = [];
  #sending?: Promise<void>;
  #timer?: ReturnType<typeof setTimeout>;
  #pause = FIRST_PAUSE_MS;
  #nextTryAt = 0;
  #notBefore = 0; // The server asked to wait until then.
  #isRefused = false;
  #lost = 0;
  #complaints = new Map<string, number>();
  #complainedAt = -Infinity;

  constructor(public target: Target) {
    // A program that ends by itself sends what waits. `process.exit()` and signals leave no time for that.
    (globalThis as any).process?.once?.("beforeExit", () => this.#close());
  }

  /** Queue a run. What has no room is dropped and counted. */
  add(run: Run): void {
    const text = JSON.stringify(withinLimits(run));
    if (text.length > MAX_LENGTH) return this.lose(1, "too large");
    if (this.#waiting.length >= MAX_WAITING) return this.lose(1, `${MAX_WAITING} are waiting already`);
    this.#waiting.push(text);
    if (this.#waiting.length === MAX_RUNS) this.#schedule(0);
    else this.#schedule(LINGER_MS);
  }

  /** Wait until all that was added is committed: false if that takes too long, or if some were refused. */
  async flush(timeoutMs: number): Promise<boolean> {
    const until = Date.now() + timeoutMs;
    const lost = this.#lost;
    while (this.#waiting.length) {
      const isDone = await isDoneIn(until - Date.now(), this.#send());
      if (!isDone) this.#giveUp();
      if (!this.#waiting.length) break;
      if (!isDone || this.#isRefused || this.#nextTryAt > until) return false;
      await new Promise((done) => setTimeout(done, this.#nextTryAt - Date.now()));
    }
    return this.#lost === lost;
  }

  /** Count runs that will not be sent, and say so in the log, at once and then at most once a minute. */
  lose(runs: number, why: string): void {
    this.#lost += runs;
    this.#complaints.set(why, (this.#complaints.get(why) ?? 0) + runs);
    if (Date.now() - this.#complainedAt < COMPLAINT_MS) return;
    this.#complainedAt = Date.now();
    for (const [reason, count] of this.#complaints) console.warn(`Runtally: ${count} run(s) lost, ${reason}`);
    this.#complaints.clear();
  }

  #schedule(ms: number): void {
    if (ms === 0) clearTimeout(this.#timer);
    else if (this.#timer !== undefined) return;
    this.#timer = setTimeout(() => void this.#send(), ms);
    (this.#timer as { unref?(): void }).unref?.(); // In Node it must not keep the program alive.
  }

  #send(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#sending) return this.#sending;
    const sending: Promise<void> = Promise.resolve().then(() => this.#sendAll(() => this.#sending === sending));
    return (this.#sending = sending);
  }

  #giveUp(): void {
    this.#sending = undefined;
    if (this.#waiting.length) this.#schedule(Math.max(this.#nextTryAt - Date.now(), LINGER_MS));
  }

  async #sendAll(isStillMine: () => boolean): Promise<void> {
    while (this.#waiting.length && Date.now() >= this.#notBefore) {
      const batch = this.#nextBatch();
      const { retryAfter, lost, why } = await this.#post(batch);
      if (!isStillMine()) return; // The same runs are sent again.
      if (retryAfter !== undefined) {
        this.#notBefore = Date.now() + retryAfter;
        this.#nextTryAt = Math.max(this.#notBefore, Date.now() + this.#pause * (0.5 + Math.random() / 2));
        this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE_MS);
        break;
      }
      this.#pause = FIRST_PAUSE_MS;
      this.#waiting.splice(0, batch.length);
      if (lost) this.lose(lost, why!);
    }
    this.#giveUp();
  }

  #nextBatch(): string[] {
    let length = 0;
    const tooMany = this.#waiting.findIndex((run, index) => index >= MAX_RUNS || (length += run.length) > MAX_LENGTH);
    return this.#waiting.slice(0, tooMany < 0 ? undefined : tooMany);
  }

  async #post(batch: string[]): Promise<Outcome> {
    const { url, key, project } = this.target;
    const text = `{"projectId":${JSON.stringify(project)},"runs":[${batch.join()}]}`;
    const headers: Record<string, string> = { "Content-Type": "application/json" };
    if (key) headers.Authorization = `Bearer ${key}`;
    let body: BodyInit = text;
    if (typeof CompressionStream === "function") {
      headers["Content-Encoding"] = "gzip";
      body = await new Response(new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer();
    }
    try {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const response = await fetch(`${url}/api/ingest?onError=skip`, { method: "POST", headers, body, signal });
      const answer: any = await response.json().catch(() => undefined);
      return this.#outcome(response, answer, batch.length);
    } catch {
      return { retryAfter: 0 }; // Out of reach, or cut off in the middle.
    }
  }

  #outcome({ status, headers }: Response, answer: any, runs: number): Outcome {
    const why = `the server refused with ${status}: ${String(answer?.error?.message ?? "no reason given").slice(0, 300)}`;
    if (status === 401 || status === 403) {
      if (!this.#isRefused) console.error(`Runtally tries again once a minute: ${why}`);
      this.#isRefused = true;
      return { retryAfter: REFUSED_PAUSE_MS };
    }
    this.#isRefused = false;
    if (status >= 500 || status === 408 || status === 429) {
      const seconds = Number(headers.get("Retry-After")) || 0; // It may be a date, as proxies write it.
      return { retryAfter: Math.min(Math.max(seconds, 0) * 1_000, LONGEST_RETRY_AFTER_MS) };
    }
    if (status !== 200) return { lost: runs, why };
    if (answer?.ok !== true) return { retryAfter: 0 }; // A page of a proxy or a wireless network.
    const rejected = answer.rejected ?? [];
    return { lost: rejected.length, why: `the server refused: ${JSON.stringify(rejected[0]?.details)}`.slice(0, 300) };
  }

  async #close(): Promise<void> {
    if (await this.flush(EXIT_MS)) return;
    this.#complainedAt = -Infinity;
    if (this.#waiting.length) this.lose(this.#waiting.length, "the program ended before the server took them");
  }
}

async function isDoneIn(ms: number, work: Promise<void>): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<boolean>((done) => (timer = setTimeout(done, ms, false)));
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
