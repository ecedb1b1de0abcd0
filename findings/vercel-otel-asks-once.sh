#!/usr/bin/env bash
# Vercel's OpenTelemetry for JavaScript: a collector that answers 503 with Retry-After once, as one that restarts or limits does, costs the spans of that request, since the exporters of
# @vercel/otel ask once and say nothing. OpenTelemetry's own exporter, given to the same function, asks again.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
PACKAGES="@vercel/otel@2.1.3 @opentelemetry/exporter-trace-otlp-proto@0.223.1"
BESIDE="@opentelemetry/api@1.10.0 @opentelemetry/api-logs@0.223.1 @opentelemetry/instrumentation@0.223.0 @opentelemetry/resources@2.12.1 @opentelemetry/sdk-logs@0.223.1 @opentelemetry/sdk-metrics@2.12.1 @opentelemetry/sdk-trace-base@2.12.1"
command -v npm > /dev/null && (cd "$folder" && npm init -y > /dev/null && npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps $PACKAGES $BESIDE > /dev/null 2>&1) || exit 2
cat > "$folder/try.mjs" <<'JS'
import http from "node:http";
import { trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { OTLPHttpJsonTraceExporter, OTLPHttpProtoTraceExporter, registerOTel } from "@vercel/otel";

let asked = 0, taken = 0;
const server = http.createServer((request, response) => {
  request.resume();
  request.on("end", () => {
    asked += 1;
    if (asked === 1) return response.writeHead(503, { "Retry-After": "1" }).end();
    taken += 1;
    response.writeHead(200, { "Content-Type": request.headers["content-type"] }).end(/json/.test(request.headers["content-type"]) ? "{}" : "");
  });
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const url = `http://127.0.0.1:${server.address().port}/v1/traces`;
const EXPORTERS = { proto: OTLPHttpProtoTraceExporter, json: OTLPHttpJsonTraceExporter, opentelemetry: OTLPTraceExporter };
const traceExporter = new EXPORTERS[process.argv[2]]({ url });
registerOTel({ serviceName: "s", traceExporter });
trace.getTracer("t").startSpan("chat m").end();
const provider = trace.getTracerProvider();
await (provider.getDelegate?.() ?? provider).forceFlush().catch(() => {});
for (let waited = 0; waited < 4000 && !taken; waited += 100) await new Promise((done) => setTimeout(done, 100));
console.log(asked, taken);
process.exit(0);
JS
for name in $PACKAGES; do echo "${name%@*} $(node -p "require('$folder/node_modules/${name%@*}/package.json').version")"; done
echo "guess: each exporter sends again what was answered with 503 and Retry-After"
cd "$folder"
declare -A seen
for each in proto json opentelemetry; do
  seen[$each]=$(timeout 60 node try.mjs "$each" 2> /dev/null) || exit 2
  echo "seen: $each: requests and requests that were taken: ${seen[$each]}"
done
[ "${seen[opentelemetry]}" = "2 1" ] || exit 2
[ "${seen[proto]} ${seen[json]}" = "1 0 1 0" ] && exit 0 || exit 1
