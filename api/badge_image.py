"""Render badges as SVG."""

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from runtally.experiments.badge import Badge, Style, badge_of
from runtally.experiments.verdict import Outcome
from runtally.files import ROOT

# Not the pages' environment, which renders asynchronously and has other globals.
_templates = Environment(
    loader=FileSystemLoader(ROOT / "templates" / "badges"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def svg_of(outcome: Outcome, label: str, style: Style) -> bytes:
    """The badge of a verdict."""
    return drawn(badge_of(outcome, label, style))


def drawn(badge: Badge) -> bytes:
    """The badge, drawn by the template of its style."""
    return _templates.get_template(f"{badge.style}.svg").render(badge=badge).encode()
