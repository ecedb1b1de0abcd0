"""What holds for every template, the ones no test renders included."""

import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from webapp.pages.site.appearance import ThemeButton
from webapp.rendering import FOLDER, Page, Shell, figures, templates

TEMPLATES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.html"))
PARTIALS = [name for name in TEMPLATES if Path(name).name.startswith("_")]


def test_each_compiles() -> None:
    assert len(TEMPLATES) > 100
    for name in TEMPLATES:
        # An error names the template and the line.
        templates.get_template(name)


def test_a_name_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        templates.from_string("{{ page.nothing }}").render(page=object())


def test_each_asks_the_frame_only_for_what_it_has() -> None:
    known = {*Shell.__struct_fields__} | {*vars(Shell)}
    for name in TEMPLATES:
        asked = set(re.findall(r"\bshell\.(\w+)", (FOLDER / name).read_text()))
        assert asked <= known, name


def test_values_are_escaped() -> None:
    assert templates.from_string("{{ text }}").render(text="<b>'\"&") == "&lt;b&gt;&#39;&#34;&amp;"


def test_figures_of_a_table_are_escaped_together_and_their_names_lead_somewhere() -> None:
    rows = [("<a>", "1 & 2", "3"), ("b", "<4>", "5")]

    assert (
        figures(rows, ["/x?a=1&b=2", "/'\""])
        == '<tr><th scope="row"><a href="/x?a=1&amp;b=2">&lt;a&gt;</a></th><td>1 &amp; 2</td><td>3</td></tr>'
        '<tr><th scope="row"><a href="/&#39;&#34;">b</a></th><td>&lt;4&gt;</td><td>5</td></tr>'
    )
    assert figures([("a\n\1", ""), ("b", "4")]) == (
        '<tr><th scope="row">a\n\1</th><td></td></tr><tr><th scope="row">b</th><td>4</td></tr>'
    )
    assert figures([("b", "4")]) == '<tr><th scope="row">b</th><td>4</td></tr>'
    assert figures([]) == ""


def test_each_runs_under_the_content_security_policy() -> None:
    for name in TEMPLATES:
        text = (FOLDER / name).read_text()
        assert not re.search(r"<style|\sstyle=|\son\w+=|hx-on|js:|javascript:|\|\s*safe\b", text), name
        # A block of data is no script.
        assert not re.search(r"<script(?! type=\"application/json\")(?![^>]*\ssrc=)", text), name
        # htmx 4 names what it scrolls to apart: `show:top showTarget:#id`.
        assert "show:#" not in text, name
        # Filters of triggers are compiled from text, which the policy forbids.
        assert not re.search(r'hx-trigger="[^"]*\[', text), name


def test_each_partial_has_one_root_that_bears_its_name() -> None:
    for name in PARTIALS:
        text = (FOLDER / name).read_text()
        if name == ThemeButton.fragment:
            # The button is part of the frame as well, so its markup is a macro.
            text = (FOLDER / "ui/theme.html").read_text()
        else:
            assert "extends" not in text, name
        tags = re.findall(r"^<(?!/)\w+[^>]*", text, re.MULTILINE)
        roots = tags or re.findall(r"^  <(?!/)\w+[^>]*", text, re.MULTILINE)
        assert len(roots) == 1, name
        assert f'id="{Path(name).stem.removeprefix("_").replace("_", "-")}"' in roots[0], name


def pages_below(page: type[Page]) -> list[type[Page]]:
    """Return the classes of pages that are rendered; what several pages have in common names no fragment."""
    below = [one for sub in page.__subclasses__() for one in pages_below(sub)]
    return [page, *below] if hasattr(page, "fragment") else below


def test_every_page_names_templates_that_exist() -> None:
    pages = pages_below(Page)
    assert len(pages) > 5

    for page in pages:
        assert {page.template, page.fragment} <= set(TEMPLATES), page


def test_templates_of_a_page_are_in_the_folder_that_bears_its_features_name() -> None:
    for page in pages_below(Page):
        if page.__module__.startswith("webapp.pages."):
            feature = page.__module__.split(".")[2]
            own = {page.template, page.fragment} - {Page.template}
            assert {Path(name).parts[0] for name in own} == {feature}, page


def test_each_is_short_enough_to_be_read() -> None:
    lengths = {name: len((FOLDER / name).read_text().splitlines()) for name in TEMPLATES}

    assert {name: length for name, length in lengths.items() if length > 120} == {}
