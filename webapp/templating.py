"""The templates, and what they may use besides their page.

They do no IO, so they are not Quart's: in an async environment every loop and macro is a coroutine, at three times the
cost.
"""

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from quart import url_for

from runtally import __version__
from runtally.settings import CHECKOUT
from webapp import formats
from webapp.assets import asset_url

FOLDER = CHECKOUT / "templates"

templates = Environment(
    loader=FileSystemLoader(FOLDER),
    autoescape=True,
    # A name that is missing is an error, not an empty place on the page.
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    # Code and templates change together, when the service starts.
    auto_reload=False,
)
templates.globals |= {"asset": asset_url, "url_for": url_for, "version": __version__}
templates.filters |= {"clock": formats.clock, "count": formats.count, "day": formats.day}
