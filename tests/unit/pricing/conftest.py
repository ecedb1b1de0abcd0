"""The installed price catalogue, read once."""

import pytest

from runtally.pricing.book import PriceBook
from runtally.pricing.catalogue import read_catalogue
from runtally.pricing.draft import CatalogueEntry
from tests.unit.pricing.candidates import candidates_of


@pytest.fixture(scope="session")
async def catalogue() -> list[CatalogueEntry]:
    return await read_catalogue()


@pytest.fixture(scope="session")
def catalogue_book(catalogue: list[CatalogueEntry]) -> PriceBook:
    return PriceBook(candidates_of(catalogue))
