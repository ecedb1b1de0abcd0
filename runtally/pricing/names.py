"""The ways to write one model's name. Pure.

Only writing is undone here (case, paths, dates, regions), never the name of a product: `gpt-4o-audio-preview` is not a
way to write `gpt-4o`.
"""

import re
from collections.abc import Iterator

_FREE = ":free"
# Ways in which an aggregator may serve the same model; not `:extended`, whose price is another one.
_SERVED = re.compile(r":(batch|beta|exacto|floor|nitro|online|thinking)$")
_SAME_PRICE = "beta"

_COMPACT_DATE = re.compile(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$")
# Month and day alone are how OpenAI writes a date; year and month (`mistral-large-2407`) name different models.
_RELEASE = re.compile(
    r"(?:[-@]20\d\d(?:-?)(?:0[1-9]|1[0-2])(?:-?)(?:0[1-9]|[12]\d|3[01])"
    r"|-(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
    r"|[-@:]latest|@default)$"
)
# What stands before the name, and what after it, in the manner of one provider. Undone one after the other.
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
    """The name in lower case, then without more and more of what does not change the price.

    Beside each whether its price is an estimate, because the way in which the model was served may change it.
    """
    name, estimated = model.lower(), False
    yield name, estimated
    if name.endswith(_FREE):
        # Its own entry says that it costs nothing; every other entry is a paid one.
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
