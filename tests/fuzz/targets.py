"""What is fed with bytes, and what must hold whatever they are. A finding is an exception."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime

import msgspec

from runtally.errors import RuntallyError
from runtally.fields import EARLIEST, MAX_AHEAD
from runtally.ingest.decode import BadRun, decode, inflate, read_envelope
from runtally.ingest.normalize import complete, normalize
from runtally.ingest.timestamps import parse_timestamp
from runtally.ingest.wire import WireRun
from runtally.models.run import StoredRun
from runtally.otlp import json, protobuf
from runtally.otlp.attributes import wanted_of_resources, wanted_of_spans
from runtally.otlp.nesting import Lineage, keep_innermost
from runtally.otlp.receive import call_of
from runtally.otlp.runs import stored_run
from runtally.otlp.spans import is_call
from runtally.otlp.twins import keep_one_of_each
from runtally.otlp.values import Malformed, Rules, Span
from runtally.privacy import ContentRule
from runtally.settings import CONTENT_KEYS, PrivacyMode

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
LIMIT = 64 * 1024
MAX_RUNS = 50
OF_SPANS = Rules(wanted_of_resources(frozenset()), wanted_of_spans(frozenset()))
RULES = tuple(ContentRule.of(mode, tuple(CONTENT_KEYS.split(","))) for mode in PrivacyMode)


def ingest(data: bytes) -> None:
    """A body, packed or not: it is refused by an error of ours, or its runs can be stored and read again."""
    with suppress(RuntallyError):
        body = inflate(data, LIMIT) if data.startswith(b"\x1f\x8b") else data
        request = decode(read_envelope(body), "project", MAX_RUNS)
        assert 0 < len(request.runs) <= MAX_RUNS
        for sent in request.runs:
            run = sent.rest if isinstance(sent, BadRun) else sent
            assert not isinstance(sent, BadRun) or sent.details
            if run is not None:
                _check_stored(run)


def _check_stored(sent: WireRun | StoredRun) -> None:
    for rule in RULES:
        with suppress(RuntallyError):
            if isinstance(sent, StoredRun):
                _check(complete(copy(sent), NOW, rule).run)
            else:
                _check(normalize(sent, "project", NOW, rule).run)


def _check(run: StoredRun) -> None:
    assert run.id
    assert run.provider
    assert run.model
    assert EARLIEST <= run.occurred_at <= NOW + MAX_AHEAD
    assert msgspec.json.decode(msgspec.json.encode(run), type=StoredRun).id == run.id
    texts = (value for value in msgspec.structs.astuple(run) if isinstance(value, str))
    # What Postgres cannot hold, nor UTF-8 say.
    assert not any("\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text) for text in texts)


def timestamps(data: bytes) -> None:
    """Any text is no time, or one that is within bounds and means the same when it is written down again."""
    moment = parse_timestamp(data.decode("utf-8", "surrogateescape"), NOW)
    if moment is not None:
        assert EARLIEST <= moment <= NOW + MAX_AHEAD
        assert moment.utcoffset() == UTC.utcoffset(None)
        assert parse_timestamp(moment.isoformat(), NOW) == moment


def otlp(data: bytes) -> None:
    """A request of OTLP, in protobuf or JSON: it is refused, or its calls can be stored. Also when it is sent twice."""
    read = json.read_spans if data.lstrip()[:1] == b"{" else protobuf.read_spans
    spans = [*_read(read(data, OF_SPANS)), *_read(read(data, OF_SPANS))]
    lineage = Lineage()
    calls = [
        call_of(span, key, "project", {}, frozenset())
        for span in spans
        if (key := lineage.add(span, "project")) and is_call(span)
    ]
    inner = keep_innermost(calls, lineage, {})
    for call in keep_one_of_each(inner):
        run = stored_run(call)
        if isinstance(run, BadRun):
            assert run.details
        else:
            _check_stored(run)


def _read(spans: Iterator[Span]) -> Iterator[Span]:
    with suppress(Malformed):
        yield from spans


TARGETS: Mapping[str, Callable[[bytes], None]] = {"ingest": ingest, "timestamps": timestamps, "otlp": otlp}
