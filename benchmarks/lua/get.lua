-- One URL again and again, with the ETag of an earlier answer if there is one.
dofile(os.getenv("BENCH_LUA") .. "/report.lua")

local tag = os.getenv("BENCH_ETAG")
if tag then
  wrk.headers["If-None-Match"] = tag
end
