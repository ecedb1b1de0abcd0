"""SQL of the runs of one session, in their order, with what it had cost after each."""

from runtally.runs.queries import LISTED
from runtally.runs.run_group_queries import FIGURES, NAMES

SELECT_COUNT = """
SELECT count(*) FROM (SELECT FROM runs WHERE project_id = $1 AND session_id = $2 LIMIT $3) AS counted
"""
SELECT_WHOLE = f"""
SELECT $2 AS id,
       {FIGURES},
       {NAMES},
       coalesce(sum(input_tokens), 0) AS input_tokens,
       coalesce(sum(output_tokens), 0) AS output_tokens,
       coalesce(sum(cached_input_tokens), 0) AS cached_input_tokens,
       count(DISTINCT nullif(trace_id, '')) AS traces
  FROM runs
 WHERE project_id = $1
   AND session_id = $2
"""
SELECT_STEPS = f"""
  SELECT {LISTED},
         coalesce(sum(cost_usd) OVER in_time, 0) AS total_usd
    FROM runs
   WHERE project_id = $1
     AND session_id = $2
  WINDOW in_time AS (ORDER BY occurred_at, id)
ORDER BY occurred_at, id
   LIMIT $3
  OFFSET $4
"""
SELECT_POINTS = """
  SELECT number, occurred_at, total_usd
    FROM (SELECT row_number() OVER in_time AS number,
                 count(*) OVER () AS steps,
                 occurred_at,
                 coalesce(sum(cost_usd) OVER in_time, 0) AS total_usd
            FROM runs
           WHERE project_id = $1
             AND session_id = $2
          WINDOW in_time AS (ORDER BY occurred_at, id)) AS every_step
   WHERE number % (1 + (steps - 1) / $3) = 0
      OR number IN (1, steps)
ORDER BY number
"""
