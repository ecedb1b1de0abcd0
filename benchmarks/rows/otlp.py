"""Row 19: OTLP traces compared with JSON batches of the same runs."""

import asyncio
import gzip
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, product
from struct import pack
from typing import Any

import aiohttp

from benchmarks import store
from benchmarks.options import Options
from benchmarks.processes import KEY, Running, service
from benchmarks.result import Figures, Row
from benchmarks.store import Postgres

CONNECTIONS = 8
SIZES = (100, 512)
PROMPT_CHARS = 16 * 1024
OTHERS = 0.8
"""Part of the spans that are no calls, in half of the rounds."""
GOAL, P99_MS = 0.65, 150
REQUESTS, SHORT_REQUESTS = 96, 24
# Stands in each body for what makes its traces other ones than those of the last; a trace id has 16 bytes, or 32 digits.
_MARK = b"0123456789abcdef"

_number = count(1)


@dataclass(frozen=True, slots=True)
class Kind:
    """The form of a request: its encoding, its compression and its spans."""

    encoding: str
    packed: bool
    size: int
    """Spans in a request."""
    others: float

    @property
    def name(self) -> str:
        parts = (
            self.encoding,
            "gzip" if self.packed else "",
            f"{self.size} spans",
            "80 % no calls" if self.others else "",
        )
        return " ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class Sent:
    """One round: how long all requests took, and each of them."""

    runs: int
    seconds: float
    latencies_ms: tuple[float, ...]
    refused: int

    @property
    def rate(self) -> float:
        return self.runs / self.seconds

    @property
    def p99_ms(self) -> float:
        return sorted(self.latencies_ms)[int(len(self.latencies_ms) * 0.99)]


def otlp(postgres: Postgres, options: Options) -> list[Row]:
    """Row 19. Every request has runs of its own, so that each of them is stored."""
    database = postgres.create("otlp")
    requests = SHORT_REQUESTS if options.is_short else REQUESTS
    kinds = [Kind(*each) for each in product(("protobuf", "json"), (False, True), SIZES, (0.0, OTHERS))]
    rates: dict[Kind, list[Sent]] = {kind: [] for kind in kinds}
    yardsticks: dict[int, list[Sent]] = {size: [] for size in SIZES}
    with service(database) as server:
        for size in SIZES:
            asyncio.run(_post(server, "/api/ingest", "application/json", None, _batches(size, requests // 4), size))
        for _ in range(options.rounds):
            for size in SIZES:
                sent = _post(server, "/api/ingest", "application/json", None, _batches(size, requests), size)
                yardsticks[size].append(asyncio.run(sent))
            for kind in kinds:
                rates[kind].append(asyncio.run(post_spans(server, kind, requests)))
    expected = sum(each.runs for rounds in (*rates.values(), *yardsticks.values()) for each in rounds)
    expected += sum(size * (requests // 4) for size in SIZES)
    stored = store.runs_in(database)
    postgres.drop("otlp")
    refused = sum(each.refused for rounds in (*rates.values(), *yardsticks.values()) for each in rounds)
    void = f"{expected:,} runs were sent, {stored:,} stored, {refused} requests refused" if stored != expected else None
    return [_row(kind, rounds, yardsticks[kind.size], stored, void) for kind, rounds in rates.items()]


def _row(kind: Kind, rounds: list[Sent], batches: list[Sent], stored: int, void: str | None) -> Row:
    rates, yardstick = Figures.of(each.rate for each in rounds), Figures.of(each.rate for each in batches)
    p99 = Figures.of(each.p99_ms for each in rounds)
    ratio = rates.over(yardstick)
    # How many runs there are among other spans is decided by the sender.
    goals = [*([] if kind.others else [f">= {GOAL} x"]), *([f"p99 <= {P99_MS} ms"] if kind.size == max(SIZES) else [])]
    is_bounded = kind.size < max(SIZES) or p99.median <= P99_MS
    return Row(
        number=19,
        measure=f"OTLP {kind.name}, prompts of 16 KB, {CONNECTIONS} connections, relay on",
        service=f"{rates:,.0f} runs/s, p99 {p99.median:.0f} ms",
        yardstick=f"JSON batches of {kind.size} {yardstick:,.0f} runs/s",
        result=f"{ratio:.2f} x, p99 {p99.median:.0f} ms",
        goal=", ".join(goals) or "none",
        reached=(ratio >= GOAL or kind.others > 0) and is_bounded,
        stored=stored,
        void=void,
        figures={"runs_per_second": rates, "json_runs_per_second": yardstick, "p99_ms": p99},
    )


async def post_spans(server: Running, kind: Kind, requests: int) -> Sent:
    """Send so many requests of a kind, each with traces of its own."""
    encode = _protobuf if kind.encoding == "protobuf" else _json
    media_type = "application/x-protobuf" if kind.encoding == "protobuf" else "application/json"
    calls = kind.size - round(kind.size * kind.others)
    body = encode(kind.size, calls)
    bodies = _unique(body, requests, as_hex=kind.encoding == "json")
    if kind.packed:
        bodies = iter([gzip.compress(each, 1) for each in bodies])
    return await _post(server, "/v1/traces", media_type, "gzip" if kind.packed else None, bodies, calls)


async def _post(  # noqa: PLR0913, PLR0917  # What a request is made of.
    server: Running, path: str, media_type: str, encoding: str | None, bodies: Iterator[bytes], runs: int
) -> Sent:
    """All bodies, over so many connections, each sent as soon as the last one was answered."""
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": media_type, "X-Runtally-Project": "otlp"}
    if encoding:
        headers["Content-Encoding"] = encoding
    latencies: list[float] = []
    refused = 0

    async def connection(session: aiohttp.ClientSession) -> None:
        nonlocal refused
        for body in bodies:
            started = time.perf_counter()
            async with session.post(server.url + path, data=body, headers=headers) as answer:
                await answer.read()
            latencies.append((time.perf_counter() - started) * 1_000)
            refused += answer.status >= 400  # noqa: PLR2004  # Errors.

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS)) as session:
        started = time.perf_counter()
        await asyncio.gather(*(connection(session) for _ in range(CONNECTIONS)))
        seconds = time.perf_counter() - started
    return Sent((len(latencies) - refused) * runs, seconds, tuple(latencies), refused)


def _unique(body: bytes, requests: int, *, as_hex: bool) -> Iterator[bytes]:
    """The body as often, its traces each time other ones."""
    mark = _MARK.hex().encode() if as_hex else _MARK
    for _ in range(requests):
        own = next(_number).to_bytes(16, "big")
        yield body.replace(mark, own.hex().encode() if as_hex else own)


def _batches(size: int, requests: int) -> Iterator[bytes]:
    """JSON batches of what the spans say."""
    for _ in range(requests):
        number = next(_number)
        runs = [
            {
                "provider": "openai", "model": "gpt-4o-mini", "inputTokens": 1200 + index % 50, "outputTokens": 350,
                "cachedInputTokens": 1000, "latencyMs": 1500, "status": "success", "runId": f"{number}-{index}",
                "traceId": f"{number}", "sessionId": f"session-{index % 20}", "timestamp": f"{_start(index) / 1e9:.6f}",
                "metadata": {"service": "shop", "operation": "chat", "responseModel": "gpt-4o-mini-2024-07-18"},
            }
            for index in range(size)
        ]  # fmt: skip
        yield json.dumps({"projectId": "otlp", "runs": runs}).encode()


_MESSAGES = json.dumps([{"role": "user", "content": 'He said "hello" and\nleft. ' * (PROMPT_CHARS // 26)}])
_FIRST = (int(time.time()) - 3600) * 1_000_000_000


def _start(index: int) -> int:
    return _FIRST + index * 1_000_000


def _attributes(index: int, *, is_call: bool) -> dict[str, Any]:
    if not is_call:
        return {
            "http.request.method": "GET", "url.full": f"https://shop.example/items/{index}", "http.response.status_code": 200,
            "server.address": "shop.example", "server.port": 443, "network.protocol.version": "1.1", "thread.name": "main",
            "db.query.text": _MESSAGES,
        }  # fmt: skip
    return {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.response.model": "gpt-4o-mini-2024-07-18", "gen_ai.usage.input_tokens": 1200 + index % 50,
        "gen_ai.usage.output_tokens": 350, "gen_ai.usage.cache_read.input_tokens": 1000, "gen_ai.request.temperature": 1,
        "gen_ai.request.max_tokens": 512, "gen_ai.response.id": f"chatcmpl-{index}", "server.address": "api.openai.com",
        "server.port": 443, "session.id": f"session-{index % 20}", "gen_ai.input.messages": _MESSAGES,
    }  # fmt: skip


def _spans(size: int, calls: int) -> Iterator[tuple[int, dict[str, Any]]]:
    for index in range(size):
        yield index, _attributes(index, is_call=index % size < calls)


def _json(size: int, calls: int) -> bytes:
    def value(of: object) -> dict[str, object]:
        return {"intValue": str(of)} if isinstance(of, int) else {"stringValue": of}

    spans = [
        {
            "traceId": _MARK.hex(), "spanId": f"{index + 1:016x}", "name": "chat", "kind": 3, "startTimeUnixNano": str(_start(index)),
            "endTimeUnixNano": str(_start(index) + 1_500_000_000), "status": {},
            "attributes": [{"key": name, "value": value(of)} for name, of in attributes.items()],
        }
        for index, attributes in _spans(size, calls)
    ]  # fmt: skip
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    scoped = [{"scope": {"name": "benchmark"}, "spans": spans}]
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scoped}]}).encode()


def _protobuf(size: int, calls: int) -> bytes:
    def attribute(name: str, of: object) -> bytes:
        any_value = b"\x18" + _varint(of) if isinstance(of, int) else _field(1, str(of).encode())
        return _field(1, name.encode()) + _field(2, any_value)

    spans = b"".join(
        _field(
            2,
            _field(1, _MARK) + _field(2, (index + 1).to_bytes(8, "big")) + _field(5, b"chat")
            + b"\x39" + pack("<Q", _start(index)) + b"\x41" + pack("<Q", _start(index) + 1_500_000_000)
            + b"".join(_field(9, attribute(name, of)) for name, of in attributes.items()),
        )
        for index, attributes in _spans(size, calls)
    )  # fmt: skip
    resource = _field(1, attribute("service.name", "shop"))
    return _field(1, _field(1, resource) + _field(2, _field(1, _field(1, b"benchmark")) + spans))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:  # noqa: PLR2004  # Seven bits a byte.
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
