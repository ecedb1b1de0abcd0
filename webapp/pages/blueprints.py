"""Pages: a folder for each feature, named as its folder of templates; a module has page dataclasses and their routes."""

from importlib import import_module
from pkgutil import walk_packages

from quart import Quart

from webapp import pages
from webapp.addresses import IdConverter, ProjectIdConverter, RowConverter, SegmentConverter

# With this module, so that processes are forked from one that has imported all of them.
MODULES = [import_module(found.name) for found in walk_packages(pages.__path__, f"{pages.__name__}.")]


def register(app: Quart) -> None:
    """Register the routes of each module of pages that has a blueprint."""
    app.url_map.converters["project_id"] = ProjectIdConverter
    app.url_map.converters["row"] = RowConverter
    app.url_map.converters["id"] = IdConverter
    app.url_map.converters["segment"] = SegmentConverter
    # A project id may have slashes side by side.
    app.url_map.merge_slashes = False
    for module in MODULES:
        if blueprint := getattr(module, "blueprint", None):
            app.register_blueprint(blueprint)
