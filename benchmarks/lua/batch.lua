-- BENCH_BATCH runs a request.
dofile(os.getenv("BENCH_LUA") .. "/runs.lua")

local project, size = os.getenv("BENCH_PROJECT"), tonumber(os.getenv("BENCH_BATCH"))
local start = '{"projectId":"' .. project .. '","runs":['

function request()
  local runs = {}
  for index = 1, size do
    runs[index] = "{" .. next_run(project)
  end
  return wrk.format(nil, nil, nil, start .. table.concat(runs, ",") .. "]}")
end
