"""Where a project's settings are; the forms on that page post below it."""

PATH = "/projects/<project_id:project_id>/settings"
