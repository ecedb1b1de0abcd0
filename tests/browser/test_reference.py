"""The API reference: a short list, of which links unfold the parts."""

from playwright.sync_api import Page, expect

from tests.serving import Server


def test_links_of_the_reference_unfold_what_they_lead_to(page: Page, story: Server) -> None:
    page.goto(f"{story.url}/docs")
    operation, type_ = page.locator("#post_ingest"), page.locator("#type-SingleRun")
    expect(page.get_by_role("heading", name="API reference")).to_be_visible()
    expect(operation).to_be_hidden()

    page.get_by_role("navigation", name="Reference").get_by_role("link", name="/api/ingest").click()
    expect(operation).to_be_visible()
    expect(type_).to_be_hidden()

    operation.get_by_role("link", name="SingleRun").click()
    expect(type_).to_be_visible()
    expect(type_.get_by_text("required").first).to_be_visible()
