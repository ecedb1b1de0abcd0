-- One run a request.
dofile(os.getenv("BENCH_LUA") .. "/runs.lua")

local project = os.getenv("BENCH_PROJECT")
local start = '{"projectId":"' .. project .. '",'

function request()
  return wrk.format(nil, nil, nil, start .. next_run(project))
end
