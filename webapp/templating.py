"""The Jinja environment: what templates may use besides their page."""

from jinja2 import StrictUndefined
from quart import Quart

from runtally import __version__
from webapp import formats

FILTERS = {"clock": formats.clock, "count": formats.count}


def set_up(app: Quart) -> None:
    """A name that is missing is an error, not an empty place on the page."""
    app.jinja_options = {**app.jinja_options, "undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    app.jinja_env.filters.update(FILTERS)
    app.jinja_env.globals["version"] = __version__
