"""The registry as a CSV file: download it, and upload one after a preview of its changes."""

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

from msgspec.structs import replace
from quart import Blueprint, Response, request, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.errors import InvalidPrice
from runtally.pricing import price_file
from runtally.pricing.price_file import Effect, LineEffect
from webapp.form import Form, sent_form
from webapp.pages.prices.frame import PricesFrame, prices_frame
from webapp.rendering import Page, render, see_other
from webapp.security import admin

PATH = "/admin/prices/file"
SHOWN = 500
# Nothing is done yet when they are read.
WORDS = {
    Effect.ADD: "to add",
    Effect.CORRECT: "to correct",
    Effect.NOTHING: "unchanged",
    Effect.REFUSED: "refused",
}

blueprint = Blueprint("price_file", __name__)


PREVIEW = Form("preview")
_CHANGED = "Someone else changed one of these prices. Check the new preview, then apply it."


class FilePage(Page, frozen=True):
    """The forms for a file of prices, and a preview of the one that was sent."""

    fragment: ClassVar[str] = "prices/_file.html"
    tab_title: ClassVar[str] = "Import and export prices"

    frame: PricesFrame
    form: Form
    effects: tuple[LineEffect, ...] = ()
    number: int = 0
    counts: tuple[tuple[str, int], ...] = ()
    preview: Form = PREVIEW
    changes: str = ""
    """The lines that would change something, to be sent again."""
    columns: tuple[str, ...] = price_file.HEADER

    @property
    def words(self) -> Mapping[Effect, str]:
        return WORDS


@blueprint.get(PATH)
@admin
async def form() -> ResponseReturnValue:
    """Download or upload."""
    return await render(FilePage(prices_frame("price_file.form"), Form()))


@blueprint.get(f"{PATH}/prices.csv")
@admin
async def download() -> ResponseReturnValue:
    """Download all current and future prices."""
    async with services().control.database.session() as session:
        text = await price_file.write(session)
    headers = {"Content-Disposition": 'attachment; filename="prices.csv"', "Cache-Control": "private, no-store"}
    return Response(text, mimetype="text/csv", headers=headers)


@blueprint.post(PATH)
@admin
async def upload() -> ResponseReturnValue:
    """Show what each line would do; with `apply`, do it, all of it or nothing."""
    sent, applies = await sent_form(), (await request.form).get("apply") == "1"
    page = FilePage(prices_frame("price_file.form"), Form())
    async with services().control.database.session() as session:
        try:
            rows = price_file.read(await _text(sent))
        except InvalidPrice as error:
            return await render(replace(page, form=page.form.refused(error)), 422)
        effects = await price_file.dry_run(session, actor(), rows, services().clock())
        counts = Counter(one.effect for one in effects)
        shown = _shown(page, effects, counts)
        if not applies or counts[Effect.REFUSED]:
            return await render(shown, 422 if counts[Effect.REFUSED] else 200)
        if sent.is_behind(shown.preview):
            return await render(replace(shown, preview=shown.preview.refused(InvalidPrice(_CHANGED))), 422)
        await price_file.apply(session, actor(), rows, services().clock())
    said = f"{counts[Effect.ADD]:,} prices added, {counts[Effect.CORRECT]:,} corrected."
    return see_other(url_for("prices.prices"), flash=said)


async def _text(sent: Form) -> str:
    file = (await request.files).get("file")
    if file is None or not file.filename:
        return sent.value("csv")
    return str(file.read().decode("utf-8", errors="replace"))


def _shown(page: FilePage, effects: tuple[LineEffect, ...], counts: Counter[Effect]) -> FilePage:
    telling = [one for one in effects if one.effect is not Effect.NOTHING]
    return replace(
        page,
        effects=tuple(sorted(telling, key=lambda one: one.effect is not Effect.REFUSED)[:SHOWN]),
        number=len(telling),
        counts=tuple((WORDS[effect], counts[effect]) for effect in Effect),
        preview=PREVIEW.at_version([(one.effect, one.name, one.fields) for one in telling]),
        changes="" if counts[Effect.REFUSED] else price_file.text_of(one.values for one in telling),
    )
