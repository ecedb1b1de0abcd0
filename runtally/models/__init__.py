"""All tables: importing this package registers the whole schema."""

from sqlmodel import SQLModel

import runtally.models.alert
import runtally.models.audit
import runtally.models.budget
import runtally.models.cell
import runtally.models.dimension
import runtally.models.experiment
import runtally.models.limit
import runtally.models.otlp
import runtally.models.price
import runtally.models.project
import runtally.models.reporting
import runtally.models.rollup
import runtally.models.run
import runtally.models.team
import runtally.models.user  # noqa: F401  # Each import registers its tables.

metadata = SQLModel.metadata
