"""What Runtally brings along may be passed on: each distribution that it needs to run has a licence that says so.

`UPDATE_LICENCES=1 make test ARGS=tests/structure/test_licences.py` lists those that are not in `docs/licences.md` yet.
"""

import os
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution

import pytest

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


@pytest.mark.parametrize(("name", "one"), [pytest.param(*pair, id=pair[0]) for pair in distributions()])
def test_it_may_be_passed_on(name: str, one: Distribution) -> None:
    licence = KNOWN.get(name) or licence_of(one)

    assert any(word in licence for word in PERMISSIVE), f"{name}: {licence or 'no licence told'}"
    assert "GPL" not in licence


@pytest.mark.parametrize(("name", "one"), [pytest.param(*pair, id=pair[0]) for pair in distributions()])
def test_it_is_listed(name: str, one: Distribution) -> None:
    """Other systems and versions of Python need others, so the list may have more."""
    licence = KNOWN.get(name) or licence_of(one)
    row = f"| [{name}](https://pypi.org/project/{name}/) | {next(word for word in PERMISSIVE if word in licence)} |"
    text = LIST.read_text()
    if os.environ.get("UPDATE_LICENCES") == "1" and row not in text:
        head, _, rows = text.partition("|---|---|\n")
        listed = sorted([*rows.splitlines(), row])
        LIST.write_text(f"{head}|---|---|\n" + "".join(f"{line}\n" for line in listed))
        return

    assert row in text
