"""The background jobs of a process."""

from runtally.jobs.loop import Job
from runtally.reporting.relay import Relay

# A run is in the reporting table about this long after it was stored.
RELAY_SECONDS = 1.0


def relay_job(relay: Relay) -> Job:
    return Job("relay", relay.work, RELAY_SECONDS)
