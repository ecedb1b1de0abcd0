import type { Call } from "./call.js";
import { observeAnswer, type Begin } from "./wrap.js";

// The public functions may ask the model several times, for its tools: these ask it once.
const CALLS = [
  "generateContentInternal", "generateContentStreamInternal", "embedContentInternal", "generateImagesInternal", "editImageInternal",
];

/** Record each call of a client of Google's SDK: of its models, of interactions, and each answer of a live session. */
export function wrapGemini(sdk: any, begin: Begin): void {
  for (const name of CALLS) if (typeof sdk.models[name] === "function") recordEach(sdk.models, name, begin);
  const { get } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(sdk), "interactions") ?? {};
  let interactions: any; // They are made when the program asks for them, which warns in some versions.
  if (get) {
    const made = () => (interactions ??= recordEach(get.call(sdk), "create", begin));
    Object.defineProperty(sdk, "interactions", { configurable: true, get: made });
  }
  const connect = sdk.live?.connect;
  if (connect) {
    sdk.live.connect = (given: any) => connect.call(sdk.live, { ...given, callbacks: hearing(given.callbacks, begin, nameOf(given)) });
  }
}

function recordEach(owner: any, name: string, begin: Begin): any {
  const ask = owner[name];
  owner[name] = async (given: any, ...more: unknown[]) => {
    // The SDK leaves the tier that the answer names out of it.
    const asked = String(given?.config?.serviceTier).toLowerCase();
    const serviceTier = /^(flex|priority)$/.test(asked) ? asked : undefined;
    const call = begin({ provider: "google", model: nameOf(given), serviceTier });
    try {
      return observeAnswer(await ask.call(owner, given, ...more), call);
    } catch (error) {
      call.end(error);
      throw error;
    }
  };
  return owner;
}

/** A run of a session is timed from the first part of the answer, because nothing says when its question ended. */
function hearing(callbacks: any, begin: Begin, model: string | undefined): any {
  let call: Call | undefined;
  const onmessage = (message: any) => {
    const usage = message?.usageMetadata;
    if (usage || message?.serverContent?.modelTurn) call ??= begin({ provider: "google", model });
    if (usage && call) {
      call.see(message);
      call.end();
      call = undefined;
    }
    return callbacks?.onmessage?.(message);
  };
  return Object.create(callbacks ?? null, { onmessage: { value: onmessage } });
}

function nameOf(given: any): string | undefined {
  return String(given?.model ?? given?.agent ?? "").split("/").pop() || undefined;
}
