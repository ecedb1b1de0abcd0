import type { Call } from "./call.js";
import { wrapGemini } from "./gemini.js";
import { listen } from "./realtime.js";
import type { Run } from "./run.js";

export interface WrapOptions {
  /** Whose server it is, where the address does not say, as of a gateway. */
  provider?: string;
  /** Ask OpenAI's streams for their tokens, which they tell only if they are asked: each then ends with a part without choices. */
  streamUsage?: boolean;
}

export type Begin = (run: Run) => Call;

const CALLS = /\/(chat\/completions|completions|responses(\/compact)?|decisions|embeddings|v1\/messages|v1\/complete|images\/\w+|audio\/\w+)(\?|$)/;
const RETRIEVALS = /^\/responses\/[^/?]+(\?|$)/;
const PROVIDERS: Record<string, string> = {
  amazonaws: "aws", azuredatabricks: "databricks", bigmodel: "zhipuai", googleapis: "google", minimaxi: "minimax", moonshot: "moonshotai",
  ovh: "ovhcloud", x: "x-ai", z: "zai",
};
const HOSTS =
  /^(avian|azure|baseten|cerebras|cloudflare|cohere|databricks|deepinfra|deepseek|fireworks|groq|huggingface|minimax|mistral|nebius|novita|nvidia|openrouter|perplexity|sambanova|together|voyageai)$/;
// Events that come before the model has begun to answer.
const PREAMBLE = /^(message_start|ping|response\.(created|queued|in_progress))$/;

const wrapped = new WeakSet<object>();

/**
 * Record each call of a client, or of a connection that stays open. One generator makes OpenAI's and Anthropic's SDKs, and each of their calls passes through the
 * client's `methodRequest` once: so a call is one run with all its retries, whether it was `create`, `parse` or `stream`.
 */
export function wrapClient<Client extends object>(client: Client, options: WrapOptions, begin: Begin): Client {
  const sdk = client as any;
  const { methodRequest, withOptions } = sdk;
  const isGemini = typeof sdk.models?.generateContent === "function";
  const hasEvents = typeof sdk.on === "function" && typeof sdk.send === "function";
  if (typeof methodRequest !== "function" && !isGemini && !hasEvents) {
    console.error("Runtally: wrap() takes a client of OpenAI's, Anthropic's or Google's SDK; its calls are not recorded");
    return client;
  }
  if (wrapped.has(client)) return client;
  wrapped.add(client);
  if (isGemini) return wrapGemini(sdk, begin), client;
  if (hasEvents) return listen(sdk, options.provider, begin), client;

  sdk.methodRequest = (method: string, path: string, given: any) => {
    const isRetrieved = method === "get" && RETRIEVALS.test(path);
    if (!isRetrieved && (method !== "post" || !CALLS.test(path))) return methodRequest.call(client, method, path, given);
    const isMessages = path.startsWith("/v1/");
    const provider = options.provider ?? providerOf(sdk.baseURL, isMessages ? "anthropic" : "openai");
    const call = begin({ provider: path.startsWith("/decisions") ? `${provider}-decisions` : provider }); // They have a price of their own.
    call.isRetrieved = isRetrieved;
    const request = Promise.resolve(given).then((request) => {
      const body = request?.body;
      call.update({ model: body?.model ?? body?.get?.("model") }); // What has a file in it is a form.
      // What is spoken is charged by its letters, which the answer does not tell.
      if (path === "/audio/speech") call.update({ units: { characters: [...String(body?.input ?? "")].length } });
      const asks = options.streamUsage && body?.stream && path === "/chat/completions";
      return asks ? { ...request, body: { stream_options: { include_usage: true }, ...body } } : request;
    });
    return observe(methodRequest.call(client, method, path, request), call, sdk);
  };
  if (typeof withOptions === "function") {
    sdk.withOptions = (...given: unknown[]) => wrapClient(withOptions.apply(client, given), options, begin);
  }
  return client;
}

function providerOf(baseURL: unknown, sdk: string): string {
  // A gateway passes on what its vendor charges.
  const domain = /^https?:\/\/(?!gateway\.)[^/:]*?([^/:.]+)\.[^/:.]+(?::\d+)?(?:\/|$)/.exec(String(baseURL))?.[1] ?? "";
  return PROVIDERS[domain] ?? (HOSTS.test(domain) ? domain : sdk);
}

/** Give the SDK's promise back, which reads its answer only when the program asks for it, and pass that answer to the call. */
function observe(promise: any, call: Call, sdk: unknown): any {
  const response: Promise<unknown> = promise.asResponse();
  response.catch((error) => call.end(error)); // It is known though nobody may wait for the answer.

  let isParsed = false;
  const watch = (promise: any) => {
    const { parse, asResponse, _thenUnwrap } = promise;
    promise.parse = () => {
      isParsed = true;
      return parse.call(promise);
    };
    promise.asResponse = () => {
      if (!isParsed) response.then(() => call.end(), () => {}); // What a raw response cost nobody knows.
      return asResponse.call(promise);
    };
    promise._thenUnwrap = (transform: unknown) => watch(_thenUnwrap.call(promise, transform));
    return promise;
  };
  const observed = promise._thenUnwrap((answer: any) => observeAnswer(answer, call));
  const { _responseProps } = observed;
  // What runs tools with Anthropic's SDK parses the bytes of a stream itself, so another copy of them is read here.
  if (_responseProps) {
    observed._responseProps = async () => {
      const props = await _responseProps.call(observed);
      if (props.options?.stream) readAll(observed.parseResponse(sdk, { ...props, response: props.response.clone() })).catch(() => call.end());
      return props;
    };
  }
  return watch(observed);
}

async function readAll(stream: Promise<any>): Promise<void> {
  for await (const _ of await stream);
}

/** Pass an answer, or each part of a stream, to the call. A bare iterator is another one afterwards. */
export function observeAnswer(answer: any, call: Call): any {
  const isStream = typeof answer?.[Symbol.asyncIterator] === "function";
  try {
    const signal = answer?.controller?.signal;
    if (isStream && typeof answer.next === "function") return readAlong(answer, call);
    if (isStream) {
      // What a stream reads of, where it can be read twice; else the stream itself.
      const name = typeof answer.iterator === "function" ? "iterator" : Symbol.asyncIterator;
      const iterate = answer[name].bind(answer);
      answer[name] = () => readAlong(iterate(), call, signal);
    } else {
      call.see(answer);
      call.end();
    }
  } catch {
    call.end(); // A version that is built otherwise: the run is recorded without its tokens.
  }
  return answer;
}

async function* readAlong(parts: AsyncIterator<any>, call: Call, signal?: AbortSignal): AsyncGenerator<any> {
  try {
    while (true) {
      const { done, value } = await parts.next();
      // Where the program has ended the request, SDKs end its stream as if that were all of it.
      if (done) return signal?.aborted ? call.end() : call.endStream();
      if (!PREAMBLE.test(value?.type)) call.firstToken();
      call.see(value);
      yield value;
    }
  } catch (error) {
    call.end(error);
    throw error;
  } finally {
    call.end();
    await parts.return?.(); // Who stops reading ends the request.
  }
}
