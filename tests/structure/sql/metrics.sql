-- NUMBER
floor(date_part('epoch', {moment} - $7::timestamptz) / $8::int)::int

-- REST
projects
         JOIN runs ON runs.project_id = projects.id
   WHERE {since}::timestamptz < $6::timestamptz
     AND ($1 = '' OR projects.id = $1)
     AND runs.occurred_at >= {since}
     AND runs.occurred_at < $6

-- STORED
unnest({parts}) AS parts (grain, since, until)
         JOIN {table}
           ON {table}.project_id = {project}
          AND {table}.grain = parts.grain
          AND {table}.bucket >= parts.since
          AND {table}.bucket < parts.until

-- TALLIED_COLUMNS
runs, errors, timeouts, unpriced, estimated, cost_usd, input_tokens, output_tokens

-- TALLY
sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated

-- LATENCY
CASE WHEN latency_ms < 500000000 THEN (2 * latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END

-- SELECT_CELLS
  SELECT number, provider, model, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated
    FROM (SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, provider,
            model, runs, errors, timeouts, unpriced, estimated, cost_usd, input_tokens, output_tokens
            FROM unnest($2::smallint[], $3::timestamptz[], $4::timestamptz[]) AS parts (grain, since, until)
         JOIN rollups
           ON rollups.project_id = $1
          AND rollups.grain = parts.grain
          AND rollups.bucket >= parts.since
          AND rollups.bucket < parts.until
       UNION ALL
          SELECT floor(date_part('epoch', occurred_at - $7::timestamptz) / $8::int)::int, provider, model,
                  sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(1 * cost_usd), 0) AS cost_usd,
         coalesce(sum(1 * input_tokens), 0) AS input_tokens,
         coalesce(sum(1 * output_tokens), 0) AS output_tokens
            FROM projects
         JOIN runs ON runs.project_id = projects.id
   WHERE $5::timestamptz < $6::timestamptz
     AND ($1 = '' OR projects.id = $1)
     AND runs.occurred_at >= $5
     AND runs.occurred_at < $6
        GROUP BY 1, 2, 3) AS cells
GROUP BY 1, 2, 3

-- SELECT_SUMS
  SELECT number, NULL AS provider, NULL AS model, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated
    FROM (SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, runs, errors,
            timeouts, unpriced, estimated, cost_usd, input_tokens, output_tokens
            FROM unnest($2::smallint[], $3::timestamptz[], $4::timestamptz[]) AS parts (grain, since, until)
         JOIN rollup_totals
           ON rollup_totals.project_id = $1
          AND rollup_totals.grain = parts.grain
          AND rollup_totals.bucket >= parts.since
          AND rollup_totals.bucket < parts.until
       UNION ALL
          SELECT floor(date_part('epoch', occurred_at - $7::timestamptz) / $8::int)::int, sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(1 * cost_usd), 0) AS cost_usd,
         coalesce(sum(1 * input_tokens), 0) AS input_tokens,
         coalesce(sum(1 * output_tokens), 0) AS output_tokens
            FROM projects
         JOIN runs ON runs.project_id = projects.id
   WHERE $5::timestamptz < $6::timestamptz
     AND ($1 = '' OR projects.id = $1)
     AND runs.occurred_at >= $5
     AND runs.occurred_at < $6
        GROUP BY 1) AS buckets
GROUP BY 1
   UNION ALL
  SELECT NULL, provider, model, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated
    FROM (SELECT provider, model, runs, errors, timeouts, unpriced, estimated, cost_usd, input_tokens,
            output_tokens
            FROM unnest($9::smallint[], $10::timestamptz[], $11::timestamptz[]) AS parts (grain, since, until)
         JOIN rollups
           ON rollups.project_id = $1
          AND rollups.grain = parts.grain
          AND rollups.bucket >= parts.since
          AND rollups.bucket < parts.until
       UNION ALL
          SELECT provider, model, sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(1 * cost_usd), 0) AS cost_usd,
         coalesce(sum(1 * input_tokens), 0) AS input_tokens,
         coalesce(sum(1 * output_tokens), 0) AS output_tokens
            FROM projects
         JOIN runs ON runs.project_id = projects.id
   WHERE $12::timestamptz < $6::timestamptz
     AND ($1 = '' OR projects.id = $1)
     AND runs.occurred_at >= $12
     AND runs.occurred_at < $6
        GROUP BY 1, 2) AS models
GROUP BY provider, model

-- SELECT_SKETCHES
  SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, latencies, counts
    FROM unnest($2::smallint[], $3::timestamptz[], $4::timestamptz[]) AS parts (grain, since, until)
         JOIN latency_sketches
           ON latency_sketches.project_id = $1
          AND latency_sketches.grain = parts.grain
          AND latency_sketches.bucket >= parts.since
          AND latency_sketches.bucket < parts.until
   UNION ALL
  SELECT number, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency)
    FROM (SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, latency,
            sum(runs)::int AS runs
            FROM latency_deltas CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
           WHERE project_id = $1 AND bucket >= $7 AND bucket < $5
        GROUP BY 1, 2) AS waiting
GROUP BY 1
   UNION ALL
  SELECT number, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency)
    FROM (SELECT floor(date_part('epoch', occurred_at - $7::timestamptz) / $8::int)::int AS number, CASE WHEN
            latency_ms < 500000000 THEN (2 * latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END AS latency,
                      count(*)::int AS runs
            FROM projects
         JOIN runs ON runs.project_id = projects.id
   WHERE $5::timestamptz < $6::timestamptz
     AND ($1 = '' OR projects.id = $1)
     AND runs.occurred_at >= $5
     AND runs.occurred_at < $6
             AND latency_ms IS NOT NULL
        GROUP BY 1, 2) AS binned
GROUP BY 1

-- SELECT_SKETCHES_OF_ALL
  SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, latencies, counts
    FROM unnest($2::smallint[], $3::timestamptz[], $4::timestamptz[]) AS parts (grain, since, until)
         JOIN latency_sketches
           ON latency_sketches.project_id = $1
          AND latency_sketches.grain = parts.grain
          AND latency_sketches.bucket >= parts.since
          AND latency_sketches.bucket < parts.until
   UNION ALL
  SELECT number, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency)
    FROM (SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, latency,
            sum(runs)::int AS runs
            FROM latency_deltas CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
           WHERE TRUE AND bucket >= $7 AND bucket < $5
        GROUP BY 1, 2) AS waiting
GROUP BY 1
   UNION ALL
  SELECT number, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency)
    FROM (SELECT floor(date_part('epoch', occurred_at - $7::timestamptz) / $8::int)::int AS number, CASE WHEN
            latency_ms < 500000000 THEN (2 * latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END AS latency,
                      count(*)::int AS runs
            FROM projects
         JOIN runs ON runs.project_id = projects.id
   WHERE $5::timestamptz < $6::timestamptz
     AND ($1 = '' OR projects.id = $1)
     AND runs.occurred_at >= $5
     AND runs.occurred_at < $6
             AND latency_ms IS NOT NULL
        GROUP BY 1, 2) AS binned
GROUP BY 1

-- SELECT_COSTS_OF_ALL_TIME
  SELECT provider,
         model,
         coalesce(sum(cost_usd) FILTER (WHERE project_id = ''), 0) AS everywhere_usd,
         coalesce(sum(cost_usd) FILTER (WHERE project_id = $1), 0) AS here_usd
    FROM rollups
   WHERE project_id IN ('', $1)
     AND grain = 360
GROUP BY 1, 2
ORDER BY 3 DESC, 1, 2

-- SELECT_VERSION
SELECT md5(string_agg(xmin::text, ' ' ORDER BY bucket))
  FROM rollup_totals
 WHERE project_id = $1
   AND grain = 1440
   AND bucket > $2::timestamptz - interval '1440 minutes'

-- SELECT_DROPPED_BEFORE
SELECT max(dropped_before)
  FROM projects
 WHERE ($1::text IS NULL OR id = $1)

-- SELECT_TALLIES
SELECT projects.id AS project_id,
       held.*
  FROM projects
       CROSS JOIN LATERAL (
            SELECT array_agg(number) AS numbers,
                   array_agg(cost_usd::float8) AS costs,
                   sum(runs)::bigint AS runs,
       sum(errors + timeouts)::bigint AS failed,
       sum(unpriced)::bigint AS unpriced,
       sum(cost_usd) AS cost_usd,
       sum(input_tokens) AS tokens_in,
       sum(output_tokens) AS tokens_out,
       sum(timeouts)::bigint AS timeouts,
       sum(estimated)::bigint AS estimated
              FROM (SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, runs,
                      errors, timeouts, unpriced, estimated, cost_usd, input_tokens, output_tokens
                      FROM unnest($2::smallint[], $3::timestamptz[], $4::timestamptz[]) AS parts (grain,
                              since, until)
       JOIN rollup_totals
         ON rollup_totals.project_id = projects.id
        AND rollup_totals.grain = parts.grain
        AND rollup_totals.bucket >= parts.since
        AND rollup_totals.bucket < parts.until
                 UNION ALL
                    SELECT floor(date_part('epoch', occurred_at - $7::timestamptz) / $8::int)::int, sum(1) AS
                            runs,
       coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
       coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
       coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
       coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
       coalesce(sum(1 * cost_usd), 0) AS cost_usd,
       coalesce(sum(1 * input_tokens), 0) AS input_tokens,
       coalesce(sum(1 * output_tokens), 0) AS output_tokens
                      FROM runs
                     WHERE $5::timestamptz < $6::timestamptz
                       AND project_id = projects.id
                       AND occurred_at >= $5
                       AND occurred_at < $6
                  GROUP BY 1) AS buckets) AS held
 WHERE ($1 = '' OR projects.id = $1)
   AND held.runs > 0

-- SELECT_TALLIES_OF_MODELS
  SELECT project_id,
         array_agg(number) AS numbers,
         array_agg(cost_usd::float8) AS costs,
         sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated
    FROM (SELECT project_id, number, sum(runs) AS runs, sum(errors) AS errors, sum(timeouts) AS timeouts,
            sum(unpriced) AS unpriced, sum(estimated) AS estimated, sum(cost_usd) AS cost_usd,
            sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
            FROM (SELECT projects.id AS project_id, floor(date_part('epoch', bucket - $7::timestamptz) /
                    $8::int)::int AS number, runs, errors, timeouts, unpriced, estimated, cost_usd,
                    input_tokens, output_tokens
                    FROM projects
                         CROSS JOIN unnest($2::smallint[], $3::timestamptz[], $4::timestamptz[]) AS parts
                                 (grain, since, until)
         JOIN rollups
           ON rollups.project_id = projects.id
          AND rollups.grain = parts.grain
          AND rollups.bucket >= parts.since
          AND rollups.bucket < parts.until
                   WHERE ($1 = '' OR projects.id = $1)
                     AND ($9::text IS NULL OR model = $9) AND ($10::text IS NULL OR provider = $10)
               UNION ALL
                  SELECT project_id, floor(date_part('epoch', occurred_at - $7::timestamptz) / $8::int)::int,
                          sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(1 * cost_usd), 0) AS cost_usd,
         coalesce(sum(1 * input_tokens), 0) AS input_tokens,
         coalesce(sum(1 * output_tokens), 0) AS output_tokens
                    FROM projects
         JOIN runs ON runs.project_id = projects.id
   WHERE $5::timestamptz < $6::timestamptz
     AND ($1 = '' OR projects.id = $1)
     AND runs.occurred_at >= $5
     AND runs.occurred_at < $6
                     AND ($9::text IS NULL OR model = $9) AND ($10::text IS NULL OR provider = $10)
                GROUP BY 1, 2) AS cells
        GROUP BY 1, 2) AS buckets
GROUP BY 1

-- SELECT_SPENDING
SELECT projects.id AS project_id,
       held.*
  FROM projects
       CROSS JOIN LATERAL (
            SELECT coalesce(sum(cost_usd) FILTER (WHERE number = 0), 0), coalesce(sum(cost_usd) FILTER (WHERE
                    number = 1), 0), coalesce(sum(cost_usd) FILTER (WHERE number = 2), 0)
              FROM unnest($2::smallint[], $3::smallint[], $4::timestamptz[], $5::timestamptz[])
                   AS parts (number, grain, since, until)
              JOIN rollup_totals
                ON rollup_totals.project_id = projects.id
               AND rollup_totals.grain = parts.grain
               AND rollup_totals.bucket >= parts.since
               AND rollup_totals.bucket < parts.until) AS held
 WHERE ($1 = '' OR projects.id = $1)

-- SELECT_SPENDING_OF_MODELS
  SELECT projects.id AS project_id,
         coalesce(sum(cost_usd) FILTER (WHERE number = 0), 0), coalesce(sum(cost_usd) FILTER (WHERE number =
                 1), 0), coalesce(sum(cost_usd) FILTER (WHERE number = 2), 0)
    FROM projects
         CROSS JOIN unnest($2::smallint[], $3::smallint[], $4::timestamptz[], $5::timestamptz[])
                     AS parts (number, grain, since, until)
                JOIN rollups
                  ON rollups.project_id = projects.id
                 AND rollups.grain = parts.grain
                 AND rollups.bucket >= parts.since
                 AND rollups.bucket < parts.until
   WHERE ($1 = '' OR projects.id = $1)
     AND ($6::text IS NULL OR model = $6)
     AND ($7::text IS NULL OR provider = $7)
GROUP BY 1

-- SELECT_PROJECTS
  SELECT projects.id,
         projects.name,
         projects.archived_at IS NOT NULL AS is_archived,
         CASE WHEN dropped_before IS NULL THEN first.occurred_at
              ELSE (SELECT bucket
            FROM rollups
           WHERE project_id = projects.id
             AND grain = 360
        ORDER BY bucket ASC
           LIMIT 1) END AS first_run_at,
         coalesce(last.occurred_at, (SELECT bucket
            FROM rollups
           WHERE project_id = projects.id
             AND grain = 360
        ORDER BY bucket DESC
           LIMIT 1)) AS last_run_at,
         projects.dropped_before
    FROM projects
         LEFT JOIN LATERAL (SELECT occurred_at
                              FROM runs
                             WHERE project_id = projects.id
                          ORDER BY occurred_at
                             LIMIT 1) AS first ON TRUE
         LEFT JOIN LATERAL (SELECT occurred_at
                              FROM runs
                             WHERE project_id = projects.id
                          ORDER BY occurred_at DESC
                             LIMIT 1) AS last ON TRUE
   WHERE ($1::text IS NULL OR projects.id = $1)
ORDER BY projects.name, projects.id

-- cells: every filter
  SELECT number, provider, model, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated
    FROM (SELECT floor(date_part('epoch', occurred_at - $2::timestamptz) / 3600)::int AS number, provider,
            model, sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(1 * cost_usd), 0) AS cost_usd,
         coalesce(sum(1 * input_tokens), 0) AS input_tokens,
         coalesce(sum(1 * output_tokens), 0) AS output_tokens
            FROM runs
           WHERE runs.project_id = $1
             AND occurred_at >= $2
             AND occurred_at < $3
             AND model = $4
             AND provider = $5
             AND experiment_id = $6
             AND status = 'error'
        GROUP BY 1, 2, 3) AS cells
GROUP BY 1, 2, 3

-- cells: those that failed
  SELECT number, provider, model, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated
    FROM (SELECT floor(date_part('epoch', occurred_at - $2::timestamptz) / 3600)::int AS number, provider,
            model, sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(1 * cost_usd), 0) AS cost_usd,
         coalesce(sum(1 * input_tokens), 0) AS input_tokens,
         coalesce(sum(1 * output_tokens), 0) AS output_tokens
            FROM runs
           WHERE runs.project_id = $1
             AND occurred_at >= $2
             AND occurred_at < $3
             AND status <> 'success'
        GROUP BY 1, 2, 3) AS cells
GROUP BY 1, 2, 3

-- sketches: a model
  SELECT number, array_agg(latency ORDER BY latency) AS latencies, array_agg(runs ORDER BY latency) AS counts
    FROM (SELECT floor(date_part('epoch', occurred_at - $2::timestamptz) / 3600)::int AS number, CASE WHEN
            latency_ms < 500000000 THEN (2 * latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END AS latency,
                      count(*)::int AS runs
            FROM runs
           WHERE runs.project_id = $1
             AND occurred_at >= $2
             AND occurred_at < $3
             AND model = $4
             AND latency_ms IS NOT NULL
        GROUP BY 1, 2) AS binned
GROUP BY 1

-- experiments: a status
  SELECT experiment_id, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated
    FROM (SELECT experiment_id, sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(1 * cost_usd), 0) AS cost_usd,
         coalesce(sum(1 * input_tokens), 0) AS input_tokens,
         coalesce(sum(1 * output_tokens), 0) AS output_tokens
            FROM runs
           WHERE runs.project_id = $1
             AND occurred_at >= $2
             AND occurred_at < $3
             AND status = 'timeout'
             AND experiment_id IS NOT NULL
        GROUP BY 1) AS cells
GROUP BY 1
