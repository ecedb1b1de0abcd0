#!/usr/bin/env bash
# A program in JavaScript that ends by itself after one call. Unlike in Python, where OpenTelemetry's provider sends what waits, no span leaves: not with OpenTelemetry's NodeSDK, not with
# Vercel's registerOTel, in Node, Bun or Deno. Deno's own telemetry (OTEL_DENO=true) sends them.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
PACKAGES="@vercel/otel@2.1.3 @oven/bun-linux-x64-baseline@1.4.5 @deno/linux-x64-glibc@2.9.6 @opentelemetry/sdk-node@0.223.0"
BESIDE="@opentelemetry/api@1.10.0 @opentelemetry/api-logs@0.223.1 @opentelemetry/instrumentation@0.223.0 @opentelemetry/resources@2.12.1 @opentelemetry/sdk-logs@0.223.1 @opentelemetry/sdk-metrics@2.12.1 @opentelemetry/sdk-trace-base@2.12.1"
command -v npm > /dev/null && (cd "$folder" && npm init -y > /dev/null && npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps $PACKAGES $BESIDE > /dev/null 2>&1) || exit 2
cat > "$folder/call.mjs" <<'JS'
const { trace } = await import("@opentelemetry/api");
if (process.argv[2] === "sdk-node") new (await import("@opentelemetry/sdk-node")).NodeSDK().start();
if (process.argv[2] === "vercel") (await import("@vercel/otel")).registerOTel({ serviceName: "s" });
trace.getTracer("t").startSpan("chat m").end();
JS
cat > "$folder/try.py" <<'PY'
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

folder = Path(sys.argv[1])
sent = []


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        if b"chat m" in raw and "traces" in self.path:
            sent.append(self.path)
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
threading.Thread(target=server.serve_forever, daemon=True).start()
(bun,), (deno,) = (list((folder / "node_modules").glob(place)) for place in ("@oven/*/bin/bun", "@deno/*/deno"))
for each in (bun, deno):
    each.chmod(0o755)
RUNTIMES = {"node": ["node"], "bun": [bun], "deno": [deno, "run", "-A"]}
PROGRAMS = {f"{name} {sdk}": [*command, "call.mjs", sdk] for name, command in RUNTIMES.items() for sdk in ("sdk-node", "vercel")}
PROGRAMS |= {"deno own": [deno, "run", "-A", "call.mjs", "none"]}
seen = {}
for name, command in PROGRAMS.items():
    sent.clear()
    env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
           **({"OTEL_DENO": "true"} if name == "deno own" else {})}
    code = subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=60).returncode
    seen[name] = len(sent) if code == 0 else None
print("guess: the span is sent before the program ends")
for name, spans in seen.items():
    print(f"seen: {name}: {'did not run' if spans is None else spans}")
if None in seen.values() or not seen["deno own"]:
    sys.exit(2)
sys.exit(1 if any(spans for name, spans in seen.items() if name != "deno own") else 0)
PY
for name in $PACKAGES; do echo "${name%@*} $(node -p "require('$folder/node_modules/${name%@*}/package.json').version")"; done
timeout 200 python3 "$folder/try.py" "$folder"
