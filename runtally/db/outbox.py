"""The part of a statement that queues runs for the relay: whoever stores or changes runs does it in that same statement."""


def arriving(runs: str, *, now: str, when: str) -> str:
    """`INSERT` of the rows (project_id, id) of `runs`, which were stored a moment ago, if the parameter `when` is true.

    One row a project, which the relay takes apart.
    """
    return f"""
     INSERT INTO outbox_arrivals (project_id, queued_at, run_ids)
          SELECT project_id, {now}, array_agg(id)
            FROM {runs}
           WHERE {when}
        GROUP BY project_id"""


def queueing(runs: str, *, now: str, when: str) -> str:
    """`INSERT` into the outbox of the rows (project_id, id, version) of `runs`, due at once, if the parameter `when` is true.

    For runs that changed: one that is queued already is queued again from the start, since what is on its way is then an
    older version. Rows must come in the order of the key, in which everybody locks them.
    """
    return f"""
     INSERT INTO outbox (project_id, run_id, version, queued_at, due_at)
          SELECT project_id, id, version, {now}, {now}
            FROM {runs}
           WHERE {when}
     ON CONFLICT (project_id, run_id) DO UPDATE
             SET version = excluded.version,
                 due_at = excluded.due_at,
                 attempts = 0,
                 parked_at = NULL,
                 last_error = NULL"""
