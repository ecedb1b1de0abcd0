"""Whatever is sent, and however long: the time that it takes grows with its length, not with the square of that.

Anybody may send a head of 128 KiB, and while a parser works on it the worker answers nobody else.
"""

import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from urllib.parse import quote

import pytest
from quart import Quart
from werkzeug.datastructures import ImmutableMultiDict

from tests.lines import Heard, Line
from tests.routes import APP
from webapp.zone import COOKIE

# The longer one, each of its bytes as `%20`, is as long as a path may be.
LENGTH = 5_000
TIMES = 4
# Of what is linear the ratio is 4 at most, of what is quadratic 16.
MOST = 8
TRIES = 5

SHAPES: dict[str, Callable[[int], str]] = {
    "blanks": lambda length: f"a{' ' * length}b",
    "blanks behind a sign": lambda length: f"a={' ' * length}b c",
    "items": lambda length: "a/b," * (length // 4),
    "parameters": lambda length: f"a/b{';c=d' * (length // 4)}",
    "an open quotation": lambda length: 'a="' + '\\"' * (length // 2),
    "segments": lambda length: "a/" * (length // 2),
    "digits": lambda length: "9" * length,
}
PARSED = (
    *("Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control", "Forwarded", "HX-Current-URL"),
    *("If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range", "Referer"),
    *("User-Agent", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Request-Id"),
)
# Of these a wrong one ends a request early.
DECIDING = (
    *("Authorization", "Content-Encoding", "Content-Type", "Host", "Origin", "Sec-Fetch-Site"),
    *("x-api-key", "x-svc-signature"),
)

ROUTES = {
    f"{method} {rule.rule}": (method, rule.rule)
    for rule in APP.url_map.iter_rules()
    for method in sorted((rule.methods or set()) - {"HEAD"})
}
PATHS = sorted({rule for _, rule in ROUTES.values()})
READ = [name for name, (method, _) in ROUTES.items() if method == "GET"]
WITH_PARTS = [name for name, (_, rule) in ROUTES.items() if "<" in rule]


class _AnyName(ImmutableMultiDict[str, str]):
    """A query that has every parameter that is asked for: each is the first that was sent."""

    def get(self, key: str, default: object = None, type: Callable[[str], object] | None = None) -> object:  # type: ignore[override]  # noqa: A002, ARG002
        try:
            return next(iter(map(type or str, self.values())), default)
        except ValueError:
            return default

    def __getitem__(self, key: str) -> str:
        return next(iter(self.values()))

    def __contains__(self, key: object) -> bool:
        return bool(self)


@pytest.fixture
async def line(closed_app: Quart) -> AsyncIterator[Line]:
    line = Line(closed_app, closed_app)
    yield line
    await line.end()


@pytest.fixture
async def dev_line(app: Quart) -> AsyncIterator[Line]:
    """Of an admin, whose queries are read."""
    line = Line(app, app)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app.request_class, "parameter_storage_class", _AnyName)
        yield line
    await line.end()


def path_of(name: str, text: str = "xxx") -> str:
    """A path of this route, with the text for what is variable in it, a part of it each."""
    _, rule = ROUTES[name]
    part = quote(text[: len(text) // max(rule.count("<"), 1)], safe="/")
    return re.sub("<[^>]+>", lambda _: part, rule)


def head(name: str, headers: Mapping[str, str] = {}, *, path: str | None = None, query: str = "") -> bytes:
    method, _ = ROUTES[name]
    fields = {"Host": "localhost", "Content-Length": "0", **headers}
    lines = "".join(f"{field}: {value}\r\n" for field, value in fields.items())
    return f"{method} {path or path_of(name)}{query} HTTP/1.1\r\n{lines}\r\n".encode()


async def seconds(line: Line, sent: bytes) -> float:
    """Processor time from what is sent until the end of its answer, which is no error of the server's."""
    if line.wire.closed:
        line.connect()
    heard, before = Heard(), time.process_time()
    line.send(sent)
    while not heard.answers:
        heard.parser.feed_data(await line.written())
    took = time.process_time() - before
    [(status, body)] = heard.answers
    assert status != 500, body
    return took


async def refuse_quadratic(line: Line, sent: Callable[[str], bytes]) -> None:
    """Of several tries the shortest is the best, because other work on the machine only ever adds to it.

    Most are soon done, compared with a short one that has nothing to parse; the others with short ones of their shape.
    """
    plain = await seconds(line, sent("x" * LENGTH))
    for shape, of_length in SHAPES.items():
        longs = [await seconds(line, sent(of_length(TIMES * LENGTH)))]
        shorts: list[float] = []
        while min(longs) > MOST * min(shorts, default=plain) and len(shorts) < TRIES:
            # Each is another one, so that no cache knows it.
            shorts.append(await seconds(line, sent(f"{len(shorts)}{of_length(LENGTH)}")))
            longs.append(await seconds(line, sent(f"{len(shorts)}{of_length(TIMES * LENGTH)}")))
        assert min(longs) <= MOST * min(shorts, default=plain), shape


@pytest.mark.parametrize("rule", PATHS)
async def test_long_headers_and_cookies_are_read_in_linear_time(line: Line, rule: str) -> None:
    def sent(name: str, text: str) -> bytes:
        return head(name, {**dict.fromkeys(PARSED, text), "Cookie": f"{text};{COOKIE}={text}"})

    for name in (name for name, (_, path) in ROUTES.items() if path == rule):
        await refuse_quadratic(line, partial(sent, name))


@pytest.mark.parametrize("decides", DECIDING)
@pytest.mark.parametrize("name", ["POST /api/ingest", "GET /api/metrics", "POST /api/internal/pg-sync", "POST /theme"])
async def test_a_long_header_that_ends_a_request_is_read_in_linear_time(line: Line, name: str, decides: str) -> None:
    await refuse_quadratic(line, lambda text: head(name, {decides: text}))


@pytest.mark.parametrize("name", READ)
async def test_long_queries_are_read_in_linear_time(dev_line: Line, name: str) -> None:
    await refuse_quadratic(dev_line, lambda text: head(name, query=f"?label={quote(text, safe='')}"))


@pytest.mark.parametrize("name", WITH_PARTS)
async def test_long_paths_are_read_in_linear_time(line: Line, name: str) -> None:
    await refuse_quadratic(line, lambda text: head(name, path=path_of(name, text)))
