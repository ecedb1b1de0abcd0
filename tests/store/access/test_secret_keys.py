"""Another SECRET_KEY is noticed, unless it took the place of one in order."""

from datetime import timedelta

from pydantic import SecretStr

from runtally.access.secret_keys import is_replaced, remember
from runtally.access.sessions import LIFETIME
from runtally.db.database import Database
from tests.relays import SteppedClock

OLD, NEW, OTHER = map(SecretStr, ("the-old-secret-key", "the-new-secret-key", "another-secret-key"))


async def test_a_key_that_replaces_another_is_noticed_at_the_start_and_for_as_long_as_sessions_last(
    own: Database,
) -> None:
    clock = SteppedClock()
    async with own.connection() as connection:

        async def started(*keys: SecretStr) -> tuple[bool, bool]:
            """Whether a start notices another key, and whether `doctor` does then."""
            return await remember(connection, keys, clock.now), await is_replaced(connection, keys, clock.now)

        assert await started() == (False, False)
        assert await started(OLD) == (False, False)
        assert await started(OLD) == (False, False)
        assert await is_replaced(connection, [OTHER], clock.now)
        assert await started(OTHER) == (True, True)
        assert await started(OTHER) == (False, True)
        assert await started(OTHER, OLD) == (False, False)
        clock.advance(LIFETIME)
        assert await started(OTHER) == (False, False)


async def test_a_rotation_in_order_is_no_other_key_and_one_that_ends_early_is(own: Database) -> None:
    clock = SteppedClock()
    async with own.connection() as connection:
        await remember(connection, [OLD], clock.now)
        clock.advance(timedelta(days=100))
        assert not await remember(connection, [NEW, OLD], clock.now)
        assert not await is_replaced(connection, [NEW, OLD], clock.now)
        clock.advance(LIFETIME / 2)
        assert await is_replaced(connection, [NEW], clock.now)
        clock.advance(LIFETIME / 2)
        assert not await is_replaced(connection, [NEW], clock.now)

        stored = await connection.fetch("SELECT fingerprint FROM secret_key_fingerprints")
    assert {len(row["fingerprint"]) for row in stored} == {16}
