// The usage objects of all vendors are read as the Python client and the server read them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { tokensOf } from "runtally";

const cases = JSON.parse(readFileSync(process.env.USAGE_CASES!, "utf8")) as { of: string; usage: unknown; run: unknown }[];

for (const { of, usage, run } of cases) test(of, () => assert.deepEqual(tokensOf(usage), run));
