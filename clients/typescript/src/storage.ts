// Where there is no "node:async_hooks" to import: some runtimes offer the class all the same.
import type { AsyncLocalStorage as Storage } from "node:async_hooks";

type Globals = { AsyncLocalStorage?: typeof Storage; process?: { getBuiltinModule?(name: string): any } };
const { AsyncLocalStorage: global, process } = globalThis as Globals;

export const AsyncLocalStorage: typeof Storage | undefined =
  global ?? process?.getBuiltinModule?.("node:async_hooks")?.AsyncLocalStorage;
