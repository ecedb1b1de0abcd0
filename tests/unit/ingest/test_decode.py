"""What is remembered of requests, which anybody with a key can make up."""

from runtally.ingest.decode import known_project_id, read_envelope


def test_a_project_id_of_a_million_blanks_is_invalid_and_not_cached() -> None:
    read_envelope(b'{"projectId":"known"}')
    known = known_project_id.cache_info().currsize

    assert read_envelope(b'{"projectId":"' + b" " * 1_000_000 + b'"}').project_id is None
    assert known_project_id.cache_info().currsize == known > 0
