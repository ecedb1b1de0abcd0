"""An experiment of the test's own, in its own project."""

import uuid

import pytest


@pytest.fixture
def experiment_id() -> str:
    return f"experiment-{uuid.uuid4().hex[:12]}"
