"""The page behind the link in the first mail of an alert destination: somebody there says that alerts are wanted."""

from typing import ClassVar

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.access import public
from api.current import services
from runtally.access import teams
from runtally.alerts import confirming
from runtally.alerts.evaluator import ALL_NAME
from runtally.errors import InvalidLink
from webapp.form import sent_form
from webapp.pages.account.join import keep_token_to_oneself
from webapp.rendering import Page, render

blueprint = Blueprint("confirm_alerts", __name__)
blueprint.after_request(keep_token_to_oneself)


class ConfirmAlertsPage(Page, frozen=True):
    """Asks whether the alerts of a project are wanted at an address, or says that they come."""

    fragment: ClassVar[str] = "account/_confirm_alerts.html"
    has_navigation: ClassVar[bool] = False
    document_title: ClassVar[str] = "Confirm alerts"

    token: str
    project: str
    address: str
    is_confirmed: bool


@blueprint.get("/confirm-alerts")
@public
async def show() -> ResponseReturnValue:
    """The question; what opens links before people do changes nothing."""
    return await render(await _answered(request.args.get("token", ""), is_wanted=False))


@blueprint.post("/confirm-alerts")
@public
async def confirm() -> ResponseReturnValue:
    """Send alerts there from now on."""
    return await render(await _answered((await sent_form()).value("token"), is_wanted=True))


async def _answered(token: str, *, is_wanted: bool) -> ConfirmAlertsPage:
    """Return the page after the answer. Raises `InvalidLink`."""
    links, now = services().channels.links, services().clock()
    if links is None:
        raise InvalidLink(confirming.EXPIRED)
    project_id, alert_id = links.read(token)
    async with services().sessions_of(project_id) as (control, session):
        target = await confirming.find(session, project_id, alert_id, now)
        project = await teams.name_of(control, session, project_id) if project_id else ALL_NAME
        if is_wanted:
            await confirming.confirm(session, target, now)
        return ConfirmAlertsPage(token, project, target.address, target.confirmed_at is not None)
