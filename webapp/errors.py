"""Show errors of pages as HTML: a page, or a toast if htmx asked, so that the screen keeps its content."""

from contextlib import suppress
from typing import ClassVar

from quart import Response, current_app, request, url_for
from werkzeug.exceptions import HTTPException

from api.current import actor, incoming, request_id
from api.errors import RETRY_AFTER_SECONDS, known, status_of
from api.exchange import note_error
from runtally.access.scopes import Scope, may
from runtally.audit import ANYONE, ActorKind
from runtally.errors import (
    BodyTooLarge,
    Forbidden,
    InvalidFilter,
    InvalidLink,
    QueryTooSlow,
    RateLimited,
    RuntallyError,
    StoreUnavailable,
    TooManyDownloads,
)
from runtally.fields import is_project_id, trimmed
from webapp import sessions
from webapp.addresses import here, path_in, safe_path
from webapp.form import URLENCODED, VERSION, Form, sent_form
from webapp.rendering import Page, render, render_once, see_other, wants_part
from webapp.security import CrossSiteForm, SignInRequired, recognise

BUG = "Accepted runs are stored. Try again. If the problem persists, send the request id below to the admin of this server."
TITLES = {
    401: "Nothing was saved",
    403: "You can't see this",
    404: "We can't find that page",
    405: "That can't be done here",
    413: "That is too large",
    422: "That can't be done",
    429: "Too many tries",
    503: "Not available right now",
}
MESSAGES = {
    404: "The address may be mistyped, or the page was removed.",
    405: "Go back and use the buttons on the page.",
    413: "Nothing was changed. Go back and send less at once, such as a part of the file.",
}
NOT_WITH_THIS_KEY = "The key you signed in with doesn't open this page. Sign in with one that does."
NOT_WITH_THIS_LINK = (
    "The link you opened shows one project's charts, totals and experiments. Individual runs, settings and other projects need "
    "an account."
)
OUT_OF_REACH_CELL = (
    "The database of cell {cell} is out of reach. Accepted runs are stored. Try again in a moment; the projects of other cells "
    "are not affected."
)
OUT_OF_REACH = "The database is out of reach. Accepted runs are stored. Try again in a moment."


class ErrorPage(Page, frozen=True):
    """The page of an error: the problem, and what to do."""

    fragment: ClassVar[str] = "site/_error.html"

    status: int
    title: str
    message: str
    retry_url: str | None
    """The URL to try again, if that may help."""
    back_url: str | None
    """The page of the form that was sent, if it can be sent with other values."""
    sign_in_url: str | None
    """The sign-in page, if another user may do this."""
    request_id: str | None
    project_id: str | None = None
    """The project that the page is of, whose other pages the reader may try instead."""
    list_url: str | None = None
    """The page of admins that lists what there is of the kind that was asked for."""
    form: Form | None = None
    """The form that was sent, to send it again; without its files."""

    @property
    def document_title(self) -> str:
        return self.title


class ErrorToast(Page, frozen=True):
    """An error in short, above a page that stays."""

    template: ClassVar[str] = "site/_toast_message.html"
    fragment: ClassVar[str] = "site/_toast_message.html"

    message: str
    retry_url: str | None
    sign_in_url: str | None
    request_id: str | None


async def respond(error: Exception) -> Response:
    """Answer an error of a page; a bug shows only the id of its request."""
    note_error(error)
    if isinstance(error, SignInRequired) and not _is_of_a_form():
        return _to_sign_in()
    shown = known(error)
    status = status_of(shown or error)
    id_to_report = request_id() if shown is None or status == 500 else None  # noqa: PLR2004  # The status says it best.
    response = await _rendered(shown, status, id_to_report)
    if status == 503:  # noqa: PLR2004  # The status says it best.
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    if isinstance(shown, RateLimited):
        response.headers["Retry-After"] = str(shown.retry_after_seconds)
    if isinstance(shown, HTTPException):
        response.headers.extend((name, value) for name, value in shown.get_headers() if name == "Allow")
    return response


async def _rendered(shown: RuntallyError | HTTPException | None, status: int, id_to_report: str | None) -> Response:
    message = _message(shown, status)
    # A link cannot send a form again.
    retry_url = here() if request.method == "GET" else None
    if request.endpoint is None:
        await recognise()
    if isinstance(shown, StoreUnavailable) and actor() is ANYONE:
        incoming().actor = sessions.presumed_holder(_project_asked_for()) or ANYONE
    is_signed_out = isinstance(shown, SignInRequired)
    sign_in_url = (
        url_for("sign_in.sign_in", next=_page_asked_from()) if _is_not_theirs(shown) or is_signed_out else None
    )
    if not wants_part():
        page = ErrorPage(
            status,
            _title(shown, status),
            message,
            retry_url=retry_url if status >= 500 else None,  # noqa: PLR2004  # Server errors.
            back_url=safe_path(_page_asked_from()) if isinstance(shown, BodyTooLarge) else None,
            sign_in_url=sign_in_url,
            request_id=id_to_report,
            project_id=_project_to_show(status),
            list_url=_list_url() if status == 404 else None,  # noqa: PLR2004  # As above.
            form=await sent_form() if is_signed_out and request.mimetype == URLENCODED else None,
        )
        return await (render_once(page, status) if page.form else render(page, status))
    response = await render(
        ErrorToast(message, None if is_signed_out else retry_url, sign_in_url if is_signed_out else None, id_to_report),
        status,
    )
    response.headers["HX-Retarget"] = "#toast"
    response.headers["HX-Reswap"] = "innerHTML"
    # The requested page is not shown, so the address stays that of the current page.
    response.headers["HX-Push-Url"] = "false"
    return response


def _is_of_a_form() -> bool:
    """Return whether it has what somebody typed, which leaving the page would lose: a form, or one that is asked about."""
    return request.method == "POST" or VERSION in request.args


def _to_sign_in() -> Response:
    """Redirect to the sign-in page and back afterwards.

    htmx leaves the page rather than swap the form into it.
    """
    if not wants_part():
        return see_other(url_for("sign_in.sign_in", next=_page_asked_from()))
    headers = {"HX-Redirect": url_for("sign_in.sign_in", next=path_in(request.headers.get("HX-Current-URL", "")))}
    return Response(status=401, headers=headers)


def _page_asked_from() -> str:
    """Return the page to show after signing in: this one, or the form's page, because its target often is no page."""
    return path_in(request.headers.get("Referer", "")) if _is_of_a_form() else here()


def _project_asked_for() -> str | None:
    """Return the project of the address."""
    project_id: str = (request.view_args or {}).get("project_id") or trimmed(request.args.get("project", ""))
    return project_id if is_project_id(project_id) else None


def _project_to_show(status: int) -> str | None:
    """Return the project of the address, if the reader may see it, and it is something in it that is missing or all of it out of reach."""
    project_id, is_part = _project_asked_for(), status == 404 and len(request.view_args or {}) > 1  # noqa: PLR2004  # As above.
    is_shown = project_id and (is_part or status >= 500) and may(actor(), Scope.METRICS_READ, project_id)  # noqa: PLR2004
    return project_id if is_shown else None


def _list_url() -> str | None:
    """Return the nearest page above the address, for admins: what others ask for is in a project."""
    path, routes = request.path, current_app.create_url_adapter(request)
    while routes and may(actor(), Scope.ADMIN, None) and (path := path.rpartition("/")[0]):
        with suppress(HTTPException):
            endpoint, values = routes.match(path, "GET")
            if not values:
                return str(url_for(endpoint))
    return None


def _is_not_theirs(shown: RuntallyError | HTTPException | None) -> bool:
    return isinstance(shown, Forbidden) and not isinstance(shown, CrossSiteForm)


def _title(shown: RuntallyError | HTTPException | None, status: int) -> str:
    if isinstance(shown, InvalidLink):
        return "This link no longer works"
    if isinstance(shown, InvalidFilter) and request.method == "GET":
        return "This address has a mistake"
    if isinstance(shown, CrossSiteForm):
        return "This form was not sent from this site"
    if isinstance(shown, TooManyDownloads):
        return "Too many downloads at once"
    if isinstance(shown, QueryTooSlow):
        return "That takes too long"
    return TITLES.get(status, TITLES[422] if status < 500 else "Something broke on our side")  # noqa: PLR2004  # Server errors.


def _message(shown: RuntallyError | HTTPException | None, status: int) -> str:
    if isinstance(shown, StoreUnavailable):
        return OUT_OF_REACH_CELL.format(cell=shown.cell) if shown.cell else OUT_OF_REACH
    if _is_not_theirs(shown) and actor().kind is ActorKind.KEY:
        return NOT_WITH_THIS_KEY
    if _is_not_theirs(shown) and actor().kind is ActorKind.LINK:
        return NOT_WITH_THIS_LINK
    if isinstance(shown, RuntallyError) and not isinstance(shown, BodyTooLarge):
        return " ".join(f"{detail.path}: {detail.message}" for detail in shown.details) or shown.message
    return MESSAGES.get(status, BUG if status >= 500 else "Go back and try another way.")  # noqa: PLR2004  # Server errors.
