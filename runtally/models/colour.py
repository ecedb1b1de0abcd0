"""The colours of values in charts."""

from datetime import datetime

from sqlalchemy import SmallInteger
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, column


class Colour(SQLModel, table=True):
    """The colour of a value of a dimension, such as a model: chosen when a chart first shows the value, and kept."""

    __tablename__ = "colours"

    dimension: str = column("What the value is one of, as queries name it.", key=True)
    value: str = column("The value.", key=True)
    number: int = column("Number of the colour, from 0 on.", SmallInteger)
    given_at: datetime = column("When it was given.", Timestamp)
