import { AsyncLocalStorage } from "#storage";
import { merge, type Run } from "./run.js";

/** What the runs of a piece of work have in common. */
export interface Context {
  session?: string;
  user?: string;
  traceId?: string;
  experiment?: string;
  tags?: string[];
  metadata?: Record<string, unknown>;
}

const storage = AsyncLocalStorage && new AsyncLocalStorage<Run>();
let withoutStorage: Run = {};

/**
 * Add to all runs that are recorded inside `work`, and return what it returns. Contexts nest: the inner one wins, tags and
 * metadata add up. A runtime without AsyncLocalStorage knows the context only until `work` awaits something.
 */
export function context<T>(given: Context, work: () => T): T {
  return within(merge(shared(), fieldsOf(given)), work);
}

/** The fields that the contexts around the caller give to a run. */
export function shared(): Run {
  return (storage ? storage.getStore() : withoutStorage) ?? {};
}

export function within<T>(fields: Run, work: () => T): T {
  if (storage) return storage.run(fields, work);
  const before = withoutStorage;
  withoutStorage = fields;
  try {
    return work();
  } finally {
    withoutStorage = before;
  }
}

export function fieldsOf({ session, user, experiment, traceId, tags, metadata }: Context): Run {
  return { sessionId: session, userId: user, experimentId: experiment, traceId, tags, metadata };
}
