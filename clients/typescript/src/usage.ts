import type { Run } from "./run.js";
import { ROWS } from "./table.js";

type Read = (path: string) => unknown;
type Counts = Record<string, number>;

const FIELDS = ["cachedInput", "cacheWrite", "reasoning", "audioInput", "audioOutput"];
const OF_CACHE = ["cachedInput", "cacheWrite"];
const ITEMS = ["token_count", "tokens", "tokenCount", "count", "input_tokens", "inputTokens"];
// What is charged by the usual price is no tier.
const TIERS: Record<string, string> = {
  batch: "batch", flex: "flex", priority: "priority", fast: "fast", ultrafast: "ultrafast",
  on_demand_flex: "flex", on_demand_priority: "priority",
};

/** The fields of a run that the usage object of any vendor's answer has. */
export function tokensOf(usage: unknown): Run {
  // Anthropic counts what it took to shorten a conversation in none of the sums.
  return stepsOf(usage, "compaction").map(readUsage).reduce(sumOfRuns, readUsage(usage));
}

/** The model and the fields of each part of a call that another model did, and that no sum of the usage has. */
export function partsOf(usage: unknown): Run[] {
  const whole = tokensOf(usage);
  const steps = stepsOf(usage, "advisor_message").concat(stepsOf(usage, "fallback_message").filter((step) => !isPart(whole, step)));
  return steps.map((step) => ({ model: step.model, ...readUsage(step) })).filter((part) => part.model && (part.inputTokens || part.outputTokens));
}

/** The model that answered in place of the one that was asked, if the usage is that model's. */
export function fallbackOf(usage: unknown): string | undefined {
  const whole = tokensOf(usage);
  return stepsOf(usage, "fallback_message").find((step) => isPart(whole, step))?.model;
}

function stepsOf(usage: any, type: string): any[] {
  return Array.isArray(usage?.iterations) ? usage.iterations.filter((step: any) => step?.type === type) : [];
}

function isPart(whole: any, step: unknown): boolean {
  return Object.entries(readUsage(step)).every(([name, value]) => JSON.stringify(whole[name]) === JSON.stringify(value));
}

function sumOfRuns(run: any, more: any): any {
  const sum = { ...run };
  for (const [name, value] of Object.entries<any>(more)) {
    if (typeof value === "object") sum[name] = sumOfRuns(sum[name], value);
    else if (typeof value === "number") sum[name] = (sum[name] ?? 0) + value;
  }
  return sum;
}

function readUsage(usage: unknown): Run {
  return readTokens((path) => path.split(".").reduce((value: any, name) => (name[0] === "[" ? sumOf(value, name) : value?.[name]), usage));
}

/** The same from anything that has a value for each path, such as the attributes of a span. */
export function readTokens(read: Read): Run {
  const get = (path: string) => read(path) ?? read(path.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase()));
  const number = (path: string) => [get(path)].find(isAmount);
  const { counts, beside } = countsOf(get, number);
  const total = number("total_tokens") ?? number("total_token_count");
  let { input, output, ...parts } = counts as Counts & { input?: number; output?: number };
  const isChat = get("prompt_tokens") != null && get("completion_tokens") != null;
  // xAI's chat completions count reasoning beside the completion.
  if (output !== undefined && total && isChat && total === (input ?? 0) + output + (parts.reasoning ?? 0)) output = total - (input ?? 0);
  // Embeddings and rerankers of Voyage and Jina name the sum alone.
  if (input === undefined && output === undefined) input = total || undefined;
  // Versions of Gemini's SDK that do not know of thoughts yet count them in the total alone.
  if (output !== undefined && total && get("prompt_token_count")) output = Math.max(output, total - (input ?? 0));
  if (!input && !output && !Object.keys(parts).length) return {}; // Some servers write 0 for what they do not know.
  if (input !== undefined) {
    input += beside;
    const cached = (parts.cachedInput ?? 0) + (parts.cacheWrite ?? 0);
    // No part is larger than its whole: it was counted apart. Where Portkey asked Anthropic, only the total says so.
    if (cached > input || (isChat && total === input + (output ?? 0) + cached)) input += cached;
  }
  if (output !== undefined && (parts.reasoning ?? 0) > output) output += parts.reasoning ?? 0;
  // What was cached of these is counted as both, and charged as cached.
  if (parts.audioInput) parts.audioInput = Math.max(parts.audioInput - (parts.cachedAudioInput ?? 0), 0);
  if (parts.imageInput) parts.imageInput = Math.max(parts.imageInput - (parts.cachedImageInput ?? 0), 0);
  const units = Object.entries(parts).filter(([unit, count]) => count && !FIELDS.includes(unit));
  const region = get("inference_geo");
  const run: Run = {
    inputTokens: input,
    outputTokens: output,
    cachedInputTokens: parts.cachedInput,
    cacheWriteTokens: parts.cacheWrite,
    reasoningTokens: parts.reasoning,
    audioInputTokens: parts.audioInput || undefined,
    audioOutputTokens: parts.audioOutput || undefined,
    units: units.length ? Object.fromEntries(units) : undefined,
    serviceTier: tierOf(get),
    region: typeof region === "string" && !["", "global", "not_available"].includes(region) ? region : undefined,
    costUSD: costOf(get, number),
  };
  return Object.fromEntries(Object.entries(run).filter(([, value]) => value !== undefined));
}

/** Each unit's count, and what has to be added to the input because it leaves it out. */
function countsOf(get: Read, number: (path: string) => number | undefined): { counts: Counts; beside: number } {
  const counts: Counts = {};
  let beside = 0;
  // Who counts cached tokens as a part of the input counts written ones so too.
  let includesAll = get("prompt_tokens") != null;
  for (const [unit, path, place] of ROWS) {
    if (place !== "more" && counts[unit]) continue;
    const count = number(path);
    if (count === undefined) continue;
    counts[unit] = place === "more" ? (counts[unit] ?? 0) + count : count;
    if (place === "inside" && OF_CACHE.includes(unit)) includesAll = true;
    if (place === "beside" && !includesAll) beside += count;
  }
  const written = (counts.cacheWrite5m ?? 0) + (counts.cacheWrite1h ?? 0);
  delete counts.cacheWrite5m;
  if (written && !counts.cacheWrite) counts.cacheWrite = written; // LangChain writes 0 for the whole where it has the parts.
  return { counts, beside };
}

function tierOf(get: Read): string | undefined {
  if (get("speed") === "fast") return "fast";
  const tiers = [get("service_tier"), get("traffic_type")].map((value: any) => TIERS[String(value?.type ?? value).toLowerCase()]); // Bedrock's is an object.
  // LangChain has the name of the tier in front of each detail, and by itself for what is in no other.
  return tiers.find(Boolean) ?? ["flex", "priority"].find((name) => get(`input_token_details.${name}`) != null);
}

/** What the vendor says that the call cost, in US dollars: OpenRouter and servers like it, Perplexity, xAI. */
function costOf(get: Read, number: (path: string) => number | undefined): number | undefined {
  const ticks = number("cost_in_usd_ticks");
  if (ticks !== undefined) return ticks / 1e10;
  const charged = number("cost.total_cost") ?? number("cost");
  const upstream = number("cost_details.upstream_inference_cost");
  // With a key of one's own OpenRouter charges a fee alone, and the provider the rest.
  if (upstream && (get("is_byok") === true || charged === 0)) return Number(((charged ?? 0) + upstream).toFixed(12));
  return charged;
}

/** The sum of the counts of those items of a list that meet a condition such as `[modality=AUDIO]`. */
function sumOf(list: unknown, condition: string): number | undefined {
  if (!Array.isArray(list)) return undefined;
  const [name, wanted] = condition.slice(1, -1).split("=") as [string, string];
  const items = list.filter((item) => String(item?.[name]).toLowerCase() === wanted.toLowerCase());
  const counts = items.map((item) => ITEMS.map((each) => item[each]).find(isAmount)).filter(isAmount);
  return counts.length ? counts.reduce((sum, count) => sum + count, 0) : undefined;
}

function isAmount(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value < Infinity;
}
