"""The application without a database, of whose routes many tests are made: each process of the tests makes it once."""

from tests.serving import settings_for
from webapp.app import create_app

SETTINGS = settings_for("postgresql://nowhere")
APP = create_app(SETTINGS)
