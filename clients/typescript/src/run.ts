/** A run as the API takes it. Everything but the provider and the model is optional. */
export interface Run {
  runId?: string;
  timestamp?: string;
  provider?: string;
  model?: string;
  inputTokens?: number;
  outputTokens?: number;
  cachedInputTokens?: number;
  cacheWriteTokens?: number;
  reasoningTokens?: number;
  audioInputTokens?: number;
  audioOutputTokens?: number;
  /** Counts of what else the vendor charges for, by name, such as `{ webSearch: 2 }`. */
  units?: Record<string, number>;
  serviceTier?: string;
  region?: string;
  costUSD?: number | string;
  latencyMs?: number;
  timeToFirstTokenMs?: number;
  status?: "success" | "error" | "timeout";
  errorCode?: string;
  finishReason?: string;
  sessionId?: string;
  userId?: string;
  traceId?: string;
  experimentId?: string;
  tags?: string[];
  metadata?: Record<string, unknown>;
}

const MAX_NAME = 256;
const MAX_LABEL = 64;
const MAX_TIER = 32;
const MAX_TAG = 64;
const MAX_TAGS = 20;
const NAMES = ["provider", "model", "errorCode", "userId", "sessionId", "traceId", "experimentId"] as const;
const TIMES = ["latencyMs", "timeToFirstTokenMs"] as const;

/** Put fields of a run together. The inner ones win, unless they are undefined; tags and metadata add up. */
export function merge(outer: Run, inner: Run): Run {
  const given = Object.entries(inner).filter(([, value]) => value !== undefined && value !== null);
  const run: Run = { ...outer, ...Object.fromEntries(given) };
  const tags = [...(outer.tags ?? []), ...(inner.tags ?? [])].map((tag) => String(tag).slice(0, MAX_TAG));
  if (tags.length) run.tags = [...new Set(tags)].slice(0, MAX_TAGS);
  if (outer.metadata && inner.metadata) run.metadata = { ...outer.metadata, ...inner.metadata };
  if (outer.units && inner.units) run.units = { ...outer.units, ...inner.units };
  return run;
}

/** Shorten names and round times for which the server would refuse the run. */
export function withinLimits(run: Run): Run {
  for (const name of TIMES) if (typeof run[name] === "number") run[name] = Math.max(0, Math.round(run[name]));
  for (const name of NAMES) if (run[name] !== undefined) run[name] = String(run[name]).slice(0, MAX_NAME);
  if (run.finishReason) run.finishReason = String(run.finishReason).slice(0, MAX_LABEL);
  if (run.region) run.region = String(run.region).slice(0, MAX_LABEL);
  if (run.serviceTier) run.serviceTier = String(run.serviceTier).slice(0, MAX_TIER);
  return run;
}
