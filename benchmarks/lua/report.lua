-- Prints what wrk counted as one line of JSON, the last line of its output.
function done(summary, latency, _)
  io.write(string.format(
    '\n{"answers": %d, "refused": %d, "broken": %d, "seconds": %.6f, "p50_ms": %.3f, "p95_ms": %.3f, "p99_ms": %.3f}\n',
    summary.requests,
    summary.errors.status,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout,
    summary.duration / 1e6,
    latency:percentile(50) / 1e3,
    latency:percentile(95) / 1e3,
    latency:percentile(99) / 1e3
  ))
end
