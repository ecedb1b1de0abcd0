"""The part of a statement that queues runs for the relay: whoever stores or changes runs does it in that same statement."""


def queueing(runs: str, *, now: str, when: str) -> str:
    """`INSERT` into the outbox of the rows (project_id, id, version) of `runs`, due at once, if the parameter `when` is true.

    A run that is queued already is queued again from the start: what is on its way is then an older version. Rows must
    come in the order of the key, in which everybody locks them.
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
