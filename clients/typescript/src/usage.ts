import type { Run } from "./run.js";

// Where each vendor has a count in the usage of its answer. The first that is there counts.
const INPUT = ["prompt_tokens", "input_tokens", "inputTokens", "promptTokens", "tokens"];
const OUTPUT = ["completion_tokens", "output_tokens", "outputTokens", "completionTokens"];
const CACHED_BESIDE = ["cache_read_input_tokens"]; // Anthropic counts cached tokens in addition to the input, the others as part of it.
const CACHED = [
  "prompt_tokens_details.cached_tokens",
  "input_tokens_details.cached_tokens",
  "inputTokenDetails.cacheReadTokens",
  "cachedInputTokens",
];
const WRITTEN_BESIDE = ["cache_creation_input_tokens"];
const WRITTEN = ["prompt_tokens_details.cache_write_tokens", "inputTokenDetails.cacheWriteTokens"];
const REASONING = [
  "completion_tokens_details.reasoning_tokens",
  "output_tokens_details.reasoning_tokens",
  "outputTokenDetails.reasoningTokens",
  "reasoningTokens",
];
const AUDIO_INPUT = ["prompt_tokens_details.audio_tokens", "input_tokens_details.audio_tokens"];
const AUDIO_OUTPUT = ["completion_tokens_details.audio_tokens", "output_tokens_details.audio_tokens"];

type Read = (path: string) => unknown;

/** The tokens of a run, from the usage of an answer of OpenAI, Anthropic, OpenRouter or the AI SDK. */
export function tokensOf(usage: unknown): Run {
  return readTokens((path) => path.split(".").reduce((value: any, name) => value?.[name], usage));
}

/** The same from anything that has a value for each path, such as the attributes of a span. */
export function readTokens(read: Read): Run {
  const count = (paths: string[]) => paths.map(read).find(isCount);
  const cachedBeside = count(CACHED_BESIDE);
  const writtenBeside = count(WRITTEN_BESIDE);
  const cached = cachedBeside ?? count(CACHED);
  const written = writtenBeside ?? count(WRITTEN);
  let input = count(INPUT);
  const output = count(OUTPUT);
  if (!input && !output) return {}; // Some servers write 0 for what they do not know.
  if (input !== undefined) {
    const parts = (cached ?? 0) + (written ?? 0);
    const isBeside = read("input_tokens") !== undefined && (cachedBeside ?? writtenBeside) !== undefined;
    if (isBeside || parts > input) input += parts;
  }
  return {
    inputTokens: input,
    outputTokens: output,
    cachedInputTokens: cached,
    cacheWriteTokens: written,
    reasoningTokens: count(REASONING),
    audioInputTokens: count(AUDIO_INPUT) || undefined,
    audioOutputTokens: count(AUDIO_OUTPUT) || undefined,
    costUSD: costOf(read),
  };
}

/** What the vendor says that the call cost, in US dollars: OpenRouter and servers like it, Perplexity, xAI. */
function costOf(read: Read): number | undefined {
  const amount = (path: string) => [read(path)].find((value): value is number => typeof value === "number" && value >= 0);
  const ticks = amount("cost_in_usd_ticks");
  if (ticks !== undefined) return ticks / 1e10;
  const charged = amount("cost.total_cost") ?? amount("cost");
  const upstream = amount("cost_details.upstream_inference_cost");
  // With a key of one's own OpenRouter charges a fee alone, and the provider the rest.
  if (upstream && (read("is_byok") === true || charged === 0)) return Number(((charged ?? 0) + upstream).toFixed(12));
  return charged;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
