"""The spellings of a model's name. Pure.

Only differences of writing are removed (case, paths, dates, regions), never the name of a product:
`gpt-4o-audio-preview` is no spelling of `gpt-4o`.
"""

import re
from collections.abc import Iterator

FREE = ":free"
# Suffixes of an aggregator for ways to serve the same model; not `:extended`, which has a price of its own.
_SERVED = re.compile(r":(batch|beta|exacto|floor|nitro|online|thinking)$")
_SAME_PRICE = "beta"

_COMPACT_DATE = re.compile(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$")
# OpenAI writes dates as month and day; year and month (`mistral-large-2407`) name different models.
_RELEASE = re.compile(
    r"(?:[-@]20\d\d(?:-?)(?:0[1-9]|1[0-2])(?:-?)(?:0[1-9]|[12]\d|3[01])"
    r"|-(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
    r"|[-@:]latest|@default)$"
)
# Prefixes and suffixes that one provider adds to names. They are removed one after the other.
_MANNERS = {
    "aws": (
        re.compile(r"^arn:aws[^/]*/"),
        re.compile(r"^(?:us|us-gov|eu|apac|ap|au|ca|in|jp|sa|global)\."),
        re.compile(r"-v\d+(?::\d+(?::\d+k)?)?$"),
        re.compile(r"^[a-z0-9]+\.(?=[a-z])"),
    ),
    "google": (
        re.compile(r"^(?:projects/[^/]+/locations/[^/]+/)?(?:publishers/[^/]+/)?models/"),
        re.compile(r"-00\d$"),
    ),
}


def spellings_of(dialect: str, model: str) -> Iterator[tuple[str, bool]]:
    """Yield the name in lower case, then with more and more parts removed that do not change the price.

    Each comes with whether its price is an estimate, because the way the model was served may change it.
    """
    name, estimated = model.lower(), False
    yield name, estimated
    if name.endswith(FREE):
        # Its own entry says that it is free; every other entry is a paid one.
        return
    if served := _SERVED.search(name):
        name, estimated = name[: served.start()], served[1] != _SAME_PRICE
        yield name, estimated
    for manner in _MANNERS.get(dialect, ()):
        shorter = manner.sub("", name)
        if shorter != name:
            name = shorter
            yield name, estimated
    if _COMPACT_DATE.search(name):
        yield _COMPACT_DATE.sub(r"-\1-\2-\3", name), estimated
    if _RELEASE.search(name):
        yield _RELEASE.sub("", name), estimated
