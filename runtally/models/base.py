"""Column types and naming shared by all tables."""

from typing import Any

from sqlalchemy import BigInteger, DateTime, Identity, MetaData, Numeric, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import Field, SQLModel

from runtally.money import PRICE_DECIMALS, USD_DECIMALS

Timestamp = DateTime(timezone=True)
Usd = Numeric(38, USD_DECIMALS)
PricePerMillion = Numeric(14, PRICE_DECIMALS)
Json = JSONB(none_as_null=True)
TextArray = ARRAY(Text)

# Rows are checked where they are received, and by the database. Pydantic's validators of tables would never run, and
# building them takes a tenth of a start.
SQLModel.model_config["defer_build"] = True

# Names of constraints that are the same in every database, so a migration can name what it changes.
SQLModel.metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def column(  # noqa: PLR0913  # One short line per column of a table is worth an argument each.
    comment: str,
    sa_type: Any = Text,  # noqa: ANN401  # SQLAlchemy types are classes or instances.
    *,
    default: Any = ...,  # noqa: ANN401  # Typed like `sqlmodel.Field`, whose shorthand this is.
    key: bool = False,
    name: str | None = None,
    server_default: str | None = None,
) -> Any:  # noqa: ANN401
    """Declare a column with its comment; `default=None` makes it nullable."""
    options: dict[str, Any] = {"comment": comment}
    if name:
        options["name"] = name
    if server_default:
        options["server_default"] = text(server_default)
    return Field(default, sa_type=sa_type, primary_key=key, sa_column_kwargs=options)


def identity() -> Any:  # noqa: ANN401  # Typed like `sqlmodel.Field`.
    """Declare a bigint primary key that the database counts up."""
    return Field(
        None,
        sa_type=BigInteger,
        primary_key=True,
        sa_column_args=[Identity()],
        sa_column_kwargs={"comment": "Number of the row."},
    )
