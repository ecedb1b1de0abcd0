"""What Runtally brings along may be passed on: each distribution that it needs to run has a licence that says so.

`UPDATE_LICENCES=1 make test ARGS=tests/structure/test_licences.py` lists those that are not in `docs/licences.md` yet.
"""

import os
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from runtally.files import CHECKOUT

LIST = CHECKOUT / "docs" / "licences.md"
PERMISSIVE = (
    "MIT",
    "BSD",
    "Apache",
    "ISC",
    "PSF",
    "Python Software Foundation",
    "MPL-2.0",
    "Mozilla",
    "PostgreSQL",
    "0BSD",
)
# Its metadata has the text alone, which goes without its name.
KNOWN = {"altair": "BSD-3-Clause"}


def needed(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """The distribution and all that it asks for, extras aside; what another system needs is not installed."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key not in found:
        try:
            found[key] = distribution(name)
        except PackageNotFoundError:
            return found
        for asked in found[key].requires or []:
            if "extra ==" not in asked:
                needed(re.split(r"[^\w.-]", asked, maxsplit=1)[0], found)
    return found


def licence_of(one: Distribution) -> str:
    told = one.metadata.get_all("License-Expression") or one.metadata.get_all("License") or []
    classified = [line for line in one.metadata.get_all("Classifier") or [] if line.startswith("License ::")]
    return " ".join([*told, *classified])[:500]


def distributions() -> Iterator[tuple[str, Distribution]]:
    found = needed("runtally", {})
    del found["runtally"]
    yield from sorted(found.items())


def test_each_may_be_passed_on() -> None:
    licences = {name: KNOWN.get(name) or licence_of(one) for name, one in distributions()}
    assert len(licences) > 50

    refused = {
        name: licence
        for name, licence in licences.items()
        if "GPL" in licence or not any(word in licence for word in PERMISSIVE)
    }
    assert refused == {}


def test_each_is_listed() -> None:
    """Other systems and versions of Python need others, so the list may have more."""
    text = LIST.read_text()
    missing = [row for name, one in distributions() if (row := row_of(name, one)) not in text]
    if os.environ.get("UPDATE_LICENCES") == "1" and missing:
        head, _, rows = text.partition("|---|---|\n")
        listed = sorted([*rows.splitlines(), *missing])
        LIST.write_text(f"{head}|---|---|\n" + "".join(f"{line}\n" for line in listed))
        return

    assert missing == []


def row_of(name: str, one: Distribution) -> str:
    licence = KNOWN.get(name) or licence_of(one)
    return f"| [{name}](https://pypi.org/project/{name}/) | {next(word for word in PERMISSIVE if word in licence)} |"
