import type { Call } from "./call.js";
import { shared, within } from "./context.js";
import { merge, type Run } from "./run.js";
import { readTokens, tokensOf } from "./usage.js";

/** What the AI SDK takes as `telemetry` since version 7, and as `experimental_telemetry` before. It records no content. */
export interface Telemetry {
  isEnabled: true;
  recordInputs: false;
  recordOutputs: false;
  /** Up to version 6. */
  tracer: any;
  /** Since version 7. */
  integrations: any;
}

type Begin = (run: Run) => Call;

export function telemetryOf(begin: Begin): Telemetry {
  const content = { recordInputs: false, recordOutputs: false } as const;
  return { isEnabled: true, ...content, tracer: tracerOf(begin), integrations: [integrationOf(begin)] };
}

// Up to version 6: spans of OpenTelemetry ------------------------------------------------------------------------------------

const CALLS = /\.do(Generate|Stream|Embed|Rerank)$/;
const METADATA = "ai.telemetry.metadata.";

/** A tracer with as much as the AI SDK uses. Its spans of calls are runs; those around them give their calls one trace. */
function tracerOf(begin: Begin): unknown {
  const startSpan = (name: string, options?: { attributes?: object }) => new Span(begin, name, options?.attributes);
  return {
    startSpan,
    startActiveSpan(name: string, ...rest: any[]) {
      const work = rest.pop();
      const span = startSpan(name, rest[0]);
      const traceId = shared().traceId ?? crypto.randomUUID();
      return within(merge(shared(), { traceId }), () => work(span));
    },
  };
}

class Span {
  #attributes: Record<string, unknown> = {};
  #call?: Call;
  #error?: unknown;

  constructor(begin: Begin, name: string, attributes: object = {}) {
    if (CALLS.test(name)) this.#call = begin({});
    this.setAttributes(attributes);
  }

  setAttribute(name: string, value: unknown): this {
    this.#attributes[name] = value;
    return this;
  }

  setAttributes(attributes: object): this {
    Object.assign(this.#attributes, attributes);
    return this;
  }

  addEvent(name: string): this {
    if (/^ai\.stream\.firstChunk$/.test(name)) this.#call?.firstToken();
    return this;
  }

  recordException(error: unknown): void {
    this.#error = error;
  }

  setStatus(status: { code: number }): this {
    if (status.code === 2) this.#error ??= new Error();
    return this;
  }

  end(): void {
    const get = (name: string): any => this.#attributes[name];
    const entries = Object.entries(this.#attributes).filter(([name]) => name.startsWith(METADATA));
    const metadata = Object.fromEntries(entries.map(([name, value]) => [name.slice(METADATA.length), value]));
    this.#call?.update({
      provider: providerOf(get("ai.model.provider")),
      model: get("ai.model.id"),
      finishReason: get("ai.response.finishReason"),
      metadata: entries.length ? metadata : undefined,
      ...readTokens((path) => get(`ai.usage.${path}`)),
    });
    this.#call?.answeredBy(get("ai.response.model"));
    this.#call?.end(this.#error);
  }

  addLink(): this {
    return this;
  }

  addLinks(): this {
    return this;
  }

  updateName(): this {
    return this;
  }

  isRecording(): boolean {
    return this.#call !== undefined;
  }

  spanContext(): { traceId: string; spanId: string; traceFlags: number } {
    return { traceId: "0".repeat(32), spanId: "0".repeat(16), traceFlags: 0 };
  }
}

// Since version 7: events ----------------------------------------------------------------------------------------------------

type Event = {
  callId: string;
  embedCallId?: string;
  provider?: string;
  modelId?: string;
  usage?: any;
  providerMetadata?: any;
  finishReason?: string;
  performance?: { timeToFirstOutputMs?: number };
  msToFirstChunk?: number;
  error?: unknown;
};

function integrationOf(begin: Begin): object {
  const calls = new Map<string, Call>();
  const errors = new Map<string, unknown>(); // By call id. Events have them without their class.
  const keyOf = ({ callId, embedCallId = "" }: Event) => `${callId} ${embedCallId}`;

  const start = (event: Event) => {
    const run: Run = { provider: providerOf(event.provider), model: event.modelId };
    calls.set(keyOf(event), begin({ traceId: shared().traceId ?? event.callId, ...run }));
  };
  const end = (event: Event) => {
    const call = calls.get(keyOf(event));
    calls.delete(keyOf(event));
    errors.delete(event.callId);
    call?.answeredBy(event.modelId);
    call?.update({
      finishReason: event.finishReason,
      timeToFirstTokenMs: event.performance?.timeToFirstOutputMs ?? event.msToFirstChunk,
      ...tokensOf(event.usage),
      // The vendor's own has what the SDK has no name for, such as what Claude wrote for an hour.
      ...tokensOf(event.usage?.raw && { service_tier: event.providerMetadata?.openai?.serviceTier, ...event.usage.raw }),
    });
    call?.end();
  };
  const fail = ({ callId, error }: Event) => {
    for (const [key, call] of calls) {
      if (!key.startsWith(`${callId} `)) continue;
      calls.delete(key);
      call.end(errors.get(callId) ?? error ?? new Error());
    }
    errors.delete(callId);
  };
  const abort = ({ callId }: Event) => fail({ callId, error: { name: "AbortError" } });
  const execute = async ({ callId, execute }: { callId: string; execute(): Promise<unknown> }) => {
    try {
      return await execute();
    } catch (error) {
      errors.set(callId, error);
      throw error;
    }
  };
  return {
    executeLanguageModelCall: execute,
    onLanguageModelCallStart: start,
    onLanguageModelCallEnd: end,
    onObjectStepStart: start,
    onObjectStepEnd: end,
    onEmbedStart: start,
    onEmbedEnd: end,
    onRerankStart: start,
    onRerankEnd: end,
    onStepError: fail,
    onError: fail,
    onAbort: abort,
  };
}

/** The provider without its interface: "openai.chat" is OpenAI's. */
function providerOf(name: unknown): string | undefined {
  return typeof name === "string" ? name.split(".")[0] : undefined;
}
