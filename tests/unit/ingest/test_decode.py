"""Bytes become runs: how large they may be, and what is said of each that is wrong. What is remembered of requests is bounded."""

import gzip
import zlib
from typing import cast

import msgspec
import pytest

from runtally.errors import BatchTooLarge, BodyTooLarge, Detail, InvalidJson, InvalidPayload, RuntallyError
from runtally.ingest.decode import BadRun, DecodedRun, decode, decode_run, inflate, known_project_id, read_envelope
from runtally.ingest.wire import WireRun

RUN = {"provider": "openai", "model": "gpt-4o"}


def decoded(body: object, most: int = 10) -> list[DecodedRun]:
    return decode(read_envelope(msgspec.json.encode(body)), "p", most).runs


def test_a_project_id_of_a_million_blanks_is_invalid_and_not_cached() -> None:
    read_envelope(b'{"projectId":"known"}')
    known = known_project_id.cache_info().currsize

    assert read_envelope(b'{"projectId":"' + b" " * 1_000_000 + b'"}').project_id is None
    assert known_project_id.cache_info().currsize == known > 0


@pytest.mark.parametrize("blanks", [0, 1, 2_046 - len("acme")])
def test_ids_of_a_usual_length_are_remembered(blanks: int) -> None:
    known_project_id.cache_clear()

    assert read_envelope(b'{"projectId":"acme' + b" " * blanks + b'"}').project_id == "acme"
    assert known_project_id.cache_info().currsize == 1


def test_a_longer_one_is_read_and_not_remembered() -> None:
    known_project_id.cache_clear()

    assert read_envelope(b'{"projectId":"acme' + b" " * 2_043 + b'"}').project_id == "acme"
    assert known_project_id.cache_info().currsize == 0
    assert known_project_id.cache_info().maxsize == 4096


@pytest.mark.parametrize("value", ["null", '""', '"  "'])
def test_a_project_may_be_left_out(value: str) -> None:
    assert read_envelope(f'{{"projectId":{value}}}'.encode()).project_id is None
    assert read_envelope(b"{}").project_id is None


PROJECT_ID = "must be a string of 1 to 128 characters, not blank, without NUL, and not beginning with team::"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("7", "must be a string"),
        ('"' + "x" * 129 + '"', PROJECT_ID),
        ('" team::search"', PROJECT_ID),
    ],
)
def test_another_project_id_is_refused_and_says_why(value: str, message: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        read_envelope(f'{{"projectId":{value}}}'.encode())

    assert refused.value.details == (Detail("projectId", message),)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"nothing",
        b'{"runs":"\xff"}',
        b'{"projectId":"\\ud800"}',
        b'{"projectId":"\\q"}',
        b'{"projectId":-}',
        b'{"runs":[{"provider":"\\udc00"}]}',
        b'{"runs":[1e]}',
        b'{"projectId":' + b"[" * 100_000,
    ],
)
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidJson):
        read_envelope(body)


def test_a_single_run_is_its_own_body_and_a_batch_keeps_its_order() -> None:
    one = decode(read_envelope(msgspec.json.encode(RUN)), "p", 1)
    many = decode(read_envelope(msgspec.json.encode({"runs": [RUN, RUN | {"model": "o3"}]})), "q", 2)

    assert (one.project_id, one.is_batch, [run.model for run in one.runs if isinstance(run, WireRun)]) == (
        "p",
        False,
        ["gpt-4o"],
    )
    assert (many.project_id, many.is_batch, [run.model for run in many.runs if isinstance(run, WireRun)]) == (
        "q",
        True,
        ["gpt-4o", "o3"],
    )


def test_a_batch_has_as_many_runs_as_are_allowed_and_at_least_one() -> None:
    assert len(decoded({"runs": [RUN] * 3}, 3)) == 3
    with pytest.raises(BatchTooLarge, match="Send at most 3 runs in one batch"):
        decoded({"runs": [RUN] * 4}, 3)
    with pytest.raises(BatchTooLarge):
        decoded({"runs": [7] * 4}, 3)
    with pytest.raises(InvalidPayload) as refused:
        decoded({"runs": []})
    assert refused.value.details == (Detail("runs", "must hold at least one run"),)


@pytest.mark.parametrize("runs", [7, "x", {}, None])
def test_runs_that_are_no_list_are_refused(runs: object) -> None:
    with pytest.raises(InvalidPayload) as refused:
        decoded({"runs": runs})

    assert refused.value.details == (Detail("runs", "must be an array of runs"),)


def test_of_a_bad_run_every_bad_field_is_told_and_the_others_are_kept() -> None:
    good, bad = decoded({"runs": [RUN, {"provider": "", "inputTokens": -1, "latencyMs": 5}]})

    assert isinstance(good, WireRun)
    assert isinstance(bad, BadRun)
    assert [(one.path, one.message) for one in bad.details] == [
        ("provider", "must be a string of 1 to 256 characters, not blank"),
        ("model", "is required"),
        ("inputTokens", "must be a whole number from 0 to 2^53 - 1"),
    ]
    assert bad.rest is not None
    assert (bad.rest.provider, bad.rest.model, bad.rest.input_tokens, bad.rest.latency_ms) == ("-", "-", None, 5)


@pytest.mark.parametrize("body", [b"7", b"[]", b"null", b'"x"'])
def test_a_run_that_is_no_object_is_told(body: bytes) -> None:
    assert decode_run(body) == BadRun((Detail("", "must be an object"),), None)


def test_a_count_that_is_written_as_a_decimal_is_a_count() -> None:
    run = cast("WireRun", decode_run(b'{"provider":"a","model":"b","inputTokens":12.0}'))

    assert run.input_tokens == 12


def test_a_number_of_metadata_keeps_its_digits() -> None:
    run = cast("WireRun", decode_run(b'{"provider":"a","model":"b","metadata":{"n":0.10}}'))

    assert run.metadata is not None
    assert str(run.metadata["n"]) == "0.10"


@pytest.mark.parametrize("body", [b"{", b'{"provider":"a","model":"b",}', b""])
def test_a_run_that_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidJson):
        decode_run(body)


def test_all_members_of_a_gzip_body_are_read() -> None:
    assert inflate(gzip.compress(b"abc"), 100) == b"abc"
    assert inflate(gzip.compress(b"abc") + gzip.compress(b"def"), 100) == b"abcdef"
    assert inflate(gzip.compress(b"x") * 128, 128) == b"x" * 128


def test_a_gzip_body_may_be_as_large_unpacked_as_the_limit() -> None:
    packed = gzip.compress(b"x" * 40) + gzip.compress(b"x" * 60)

    assert inflate(packed, 100) == b"x" * 100
    with pytest.raises(BodyTooLarge, match="at most 99 bytes of JSON, also after gzip"):
        inflate(packed, 99)


def test_no_more_is_unpacked_than_tells_that_it_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int]()
    unpacker_of = zlib.decompressobj

    class Unpacker:
        def __init__(self, wbits: int) -> None:
            self._unpacker = unpacker_of(wbits=wbits)

        def decompress(self, packed: bytes, most: int) -> bytes:
            asked.append(most)
            return self._unpacker.decompress(packed, most)

        def __getattr__(self, name: str) -> object:
            return getattr(self._unpacker, name)

    monkeypatch.setattr(zlib, "decompressobj", Unpacker)
    with pytest.raises(BodyTooLarge):
        inflate(gzip.compress(b"x" * 60) + gzip.compress(b"x" * 1_000_000), 100)

    assert asked == [101, 41]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (zlib.compress(b"abc"), "The body says it is gzip and is not; send it as it says."),
        (b"plain", "The body says it is gzip and is not; send it as it says."),
        (gzip.compress(b"abc", mtime=0) + b"plain", "The body says it is gzip and is not; send it as it says."),
        (gzip.compress(b"abc", mtime=0)[:-1], "The gzip body ends too early; send it whole."),
        (b"", "The gzip body ends too early; send it whole."),
        (gzip.compress(b"x", mtime=0) * 129, "Pack the body into at most 128 gzip members; one is best."),
    ],
)
def test_what_is_wrong_with_a_gzip_body_is_said(body: bytes, message: str) -> None:
    with pytest.raises(RuntallyError) as refused:
        inflate(body, 1_000)

    assert (refused.value.code, refused.value.message) == ("invalid_json", message)
