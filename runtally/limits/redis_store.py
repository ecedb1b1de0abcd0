"""A store of limits in Redis: one script makes the same decision as the statement in Postgres. Needs the extra `redis`."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Self

from runtally.errors import SettingsError, StoreUnavailable
from runtally.limits.rate import Grant, Rate

try:
    from redis.asyncio import Redis
    from redis.exceptions import RedisError
except ImportError:
    raise SettingsError(
        "RATE_LIMIT_REDIS_URL needs Redis's client: `.venv/bin/uv sync --inexact --extra redis`, or leave the setting out."
    ) from None

KEY_START = "runtally:limit:"
# Shorter than a client waits: a stuck Redis must not hold requests.
TIMEOUT_SECONDS = 5.0
# Redis's numbers are doubles, which cannot hold nanoseconds since 1970. Seconds and nanoseconds are kept apart, and
# only differences, which fit, are computed. As in Postgres, a clock that is put back refuses nobody for the whole step.
TAKE = """
local time = redis.call('TIME')
local now_s, now_ns = tonumber(time[1]), tonumber(time[2]) * 1000
local count, interval = tonumber(ARGV[1]), tonumber(ARGV[2])
local answer = {}
for i, key in ipairs(KEYS) do
  local tat = redis.call('HMGET', key, 's', 'ns')
  local busy, is_put_back = 0, false
  if tat[1] then
    busy = math.max((tonumber(tat[1]) - now_s) * 1000000000 + tonumber(tat[2]) - now_ns, 0)
    is_put_back = busy > count * interval
    busy = math.min(busy, count * interval)
  end
  local granted = math.max(math.min(tonumber(ARGV[i + 2]), math.floor((count * interval - busy) / interval)), 0)
  busy = busy + granted * interval
  if granted > 0 or is_put_back then
    local ns = now_ns + busy
    redis.call('HSET', key, 's', string.format('%.0f', now_s + math.floor(ns / 1000000000)),
               'ns', string.format('%.0f', ns % 1000000000))
    redis.call('PEXPIRE', key, math.ceil(busy / 1000000))
  end
  answer[i] = {granted, string.format('%.0f', busy)}
end
return answer
"""


def redis_at(url: str) -> "Redis":
    """Return a client that connects on first use. Raises `SettingsError` for an invalid URL, without repeating it."""
    try:
        return Redis.from_url(url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS)
    except ValueError:
        raise SettingsError("RATE_LIMIT_REDIS_URL is not a Redis URL; write redis://host:6379/0.") from None


class RedisStore:
    """Counts in Redis, which several services may share."""

    def __init__(self, redis: "Redis") -> None:
        self._redis = redis
        self._take = redis.register_script(TAKE)

    @classmethod
    @asynccontextmanager
    async def opened(cls, url: str) -> AsyncIterator[Self]:
        """Open a store that connects on first use. Raises `SettingsError` for an invalid URL, without repeating it."""
        redis = redis_at(url)
        try:
            yield cls(redis)
        finally:
            await redis.aclose()

    async def take(self, rate: Rate, wanted: Mapping[str, int]) -> Mapping[str, Grant]:
        keys = [KEY_START + key for key in wanted]
        try:
            rows = await self._take(keys, [rate.count, rate.interval_ns, *wanted.values()])
        except (RedisError, OSError) as error:
            raise StoreUnavailable(
                "The store of rate limits is out of reach; send the same request again, nothing of it was stored."
            ) from error
        return {key: Grant(granted, int(busy)) for key, (granted, busy) in zip(wanted, rows, strict=True)}
