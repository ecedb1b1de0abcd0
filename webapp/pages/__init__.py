"""Pages: one module for each area, with its page dataclasses and its routes."""

from quart import Quart

from webapp.links import IdConverter, ProjectIdConverter, RowConverter, SegmentConverter
from webapp.pages import (
    account,
    admin_audit,
    admin_health,
    admin_relay,
    admin_users,
    appearance,
    badges,
    breakdown,
    chart_data,
    comparison,
    embeds,
    experiment,
    experiments,
    join,
    overview,
    price,
    price_catalogue,
    price_covered,
    price_discounts,
    price_file,
    price_forms,
    price_row,
    price_tester,
    prices,
    prices_unpriced,
    project,
    project_alerts,
    project_budget,
    project_costs,
    project_keys,
    project_settings,
    reference,
    repricing,
    run,
    runs,
    send_runs,
    sign_in,
    sign_in_openid,
)


def register(app: Quart) -> None:
    app.url_map.converters["project_id"] = ProjectIdConverter
    app.url_map.converters["row"] = RowConverter
    app.url_map.converters["id"] = IdConverter
    app.url_map.converters["segment"] = SegmentConverter
    # A project id may have slashes side by side.
    app.url_map.merge_slashes = False
    for module in (
        overview,
        project,
        runs,
        run,
        project_costs,
        project_settings,
        send_runs,
        project_keys,
        project_budget,
        project_alerts,
        chart_data,
        breakdown,
        embeds,
        sign_in,
        sign_in_openid,
        join,
        account,
        prices,
        price_forms,
        price_covered,
        price_row,
        prices_unpriced,
        price_discounts,
        price_tester,
        price_catalogue,
        price_file,
        repricing,
        price,
        admin_users,
        admin_audit,
        admin_relay,
        admin_health,
        appearance,
        reference,
        experiments,
        experiment,
        comparison,
        badges,
    ):
        app.register_blueprint(module.blueprint)
