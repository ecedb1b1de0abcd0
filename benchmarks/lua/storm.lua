-- Clients that lost their answers: the same few batches, over several projects, sent again and again by all of them.
dofile(os.getenv("BENCH_LUA") .. "/runs.lua")

local project, size = os.getenv("BENCH_PROJECT"), tonumber(os.getenv("BENCH_BATCH"))
local projects, batches = tonumber(os.getenv("BENCH_PROJECTS")), tonumber(os.getenv("BENCH_BATCHES"))

local bodies = {}
for number = 0, projects * batches - 1 do
  local id, runs = project .. "-" .. (number % projects), {}
  for index = 1, size do
    runs[index] = "{" .. next_run(id)
  end
  bodies[number + 1] = '{"projectId":"' .. id .. '","runs":[' .. table.concat(runs, ",") .. "]}"
end

local turn = 0
function request()
  turn = turn + 1
  -- First all of them in order, each three times in a row, so that several connections send the same at once; then any.
  local number = turn <= #bodies * 3 and math.ceil(turn / 3) or math.random(#bodies)
  return wrk.format(nil, nil, nil, bodies[number])
end
