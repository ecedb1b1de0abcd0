"""The template environment, with the functions and values that templates may use.

Templates do no IO, so they are not rendered by Quart: in an async environment every loop and macro is a coroutine, at
three times the cost.
"""

from collections.abc import Sequence

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from quart import url_for

from runtally import BUILD
from runtally.files import ROOT
from webapp import formats, zone
from webapp.addresses import address_of, path_to
from webapp.assets import asset_url, style_sheet_url
from webapp.charts.look import HATCH
from webapp.charts.svg import first_paint
from webapp.guides import guide_url, titles
from webapp.project_pages import TABS

FOLDER = ROOT / "templates"
# No stored text has a NUL, and no cell is a line break.
_BESIDE, _BELOW = "\0", "\0\n\0"


def figures(rows: Sequence[Sequence[str]], urls: Sequence[str] = ()) -> Markup:
    """Render the rows of a table, whose names link to these URLs. Cell by cell they would take half of a page's time."""
    texts = _escaped(_BELOW, [_BESIDE.join(row) for row in rows])
    links = [f'<a href="{url}">' for url in _escaped(_BELOW, urls)] or [""] * len(texts)
    written = []
    for text, link in zip(texts, links, strict=True):
        name, _, cells = text.partition(_BESIDE)
        linked = f"{link}{name}</a>" if link else name
        written.append(f'<tr><th scope="row">{linked}</th><td>{cells.replace(_BESIDE, "</td><td>")}</td></tr>')
    return Markup("".join(written))  # noqa: S704  # All of it was just escaped.


def _escaped(between: str, texts: Sequence[str]) -> list[str]:
    return str(escape(between.join(texts))).split(between) if texts else []


def replaces_itself(id_: str) -> Markup:
    """Return the attributes of a part that links and forms in it renew, the last one alone, with its address in the history."""
    return Markup(
        'hx-target:inherited="#{0}" hx-swap:inherited="outerMorph" hx-push-url:inherited="true" '
        'hx-sync:inherited="#{0}:replace" hx-indicator:inherited="#{0}"'
    ).format(id_)


templates = Environment(
    loader=FileSystemLoader(FOLDER),
    autoescape=True,
    # A missing name is an error, not an empty place on the page.
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    # Code and templates change together, when the service starts.
    auto_reload=False,
)
templates.globals |= {
    "address_of": address_of,
    "asset": asset_url,
    "style_sheet": style_sheet_url,
    "first_paint": first_paint,
    "guide_titles": titles,
    "guide_url": guide_url,
    "hatch": Markup(HATCH),  # noqa: S704  # Our own.
    "path_to": path_to,
    "project_tabs": TABS,
    "replaces_itself": replaces_itself,
    "url_for": url_for,
    "version": BUILD,
    "zone": zone,
}
templates.filters |= {
    "clock": lambda at: formats.clock(zone.local(at)),
    "count": formats.count,
    "day": formats.day,
    "figures": figures,
}
