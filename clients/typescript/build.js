// Builds dist/: the client as an ES module and for require(), both with types, and with it the module that detects the runtime.
import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

rmSync("dist", { recursive: true, force: true });
for (const [format, extension] of [["esm", ".js"], ["cjs", ".cjs"]]) {
  await build({
    entryPoints: ["src/index.ts", "src/storage.ts", "src/storage.node.ts"],
    outdir: "dist",
    bundle: true,
    format,
    target: "es2022",
    outExtension: { ".js": extension },
    external: ["#storage", "node:async_hooks"],
  });
}
const { status } = spawnSync("tsc", { stdio: "inherit", shell: true });
if (status) process.exit(status);
for (const name of readdirSync("dist").filter((name) => name.endsWith(".d.ts"))) {
  const types = readFileSync(`dist/${name}`, "utf8");
  writeFileSync(`dist/${name.replace(/ts$/, "cts")}`, types.replaceAll('.js"', '.cjs"'));
}
