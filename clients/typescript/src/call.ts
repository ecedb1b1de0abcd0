import { shared } from "./context.js";
import { merge, type Run } from "./run.js";
import { fallbackOf, partsOf, tokensOf } from "./usage.js";

// What begins a stream whose end says why it ended.
const BEGINNINGS = /^(message_start|response\.created|chat\.completion\.chunk)$/;

let hasSaidHowToAsk = false;

export type Record = (run: Run) => void;

/** One call of a model, timed from now on. It is recorded once, when it ends. */
export class Call {
  /** Whether an answer is asked for that was perhaps made in the background, which is known only then. */
  isRetrieved = false;
  readonly #record: Record;
  readonly #began = performance.now();
  #run: Run;
  #isOver = false;
  #isOpen = false;
  #isChatStream = false;
  #isWaiting = false;
  #hasUsage = false;
  #parts: Run[] = [];

  constructor(record: Record, run: Run) {
    this.#record = record;
    this.#run = merge(shared(), { timestamp: new Date().toISOString(), ...run });
  }

  /** Set fields of the run. */
  update(run: Run): void {
    this.#run = merge(this.#run, run);
  }

  /** Say that the first part of a streamed answer has come. */
  firstToken(): void {
    if (!this.isRetrieved) this.#run.timeToFirstTokenMs ??= this.#elapsed();
  }

  /** Keep the model that the answer names. At Azure it is the one that has a price. */
  answeredBy(model: unknown): void {
    const asked = this.#run.model;
    if (typeof model !== "string" || !model || model === asked) return;
    if (!asked) this.update({ model });
    else if (this.#run.provider === "azure") this.update({ model, metadata: { deployment: asked } });
    else this.update({ metadata: { responseModel: model } });
  }

  /** Read what an answer, or a part of a stream, says about its cost: its model, its usage, why it ended. Never its text. */
  see(answer: any): void {
    const whole = answer?.response ?? answer?.message ?? answer?.interaction ?? answer;
    this.answeredBy(whole?.model ?? whole?.modelVersion);
    // OpenAI writes its tier and its tools beside the usage.
    const { usage = whole?.usageMetadata ?? whole?.x_groq?.usage ?? whole?.timings ?? countedOf(whole), service_tier, tool_usage } = whole ?? {};
    if (usage) {
      this.#hasUsage = true;
      this.update(tokensOf(service_tier || tool_usage ? { service_tier, tool_usage, ...usage } : usage));
      this.#parts = partsOf(usage);
      const [asked, answered] = [this.#run.model, fallbackOf(usage)];
      // It is the one that answered that is paid for.
      if (answered && answered !== asked) this.update({ model: answered, metadata: { requestedModel: asked } });
      if (this.#parts.length) this.#run.runId ??= crypto.randomUUID();
    }
    if (whole?.background === true) {
      const { id, status, created_at: began, completed_at: ended } = whole;
      this.#run.runId ??= id; // The same, whoever retrieves it.
      this.#isWaiting = /^(queued|in_progress)$/.test(status);
      if (began && ended) this.update({ timestamp: new Date(1_000 * began).toISOString(), latencyMs: 1_000 * (ended - began) });
    }
    const kind = answer?.type ?? answer?.object;
    this.update({ finishReason: finishReasonOf(whole) });
    this.#isChatStream = kind === "chat.completion.chunk";
    // Some servers tell a chat's tokens, and not why it ended.
    const hasEnded = this.#run.finishReason || (usage && this.#isChatStream);
    const hasBegun = BEGINNINGS.test(kind) || (answer?.candidates && this.#run.timeToFirstTokenMs !== undefined);
    this.#isOpen = (this.#isOpen || hasBegun) && !hasEnded;
    if (kind === "error" || whole?.status === "failed") this.end({ name: whole.error?.code ?? "failed" });
  }

  /** Record the run of a stream that was read to its end. SDKs throw nothing where a proxy left the last events out. */
  endStream(): void {
    this.end(this.#isOpen ? { name: "stream_cut" } : undefined);
  }

  /** Record the run. Of an error only its class is kept. */
  end(error?: any): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#isWaiting || (this.isRetrieved && !this.#run.runId)) return; // Who retrieves what was made in the background records it.
    const name = error === undefined ? undefined : nameOf(error);
    const errorCode = this.#isOpen && /abort/i.test(name ?? "") ? undefined : name;
    const status = errorCode && (/timeout/i.test(errorCode) ? "timeout" : "error");
    const latencyMs = this.#elapsed();
    // Whoever read the stream left it, and its last counts are not known.
    if (this.#isOpen && !errorCode) this.update({ finishReason: "cancelled" });
    else if (this.#isChatStream && !this.#hasUsage && !errorCode && !hasSaidHowToAsk) {
      hasSaidHowToAsk = true;
      console.warn(
        "Runtally: a stream told no tokens, so its run costs nothing: wrap(client, { streamUsage: true }) asks for them, or stream_options: { include_usage: true } in the call",
      );
    }
    this.#record(merge({ provider: "unknown", model: "unknown", latencyMs, status, errorCode } as Run, this.#run));
    const { runId, provider, timestamp, sessionId, userId, traceId, experimentId, tags, metadata, serviceTier, region } = this.#run;
    const shared = { provider, timestamp, sessionId, userId, traceId, experimentId, tags, metadata, serviceTier, region };
    this.#parts.forEach((part, place) => {
      // Whoever sends the run again sends the same parts.
      this.#record(merge(shared as Run, { ...part, runId: `${runId}-${place}`, metadata: { partOf: runId } }));
    });
  }

  #elapsed(): number {
    return Math.round(performance.now() - this.#began);
  }
}

/** What is charged of an answer without a usage: its images, what it embedded, or the seconds of what it heard. */
function countedOf(answer: any): object | undefined {
  if (answer?.candidates) return; // Whoever asks Gemini's answer for its data is warned of what else it has.
  const images = answer?.generatedImages ?? answer?.data;
  const [image] = Array.isArray(images) ? images : [];
  if (image?.b64_json || image?.url || image?.image) return { images: images.length };
  const embedded = (answer?.embeddings ?? []).map((each: any) => each?.statistics?.tokenCount ?? 0);
  if (embedded.some(Boolean)) return { input_tokens: Math.round(embedded.reduce((sum: number, count: number) => sum + count)) };
  return typeof answer?.duration === "number" ? { seconds: answer.duration } : undefined;
}

function nameOf(error: any): string {
  // OpenAI's and Anthropic's errors are all named "Error", but not their classes, unless a bundler has shortened these.
  const names = [error?.name, error?.constructor?.name, error?.status].map(String);
  return names.find((name) => name.length > 2 && name !== "Error" && name !== "undefined") ?? "Error";
}

function finishReasonOf(answer: any): string | undefined {
  const status = answer?.status;
  return (
    answer?.choices?.[0]?.finish_reason ??
    answer?.candidates?.[0]?.finishReason ??
    answer?.stop_reason ??
    answer?.delta?.stop_reason ??
    answer?.incomplete_details?.reason ??
    (["completed", "failed", "cancelled"].includes(status) ? status : undefined)
  );
}
