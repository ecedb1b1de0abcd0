"""Pages: a folder for each feature, named as its folder of templates; a module has page dataclasses and their routes."""

from quart import Quart

from webapp.converters import IdConverter, ProjectIdConverter, RowConverter, SegmentConverter
from webapp.pages.account import account, join, sign_in, sign_in_openid
from webapp.pages.admin import audit, bills, clients, health, relay, users
from webapp.pages.admin import budgets as admin_budgets
from webapp.pages.agents import agents
from webapp.pages.breakdown import breakdown, lines
from webapp.pages.compare import compare
from webapp.pages.experiments import badges, comparison, experiment, experiments
from webapp.pages.overview import overview
from webapp.pages.panel import chart_data, why
from webapp.pages.prices import (
    bulk,
    catalogue,
    covered,
    discounts,
    file,
    forms,
    price,
    prices,
    repricing,
    row,
    tester,
)
from webapp.pages.project import (
    alerts,
    budgets,
    costs,
    embeds,
    general,
    keys,
    names,
    report,
    shared_links,
    tracked_keys,
    views,
)
from webapp.pages.quality import cache, errors, speed
from webapp.pages.runs import run, runs, send_runs
from webapp.pages.sessions import session, sessions
from webapp.pages.site import appearance, find, guides, reference


def register(app: Quart) -> None:
    app.url_map.converters["project_id"] = ProjectIdConverter
    app.url_map.converters["row"] = RowConverter
    app.url_map.converters["id"] = IdConverter
    app.url_map.converters["segment"] = SegmentConverter
    # A project id may have slashes side by side.
    app.url_map.merge_slashes = False
    for module in (
        *(overview, report, breakdown, lines, compare, why, chart_data, embeds),
        *(costs, keys, tracked_keys, names, alerts, shared_links, general, budgets, views),
        *(runs, run, send_runs),
        *(sessions, session, agents),
        *(errors, speed, cache),
        *(experiments, experiment, comparison, badges),
        *(prices, forms, bulk, covered, row, discounts, tester, catalogue, file, repricing, price),
        *(users, bills, admin_budgets, audit, clients, relay, health),
        *(account, sign_in, sign_in_openid, join),
        *(appearance, find, guides, reference),
    ):
        app.register_blueprint(module.blueprint)
