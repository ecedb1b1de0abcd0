"""The path of a project's settings, below which their forms post."""

PATH = "/projects/<project_id:project_id>/settings"
