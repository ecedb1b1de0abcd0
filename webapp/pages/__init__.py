"""Pages: one module for each area, with its page dataclasses and its routes."""

from quart import Quart

from webapp.links import ProjectIdConverter
from webapp.pages import appearance, charts, overview, project, reference, sign_in


def register(app: Quart) -> None:
    app.url_map.converters["project_id"] = ProjectIdConverter
    # A project id may have slashes side by side.
    app.url_map.merge_slashes = False
    for module in (overview, project, charts, sign_in, appearance, reference):
        app.register_blueprint(module.blueprint)
