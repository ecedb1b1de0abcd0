"""Each form that changes what is stored carries the version that it showed, so that nobody's change is undone unseen."""

import re
from pathlib import Path

TEMPLATES = Path(__file__).parents[2] / "templates"
FORM = re.compile(r"<form\b.*?</form>|{% call ui\.form\(.*?{% endcall %}", re.DOTALL)
POSTS = re.compile(r"<form\b.*method=\"post\"|{% call ui\.form\((?!.*method=\"get\")", re.DOTALL)
FIELD = re.compile(r"ui\.(text|select|day)\(|\b(rule|choice|box)\(|<(select|textarea)|<input(?![^>]*type=\"hidden\")")
# What shows nothing stored: these add something, ask for something, or compare with what is stored themselves.
WITHOUT = {
    "templates/account/_account.html": 2,  # Asks for the current password; a browser's own zone.
    "templates/account/_join.html": 1,
    "templates/account/_sign_in.html": 2,
    "templates/admin/_bills.html": 1,
    "templates/admin/_erasures.html": 1,
    "templates/admin/_team.html": 2,  # Puts a project into it; deletes.
    "templates/admin/_teams.html": 1,
    "templates/admin/_users.html": 1,  # Invites.
    "templates/prices/_bulk.html": 1,  # Its preview is the one that is scheduled.
    "templates/prices/_catalogue.html": 1,  # Leaves out what an admin changed.
    "templates/prices/_currency.html": 1,
    "templates/prices/_discounts.html": 1,
    "templates/prices/_file.html": 1,  # Its preview is the one that is applied.
    "templates/prices/_repricings.html": 1,
    "templates/project/_shared.html": 1,  # Asks for the password of a link.
    "templates/project/settings/general.html": 1,  # Deletes.
    "templates/project/settings/keys.html": 1,
    "templates/project/settings/notes.html": 1,
    "templates/project/settings/sharing.html": 1,
    "templates/project/settings/tracked_keys.html": 1,
    "templates/site/_trial_key.html": 1,
    "templates/ui/access_keys.html": 2,  # The lists of a new key: who made it, and how long the old one still works.
    "templates/ui/alerts.html": 1,
    "templates/ui/saved_views.html": 1,
}


def test_each_form_that_edits_carries_the_version_that_it_showed() -> None:
    without, versioned = dict[str, int](), 0
    for file in sorted(TEMPLATES.rglob("*.html")):
        for form in FORM.findall(file.read_text()):
            if not POSTS.match(form) or not FIELD.search(form):
                continue
            if "ui.version(" in form or "has_version=True" in form:
                versioned += 1
            else:
                name = file.relative_to(TEMPLATES.parent).as_posix()
                without[name] = without.get(name, 0) + 1

    assert without == WITHOUT
    assert versioned == 14
