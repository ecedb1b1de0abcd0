"""UUIDv7: valid, unique, in order."""

import multiprocessing
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from runtally.ids import uuid7, uuid7_text


def test_ids_are_version_7_and_carry_the_time() -> None:
    before = time.time_ns() // 1_000_000

    made = uuid7()

    assert made.version == 7
    assert made.variant == "specified in RFC 4122"
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000 + 1


def test_ids_of_one_process_never_repeat_and_grow() -> None:
    made = [uuid7() for _ in range(20_000)]

    assert made == sorted(set(made))


def test_an_id_as_text_is_one_of_the_same_sequence() -> None:
    before, text, after = uuid7(), uuid7_text(), uuid7()

    assert text == str(uuid.UUID(text))
    assert before < uuid.UUID(text) < after


def test_ids_of_many_threads_never_repeat() -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: uuid7(), range(20_000)))

    assert len(set(made)) == len(made)


def test_a_process_that_was_forked_has_random_digits_of_its_own() -> None:
    uuid7()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        theirs = pool.apply_async(uuid7).get()

    assert theirs.hex[-12:] != uuid7().hex[-12:]
