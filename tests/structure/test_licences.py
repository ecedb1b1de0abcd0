"""What Runtally brings along may be passed on: each distribution that it needs to run has a licence that says so."""

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution

import pytest

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
