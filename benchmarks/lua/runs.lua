-- Runs of about 300 bytes with metadata, as an SDK sends them. Each has an id of its own that is never sent twice.
local folder = os.getenv("BENCH_LUA")
dofile(folder .. "/report.lua")

local models = {
  { "openai", "gpt-4o-mini" }, { "openai", "gpt-4o" }, { "anthropic", "claude-sonnet-4-5" },
  { "anthropic", "claude-haiku-4-5" }, { "google", "gemini-2.5-flash" }, { "google", "gemini-2.5-pro" },
  { "mistral", "mistral-large-latest" }, { "mistral", "mistral-small-latest" },
}
local regions = { "eu-west-1", "us-east-1", "ap-south-1" }

-- Everything after the id, made once: the load generator must have nothing to do.
local rests = {}
math.randomseed(1)
for index = 1, 512 do
  local model = models[math.random(#models)]
  local failed = math.random() < 0.03
  rests[index] = string.format(
    '","provider":"%s","model":"%s","inputTokens":%d,"outputTokens":%d,"latencyMs":%d,"status":"%s"%s,'
      .. '"metadata":{"region":"%s","release":"2026.11.%d","feature":"checkout-assistant","attempt":%d,"stream":%s}}',
    model[1], model[2], math.random(200, 6000), math.random(20, 900),
    math.floor(400 * math.exp(math.random() * 2.5)), failed and "error" or "success",
    failed and ',"errorCode":"rate_limit"' or "",
    regions[math.random(#regions)], math.random(1, 28), math.random(1, 2), failed and "false" or "true"
  )
end

local sent = 0
function next_run(tag)
  sent = sent + 1
  return '"runId":"' .. tag .. "-" .. sent .. rests[sent % 512 + 1]
end

wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer " .. os.getenv("BENCH_KEY")
