"""Has the specs of charts built, for all servers that are forked from the process that imports this."""

from webapp.charts.specs import built

built()
