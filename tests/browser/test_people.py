"""People and keys, as they walk: from a link to an account, to a key that works, to a colleague who sees one project."""

import json
import subprocess
import uuid
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import post
from tests.browser.test_accessibility import OPTIONS
from tests.browser_fixtures import Complaints
from tests.commands import run
from tests.factories import make_run
from tests.serving import Postgres, Server, running_server

PASSWORD = "correct horse battery"
# Both before the server answers; of each, whether a script stopped it.
TWO_CLICKS = """button => {
  const stopped = [];
  addEventListener("submit", (event) => stopped.push(event.defaultPrevented));
  button.click();
  button.click();
  return stopped;
}"""


@pytest.fixture(scope="module")
def server(postgres: Postgres) -> Iterator[Server]:
    """The service as people find it: they must sign in."""
    with running_server(postgres.create_seeded("people")) as server:
        yield server


def link_for(server: Server, email: str) -> str:
    """What `runtally users create` prints for a new admin."""
    command = ("users", "create", email, "--role", "admin", "--url", server.url)
    finished = run(*command, environment={"DATABASE_URL": server.database_url})
    assert finished.code == 0, finished.err
    return finished.out.strip()


def join(page: Page, link: str, name: str) -> None:
    page.goto(link)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Repeat password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_role("status")).to_contain_text("You are signed in")


def assert_accessible(page: Page) -> None:
    assert [violation["id"] for violation in Axe().run(page, options=OPTIONS).response["violations"]] == []


def test_an_admin_makes_a_key_and_its_command_works_as_pasted(page: Page, server: Server, project_id: str) -> None:
    post(server, project_id, make_run())
    link = link_for(server, f"{uuid.uuid4().hex}@example.com")
    page.goto(link)
    assert_accessible(page)
    join(page, link, "Ada")
    page.goto(f"{server.url}/account")
    assert_accessible(page)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    page.goto(f"{server.url}/projects/{project_id}")
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Create key").click()
    assert_accessible(page)
    page.get_by_role("button", name="Copy curl").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    command = page.evaluate("() => navigator.clipboard.readText()")
    done = subprocess.run(["/bin/sh", "-c", f"{command} --silent"], check=True, capture_output=True, text=True)  # noqa: S603  # As a reader would.

    assert json.loads(done.stdout)["ok"]
    page.reload()
    expect(page.get_by_role("heading", name="Keys", exact=True)).to_be_visible()


def test_a_colleague_comes_in_by_a_link_and_is_refused_what_is_not_theirs(
    page: Page, first_visit: Page, server: Server, project_id: str, complaints: Complaints
) -> None:
    post(server, project_id, make_run())
    post(server, f"{project_id}-other", make_run())
    join(page, link_for(server, f"{uuid.uuid4().hex}@example.com"), "Ada")
    page.get_by_role("link", name="Admin").click()
    page.get_by_role("link", name="Users").click()
    page.get_by_label("Email address").fill(f"{uuid.uuid4().hex}@example.com")
    page.locator("#invite-project").select_option(project_id)
    page.get_by_role("button", name="Create invitation link").click()
    link = page.locator("#new-link-url").inner_text()
    assert_accessible(page)

    complaints.expect("403", "404")
    colleague = first_visit
    join(colleague, link, "Bob")
    expect(colleague.get_by_role("heading", name="Your project")).to_be_visible()
    expect(colleague.get_by_role("link", name="Admin")).to_have_count(0)
    colleague.goto(f"{server.url}/projects/{project_id}")
    expect(colleague.get_by_role("heading", name=project_id)).to_be_visible()
    expect(colleague.get_by_role("link", name="Settings")).to_have_count(0)
    colleague.goto(f"{server.url}/projects/{project_id}-other")
    expect(colleague.get_by_role("heading", name="We can't find that page")).to_be_visible()
    colleague.goto(f"{server.url}/admin/users")
    expect(colleague.get_by_role("heading", name="You can't see this")).to_be_visible()


def test_who_was_signed_out_over_a_form_signs_in_elsewhere_and_sends_it_again(
    page: Page, server: Server, project_id: str, complaints: Complaints
) -> None:
    post(server, project_id, make_run())
    email = f"{uuid.uuid4().hex}@example.com"
    join(page, link_for(server, email), "Ada")
    complaints.expect("401")
    page.goto(f"{server.url}/projects/{project_id}/settings/notes")
    page.get_by_label("What happened").fill("A <new> prompt")
    page.context.clear_cookies()
    page.get_by_role("button", name="Add note").click()
    expect(page.get_by_role("heading", name="Nothing was saved")).to_be_visible()

    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Sign in in another tab").click()
    elsewhere = opened.value
    elsewhere.get_by_label("Email address").fill(email)
    elsewhere.get_by_label("Password").fill(PASSWORD)
    elsewhere.get_by_role("button", name="Sign in", exact=True).click()
    expect(elsewhere).to_have_url(f"{server.url}/projects/{project_id}/settings/notes")

    page.get_by_role("button", name="Send it again").click()
    expect(page.get_by_role("status")).to_contain_text("Note added.")
    expect(page.locator(".entry-name", has_text="A <new> prompt")).to_have_count(1)


def test_two_clicks_make_one_thing(page: Page, server: Server, project_id: str) -> None:
    post(server, project_id, make_run())
    join(page, link_for(server, f"{uuid.uuid4().hex}@example.com"), "Ada")
    page.goto(f"{server.url}/projects/{project_id}/settings/notes")
    page.get_by_label("What happened").fill("A new prompt")
    was_stopped = page.get_by_role("button", name="Add note").evaluate(TWO_CLICKS)

    assert was_stopped == [False, True]
    expect(page.get_by_role("status")).to_contain_text("Note added.")
    expect(page.locator(".entry-name", has_text="A new prompt")).to_have_count(1)


def test_the_frame_fits_each_width_with_all_that_a_signed_in_admin_has(
    page: Page, server: Server, project_id: str
) -> None:
    post(server, project_id, make_run())
    join(page, link_for(server, f"{uuid.uuid4().hex}@example.com"), "Ada")
    page.goto(f"{server.url}/projects/{project_id}")

    for width in (320, 561, 768, 861, 1024):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("() => document.documentElement.scrollWidth") == width
        expect(page.get_by_role("button", name="Sign out")).to_be_in_viewport(ratio=1)


def test_the_readers_own_colours_leave_a_key_its_colours_and_a_tab_its_mark(
    page: Page, server: Server, project_id: str
) -> None:
    post(server, project_id, make_run())
    join(page, link_for(server, f"{uuid.uuid4().hex}@example.com"), "Ada")
    page.emulate_media(forced_colors="active")
    page.goto(f"{server.url}/projects/{project_id}")

    line = "tab => getComputedStyle(tab).borderBottomColor"
    tabs = page.get_by_role("navigation", name="Project").get_by_role("link")
    lines = {tab.inner_text(): tab.evaluate(line) for tab in tabs.all()}
    assert lines["Overview"] != lines["Runs"] == lines["Settings"]
    swatch = page.locator(".swatch.c1").first
    assert swatch.evaluate("e => getComputedStyle(e).forcedColorAdjust") == "none"
