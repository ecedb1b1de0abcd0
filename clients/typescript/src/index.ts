/**
 * Send what LLM calls cost to Runtally: provider, model, tokens, times and errors, never a message or an answer.
 *
 *     import { init, wrap } from "runtally";
 *     init(); // RUNTALLY_URL, RUNTALLY_API_KEY, RUNTALLY_PROJECT
 *     const openai = wrap(new OpenAI());
 *
 * Nothing here waits for the server, and nothing throws into the program.
 */
import { Call } from "./call.js";
import { fieldsOf, shared, type Context } from "./context.js";
import { merge, type Run } from "./run.js";
import { Sender } from "./sender.js";
import { telemetryOf, type Telemetry } from "./telemetry.js";
import { wrapClient, type WrapOptions } from "./wrap.js";

export { context, type Context } from "./context.js";
export { tokensOf } from "./usage.js";
export type { Run, Telemetry, WrapOptions };

/** Where runs go. What is not given comes from RUNTALLY_URL, RUNTALLY_API_KEY and RUNTALLY_PROJECT. */
export interface Settings {
  url?: string;
  key?: string;
  project?: string;
  /** Added to every run. */
  metadata?: Record<string, unknown>;
}

let sender: Sender | undefined;
let common: Run = {};
let isWarned = false;

/** Say where runs go. With RUNTALLY_DISABLED=1 nothing is recorded. A second call only changes what it names. */
export function init(settings: Settings = {}): void {
  if (isDisabled()) return;
  const before = sender?.target;
  const url = settings.url ?? variable("URL") ?? before?.url ?? "http://127.0.0.1:8000";
  const key = settings.key ?? variable("API_KEY") ?? before?.key;
  const project = settings.project ?? variable("PROJECT") ?? before?.project ?? "default";
  if (!/^https?:\/\/[^\s/?#:]+(:\d+)?(\/[^\s?#]*)?$/.test(url)) {
    return console.error("RUNTALLY_URL must be like https://runtally.example.com; nothing will be sent");
  }
  common = merge(common, { metadata: settings.metadata });
  const target = { url: url.replace(/\/+$/, ""), key, project };
  if (sender) sender.target = target;
  else sender = new Sender(target);
}

/** Record each call of this client of OpenAI's, Anthropic's or Google's SDK, or of a Realtime connection, and return it. */
export function wrap<Client extends object>(client: Client, options: WrapOptions = {}): Client {
  return wrapClient(client, options, begin);
}

/** Settings for the AI SDK that record each of its calls: `telemetry` since its version 7, `experimental_telemetry` before. */
export function telemetry(about: Context = {}): Telemetry {
  return telemetryOf((run) => begin(merge(fieldsOf(about), run)));
}

/** Record one run. Of a run that is sent twice, by its `runId`, the first counts. */
export function record(run: Run): void {
  keep(merge(shared(), run));
}

/** Wait until all that was recorded is committed, and say whether it is. Needed where a runtime freezes or ends the program. */
export async function flush(timeoutMs = 5_000): Promise<boolean> {
  return sender ? sender.flush(timeoutMs) : true;
}

function begin(run: Run): Call {
  return new Call(keep, run);
}

function keep(run: Run): void {
  if (!sender) {
    if (!isWarned && !isDisabled()) console.warn("Runtally: runs are not sent before init() is called");
    isWarned = true;
    return;
  }
  try {
    sender.add(merge({ runId: crypto.randomUUID(), timestamp: new Date().toISOString(), ...common }, run));
  } catch (error) {
    sender.lose(1, `a value is no JSON (${(error as Error)?.name})`);
  }
}

function isDisabled(): boolean {
  return ["1", "true", "yes"].includes((variable("DISABLED") ?? "").toLowerCase());
}

function variable(name: string): string | undefined {
  return (globalThis as any).process?.env?.[`RUNTALLY_${name}`] || undefined;
}
