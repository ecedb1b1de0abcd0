"""What tests look for in HTML."""

from html.parser import HTMLParser

from quart.typing import TestClientProtocol as Browser

PARTIAL = {"HX-Request": "true", "HX-Request-Type": "partial"}


async def html_of(reader: Browser, url: str, status: int = 200, *, headers: dict[str, str] | None = None) -> str:
    response = await reader.get(url, headers=headers)
    html: str = await response.get_data(as_text=True)
    assert response.status_code == status, html
    assert response.headers["Content-Type"].startswith("text/html")
    assert "<title>None<" not in html
    return html


async def part_of(reader: Browser, url: str, status: int = 200) -> str:
    """What htmx gets."""
    return await html_of(reader, url, status, headers=PARTIAL)


class Outline(HTMLParser):
    """The elements of a document or a fragment, and those that are in no other."""

    VOID = frozenset({"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"})

    def __init__(self, html: str, *, is_whole: bool = True) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._is_whole = is_whole
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.roots: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not (is_whole and self._open), f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = tag, dict(attrs)
        self.elements.append(element)
        if not self._open:
            self.roots.append(element)
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if self._is_whole:
            assert self._open, f"</{tag}> closes nothing"
            assert self._open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def by_id(self, id_: str) -> dict[str, str | None]:
        return next(attributes for _, attributes in self.elements if attributes.get("id") == id_)

    def ids(self) -> list[str]:
        return [value for _, attributes in self.elements if (value := attributes.get("id"))]


def text_of(html: str) -> str:
    """The text alone, its white space folded, without what only keeps a line from breaking."""
    outline = Outline(html.removeprefix("<!DOCTYPE html>"), is_whole=False)
    return " ".join("".join(outline.texts).replace("\u2060", "").split())
