"""The guides of `docs/` as HTML, so that every installation has those of its own version and asks no other server."""

import re
from collections.abc import Callable
from functools import cache

from markupsafe import Markup
from msgspec import Struct

from runtally.files import ROOT
from webapp.addresses import path_to

FOLDER = ROOT / "docs"
GROUPS = {
    "Send runs": ("sending", "opentelemetry", "agents", "importing"),
    "Cost": ("pricing", "bills", "budgets", "alerts", "badges"),
    "Read": ("sessions", "quality", "compare", "usage", "reporting", "mcp", "cli"),
    "Run the server": (
        "operations",
        "as-code",
        "cells",
        "archive",
        "configuration",
        "access",
        "limits",
        "security",
        "privacy",
        "reliability",
    ),
}
"""The names of the guides, in the order in which they are listed."""
NAMES = tuple(name for names in GROUPS.values() for name in names)

_SECTION = re.compile('<h2 id="([^"]+)">([^<]+)</h2>')
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(#[^)]*)?\)")


class Section(Struct, frozen=True):
    anchor: str
    title: str


class Guide(Struct, frozen=True):
    name: str
    title: str
    html: Markup
    sections: tuple[Section, ...]
    """Its parts, without those whose title is a command."""


def guide_url(name: str, anchor: str = "") -> str:
    """Return the path of a guide, or of a section of it."""
    path = path_to("guides.show", name=name)
    return f"{path}#{anchor}" if anchor else path


@cache
def titles() -> dict[str, str]:
    """Return the title of each guide."""
    return {name: _text(name).partition("\n")[0].removeprefix("# ") for name in NAMES}


@cache
def read(name: str) -> Guide:
    """Render a guide."""
    from markdown import Markdown  # noqa: PLC0415  # It looks through all installed packages; the first page is spared that.

    markdown = Markdown(
        extensions=["fenced_code", "tables", "toc"],
        # Our Content-Security-Policy allows no style attributes.
        extension_configs={"tables": {"use_align_attribute": True}},
    )
    html = markdown.convert(with_links(_text(name), _page_of))
    # What is wider than the page is scrolled by itself, also by the keyboard.
    html = html.replace("<pre>", '<pre class="docs-code" tabindex="0">')
    html = html.replace("<table>", '<div class="guide-table" tabindex="0"><table>').replace(
        "</table>", "</table></div>"
    )
    # The corner of a table heads nothing.
    html = html.replace("<th></th>", "<td></td>")
    sections = tuple(Section(*found) for found in _SECTION.findall(html))
    return Guide(name, titles()[name], Markup(html), sections)  # noqa: S704  # Our own.


def with_links(text: str, page_of: Callable[[str], str | None]) -> str:
    """Return Markdown with its relative links to pages; a link to what is no page becomes the name of the file."""

    def linked(match: re.Match[str]) -> str:
        label, path, anchor = match.groups()
        page = page_of(path)
        if page is not None:
            return f"[{label}]({page}{anchor or ''})"
        name = path.removeprefix("../")
        return label if label.strip("`") == name else f"{label} (`{name}`)"

    return _LINK.sub(linked, text)


def _page_of(path: str) -> str | None:
    name = path.removesuffix(".md")
    return name if name in NAMES else None


def _text(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")
