"""A test of an alert, and how the page hears what came of it."""

from playwright.sync_api import Page, expect

from tests.browser.conftest import PROJECT
from tests.browser_fixtures import Complaints
from tests.serving import Server

ROOM_BESIDE_TEXT = """button => {
  const range = document.createRange();
  range.selectNodeContents(button.firstChild);
  const [text, box] = [range.getBoundingClientRect(), button.getBoundingClientRect()];
  return [text.left - box.left, box.right - text.right];
}"""


def test_the_log_says_what_came_of_a_test_without_a_reload(page: Page, story: Server, complaints: Complaints) -> None:
    complaints.expect("422")
    page.goto(f"{story.url}/projects/{PROJECT}/settings/alerts")
    # A name, so that it is resolved only when it is posted to, and refused then.
    page.get_by_label("Send alerts to").fill("http://localhost:1/hook")
    page.get_by_role("button", name="Send a test and add").click()
    expect(page.locator("#channel-address-error")).to_contain_text(
        "The Webhook test failed: the host is in a private network, which is not allowed."
    )
    page.get_by_role("button", name="Add without a test").click()
    expect(page.locator("#webhook-secret")).to_contain_text("whsec_")

    remove = page.get_by_role("button", name="Remove http://localhost:1/…")
    # Words for screen readers are in it too, and take no room.
    left, right = remove.evaluate(ROOM_BESIDE_TEXT)
    assert abs(left - right) < 1

    page.get_by_role("button", name="Send a test to http://localhost:1/…").click()

    expect(page.locator("#alert-log")).to_contain_text("the host is in a private network, which is not allowed")
    remove.click()
    expect(page.get_by_text("No alert destinations yet.")).to_be_visible()
