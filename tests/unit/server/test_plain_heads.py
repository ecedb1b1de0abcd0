"""A head that is read without a parser is what the parser makes of it."""

import random
import time

import httptools
import pytest

from webapp.server.plain_heads import MAX_BYTES, PlainHead, plain_head

USUAL = (
    b"POST /api/ingest HTTP/1.1\r\nHost: localhost:3000\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n"
)


class Parsed:
    """What the server's parser finds in a head."""

    def __init__(self, head: bytes) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.url, self.body, self.is_whole = b"", b"", False
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(head)

    def feed(self, body: bytes) -> None:
        self._parser.feed_data(body)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.method = self._parser.get_method()
        self.keeps = self._parser.get_http_version() == "1.1" and self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_whole = True


def plain(head: bytes) -> PlainHead:
    found = plain_head(head)
    assert found is not None
    return found


def test_a_usual_head_is_plain() -> None:
    found = plain(USUAL)

    assert (found.method, found.raw_path, found.path, found.query) == (b"POST", b"/api/ingest", "/api/ingest", b"")
    assert (found.headers[0], found.length, found.keeps) == ((b"host", b"localhost:3000"), 12, True)


def test_a_query_and_an_encoded_path_are_taken_apart() -> None:
    found = plain(b"GET /a%2Fb.svg?label=%20x&y HTTP/1.0\r\nhost: a\r\n\r\n")

    assert (found.raw_path, found.path, found.query) == (b"/a%2Fb.svg", "/a/b.svg", b"label=%20x&y")
    assert (found.length, found.keeps) == (0, False)


@pytest.mark.parametrize(
    "line",
    [
        *(b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"Upgrade: h2c", b"Connection: upgrade"),
        *(
            b"Host: another",
            b"Content-Length: 12",
            b"Content-Length: 1 2",
            b"Content-Length : 12",
            b"Proxy-Connection: close",
        ),
        *(b" folded", b"x-a: \xff", b"x-a: \0", b"x-a: a\rb", b"x-a: a ", b"no colon", b": no name"),
    ],
)
def test_a_head_that_programs_may_read_differently_is_left_to_the_parser(line: bytes) -> None:
    assert plain_head(USUAL.replace(b"\r\n\r\n", b"\r\n" + line + b"\r\n\r\n")) is None


@pytest.mark.parametrize(
    "head",
    [
        USUAL.replace(b"Host: localhost:3000\r\n", b""),
        USUAL.replace(b"localhost", b"local host"),
        USUAL.replace(b"\r\n", b"\n"),
        USUAL.replace(b"/api", b"http://localhost/api"),
        USUAL.replace(b"POST", b"PUT"),
        USUAL.replace(b"POST", b"GET"),
        USUAL.replace(b"1.1", b"2.0"),
        USUAL.replace(b"ingest", b"ingest#part"),
        USUAL.replace(b": 12", b": -1"),
    ],
)
def test_another_kind_of_request_is_left_to_the_parser(head: bytes) -> None:
    assert plain_head(head) is None


PARTS = [
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b":",
        b",",
        b"\0",
        b"\xe9",
        b"?",
        b"#",
        b"%2F",
        b"%",
        b"//",
        b"a",
        b"-",
        b"1",
    ),
    *(b"Host: b\r\n", b"Content-Length: 3\r\n", b"Connection: close\r\n", b"Connection: keep-alive\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"x-a:\r\n", b"x-b: \t c\r\n", b"User-Agent: d e\r\n", b"HTTP/1.0", b"GET "),
]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_read_as_plain_the_parser_reads_in_the_same_way(seed: int) -> None:
    choose = random.Random(seed)  # noqa: S311  # Nothing secret.
    read = 0
    for _ in range(5_000):
        head = USUAL
        for _ in range(choose.randint(0, 3)):
            at = choose.randrange(len(head))
            head = head[:at] + choose.choice(PARTS) + head[at + choose.choice([0, 0, 1, 4]) :]
        found = plain_head(head)
        if found is None:
            continue
        read += 1
        parsed = Parsed(head)
        url = httptools.parse_url(parsed.url)
        assert (found.method, found.raw_path, found.query) == (parsed.method, url.path, url.query or b"")
        assert (found.headers, found.keeps) == (parsed.headers, parsed.keeps)
        assert parsed.is_whole is (found.length == 0)
        parsed.feed(b"x" * min(found.length, 2_000))
        assert (len(parsed.body), parsed.is_whole) == (min(found.length, 2_000), found.length <= 2_000)
    assert read > 500


@pytest.mark.parametrize("part", [b" ", b"\t", b"a", b"a ", b"x:a\r\n", b"\r\n", b":", b"x: \t\r\n"])
def test_reading_takes_linear_time(part: bytes) -> None:
    line = USUAL.partition(b"\r\n")[0]
    began = time.process_time()
    for end in (b"\0\r\n\r\n", b"", b" \r\n\r\n"):
        plain_head(line + b"\r\nx-a: " + part * (MAX_BYTES // len(part)) + end)

    assert time.process_time() - began < 0.1
