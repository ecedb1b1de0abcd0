-- BENCH_BATCH runs a request, into one project or into BENCH_PROJECTS in turn.
dofile(os.getenv("BENCH_LUA") .. "/runs.lua")

local project, size = os.getenv("BENCH_PROJECT"), tonumber(os.getenv("BENCH_BATCH"))
local projects = tonumber(os.getenv("BENCH_PROJECTS"))

local turn = 0
function request()
  local id, runs = project, {}
  if projects then
    id = project .. "-" .. (turn % projects)
    turn = turn + 1
  end
  for index = 1, size do
    runs[index] = "{" .. next_run(id)
  end
  return wrk.format(nil, nil, nil, '{"projectId":"' .. id .. '","runs":[' .. table.concat(runs, ",") .. "]}")
end
