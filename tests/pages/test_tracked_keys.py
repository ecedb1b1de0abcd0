"""The keys that a project tracks: suggested, tracked, counted for the past and untracked in its settings."""

from quart import Quart

from api.current import EXTENSION
from runtally.models.user import Role
from runtally.services import Services
from runtally.usage.upkeep.dimensions import change_key
from tests.factories import make_run
from tests.pages.conftest import Invite, Post
from tests.pages.looking import html_of, text_of


async def finish_changes(services: Services) -> None:
    """Run the job until no key is left to change; it waits for transactions that began before it."""
    for _ in range(1_000):
        await change_key(services.cells.for_project(None).database, services.clock())
        async with services.cells.for_project(None).database.connection() as connection:
            if not await connection.fetchval("SELECT count(*) FROM tracked_keys WHERE state ~ 'ing$'"):
                return
    raise AssertionError("the job never ends")


async def test_keys_that_runs_have_are_suggested_tracked_and_counted_for_the_past(
    app: Quart, invite: Invite, post: Post, project_id: str
) -> None:
    await post(*(make_run(metadata={"plan": f"p{number % 3}", "list": [1], "feature": "f"}) for number in range(6)))
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/settings/tracked-keys"
    plain = text_of(await html_of(member, url))
    assert "9 of 12 in use" in plain
    assert "plan 3 values in 6 runs" in plain
    assert "list" not in plain.partition("Found in recent runs")[2]

    saved = await member.post(url, form={"key": "plan"})

    assert saved.headers["Location"] == url
    counting = await html_of(member, url)
    is_counting = "plan Counting earlier runs" in text_of(counting)
    assert is_counting == ('hx-trigger="every 2s"' in counting)
    assert is_counting or "10 of 12 in use" in text_of(counting)
    services: Services = app.extensions[EXTENSION]
    await finish_changes(services)
    done = text_of(await html_of(member, url))
    assert "Counting" not in done
    assert "10 of 12 in use" in done

    await member.post(f"{url}/untrack", form={"key": "plan"})
    # The application does such work in the background as well, and may be done with it.
    untracked = text_of(await html_of(member, url))
    assert "plan Deleting its totals" in untracked or "plan 3 values in 6 runs" in untracked
    await finish_changes(services)
    assert "plan 3 values in 6 runs" in text_of(await html_of(member, url))


async def test_a_key_that_cannot_be_tracked_is_refused_and_comes_back(
    invite: Invite, post: Post, project_id: str
) -> None:
    await post(make_run())
    member, _ = await invite(Role.MEMBER, project_id)

    refused = await member.post(f"/projects/{project_id}/settings/tracked-keys", form={"key": "k" * 129})

    assert refused.status_code == 422
    assert "1 to 128 characters" in await refused.get_data(as_text=True)
