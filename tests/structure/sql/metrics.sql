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

-- SUM_OF_TALLIES
sum(runs)::bigint, sum(failed)::bigint, sum(unpriced)::bigint, sum(cost_usd), sum(tokens_in), sum(tokens_out),
        sum(timeouts)::bigint, sum(estimated)::bigint, sum(error_cost_usd), sum(timeout_cost_usd)

-- TALLIED_COLUMNS
runs, errors, timeouts, unpriced, estimated, cost_usd, input_tokens, output_tokens, error_cost_usd,
        timeout_cost_usd

-- TALLY
sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated,
         sum(error_cost_usd) AS error_cost_usd,
         sum(timeout_cost_usd) AS timeout_cost_usd

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
         sum(estimated)::bigint AS estimated,
         sum(error_cost_usd) AS error_cost_usd,
         sum(timeout_cost_usd) AS timeout_cost_usd
    FROM (SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, provider,
            model, runs, errors, timeouts, unpriced, estimated, cost_usd, input_tokens, output_tokens,
            error_cost_usd, timeout_cost_usd
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
         coalesce(sum(cost_usd), 0) AS cost_usd,
         coalesce(sum(input_tokens), 0) AS input_tokens,
         coalesce(sum(output_tokens), 0) AS output_tokens,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'error'), 0) AS error_cost_usd,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd
            FROM projects
         JOIN runs ON runs.project_id = projects.id
   WHERE $5::timestamptz < $6::timestamptz
     AND ($1 = '' OR projects.id = $1)
     AND runs.occurred_at >= $5
     AND runs.occurred_at < $6
        GROUP BY 1, 2, 3) AS cells
GROUP BY 1, 2, 3

-- SELECT_COSTS
WITH cells AS MATERIALIZED (
  SELECT number, provider, model, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated,
         sum(error_cost_usd) AS error_cost_usd,
         sum(timeout_cost_usd) AS timeout_cost_usd
    FROM (SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, provider,
            model, runs, errors, timeouts, unpriced, estimated, cost_usd, input_tokens, output_tokens,
            error_cost_usd, timeout_cost_usd
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
         coalesce(sum(cost_usd), 0) AS cost_usd,
         coalesce(sum(input_tokens), 0) AS input_tokens,
         coalesce(sum(output_tokens), 0) AS output_tokens,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'error'), 0) AS error_cost_usd,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd
            FROM projects
         JOIN runs ON runs.project_id = projects.id
   WHERE $5::timestamptz < $6::timestamptz
     AND ($1 = '' OR projects.id = $1)
     AND runs.occurred_at >= $5
     AND runs.occurred_at < $6
        GROUP BY 1, 2, 3) AS cells
GROUP BY 1, 2, 3
)
  SELECT number, provider, model, NULL, NULL, NULL, cost_usd, NULL, NULL, NULL, NULL, NULL, NULL
    FROM cells
   UNION ALL
  SELECT number, NULL, NULL, sum(runs)::bigint, sum(failed)::bigint, sum(unpriced)::bigint, sum(cost_usd),
          sum(tokens_in), sum(tokens_out), sum(timeouts)::bigint, sum(estimated)::bigint, sum(error_cost_usd),
          sum(timeout_cost_usd)
    FROM cells
GROUP BY number
   UNION ALL
  SELECT NULL, provider, model, sum(runs)::bigint, sum(failed)::bigint, sum(unpriced)::bigint, sum(cost_usd),
          sum(tokens_in), sum(tokens_out), sum(timeouts)::bigint, sum(estimated)::bigint, sum(error_cost_usd),
          sum(timeout_cost_usd)
    FROM cells
GROUP BY provider, model

-- SELECT_BUCKETS
WITH rest AS MATERIALIZED (
  SELECT floor(date_part('epoch', occurred_at - $7::timestamptz) / $8::int)::int AS number, provider, model,
          sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         coalesce(sum(input_tokens), 0) AS input_tokens,
         coalesce(sum(output_tokens), 0) AS output_tokens,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'error'), 0) AS error_cost_usd,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd
    FROM projects
         JOIN runs ON runs.project_id = projects.id
   WHERE $5::timestamptz < $6::timestamptz
     AND ($1 = '' OR projects.id = $1)
     AND runs.occurred_at >= $5
     AND runs.occurred_at < $6
GROUP BY 1, 2, 3
)
  SELECT number, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated,
         sum(error_cost_usd) AS error_cost_usd,
         sum(timeout_cost_usd) AS timeout_cost_usd
    FROM (SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, runs, errors,
            timeouts, unpriced, estimated, cost_usd, input_tokens, output_tokens, error_cost_usd,
            timeout_cost_usd
            FROM unnest($2::smallint[], $3::timestamptz[], $4::timestamptz[]) AS parts (grain, since, until)
         JOIN rollup_totals
           ON rollup_totals.project_id = $1
          AND rollup_totals.grain = parts.grain
          AND rollup_totals.bucket >= parts.since
          AND rollup_totals.bucket < parts.until
       UNION ALL
          SELECT number, runs, errors, timeouts, unpriced, estimated, cost_usd, input_tokens, output_tokens,
                  error_cost_usd, timeout_cost_usd
            FROM rest) AS buckets
GROUP BY 1

-- SELECT_SUMS
WITH rest AS MATERIALIZED (
  SELECT floor(date_part('epoch', occurred_at - $7::timestamptz) / $8::int)::int AS number, provider, model,
          sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         coalesce(sum(input_tokens), 0) AS input_tokens,
         coalesce(sum(output_tokens), 0) AS output_tokens,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'error'), 0) AS error_cost_usd,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd
    FROM projects
         JOIN runs ON runs.project_id = projects.id
   WHERE $5::timestamptz < $6::timestamptz
     AND ($1 = '' OR projects.id = $1)
     AND runs.occurred_at >= $5
     AND runs.occurred_at < $6
GROUP BY 1, 2, 3
)
  SELECT number, NULL AS provider, NULL AS model, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated,
         sum(error_cost_usd) AS error_cost_usd,
         sum(timeout_cost_usd) AS timeout_cost_usd
    FROM (SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, runs, errors,
            timeouts, unpriced, estimated, cost_usd, input_tokens, output_tokens, error_cost_usd,
            timeout_cost_usd
            FROM unnest($2::smallint[], $3::timestamptz[], $4::timestamptz[]) AS parts (grain, since, until)
         JOIN rollup_totals
           ON rollup_totals.project_id = $1
          AND rollup_totals.grain = parts.grain
          AND rollup_totals.bucket >= parts.since
          AND rollup_totals.bucket < parts.until
       UNION ALL
          SELECT number, runs, errors, timeouts, unpriced, estimated, cost_usd, input_tokens, output_tokens,
                  error_cost_usd, timeout_cost_usd
            FROM rest) AS buckets
GROUP BY 1
   UNION ALL
  SELECT NULL, provider, model, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated,
         sum(error_cost_usd) AS error_cost_usd,
         sum(timeout_cost_usd) AS timeout_cost_usd
    FROM (SELECT provider, model, runs, errors, timeouts, unpriced, estimated, cost_usd, input_tokens,
            output_tokens, error_cost_usd, timeout_cost_usd
            FROM unnest($9::smallint[], $10::timestamptz[], $11::timestamptz[]) AS parts (grain, since, until)
         JOIN rollups
           ON rollups.project_id = $1
          AND rollups.grain = parts.grain
          AND rollups.bucket >= parts.since
          AND rollups.bucket < parts.until
       UNION ALL
          SELECT provider, model, runs, errors, timeouts, unpriced, estimated, cost_usd, input_tokens,
                  output_tokens, error_cost_usd, timeout_cost_usd
            FROM rest) AS models
GROUP BY provider, model

-- SELECT_SUMS_AND_LATENCIES
WITH met AS MATERIALIZED (
  SELECT floor(date_part('epoch', occurred_at - $7::timestamptz) / $8::int)::int AS number, provider, model,
          CASE WHEN latency_ms < 500000000 THEN (2 * latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END AS latency,
                      sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         coalesce(sum(input_tokens), 0) AS input_tokens,
         coalesce(sum(output_tokens), 0) AS output_tokens,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'error'), 0) AS error_cost_usd,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd
    FROM projects
         JOIN runs ON runs.project_id = projects.id
   WHERE $5::timestamptz < $6::timestamptz
     AND ($1 = '' OR projects.id = $1)
     AND runs.occurred_at >= $5
     AND runs.occurred_at < $6
GROUP BY 1, 2, 3, 4
),
rest AS (
  SELECT number, provider, model, sum(runs) AS runs, sum(errors) AS errors, sum(timeouts) AS timeouts,
          sum(unpriced) AS unpriced, sum(estimated) AS estimated, sum(cost_usd) AS cost_usd, sum(input_tokens)
          AS input_tokens, sum(output_tokens) AS output_tokens, sum(error_cost_usd) AS error_cost_usd,
          sum(timeout_cost_usd) AS timeout_cost_usd
    FROM met
GROUP BY 1, 2, 3
)
  SELECT number, NULL AS provider, NULL AS model, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated,
         sum(error_cost_usd) AS error_cost_usd,
         sum(timeout_cost_usd) AS timeout_cost_usd, NULL::int[] AS latencies, NULL::int[] AS counts
    FROM (SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, runs, errors,
            timeouts, unpriced, estimated, cost_usd, input_tokens, output_tokens, error_cost_usd,
            timeout_cost_usd
            FROM unnest($2::smallint[], $3::timestamptz[], $4::timestamptz[]) AS parts (grain, since, until)
         JOIN rollup_totals
           ON rollup_totals.project_id = $1
          AND rollup_totals.grain = parts.grain
          AND rollup_totals.bucket >= parts.since
          AND rollup_totals.bucket < parts.until
       UNION ALL
          SELECT number, runs, errors, timeouts, unpriced, estimated, cost_usd, input_tokens, output_tokens,
                  error_cost_usd, timeout_cost_usd
            FROM rest) AS buckets
GROUP BY 1
   UNION ALL
  SELECT NULL, provider, model, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated,
         sum(error_cost_usd) AS error_cost_usd,
         sum(timeout_cost_usd) AS timeout_cost_usd, NULL::int[] AS latencies, NULL::int[] AS counts
    FROM (SELECT provider, model, runs, errors, timeouts, unpriced, estimated, cost_usd, input_tokens,
            output_tokens, error_cost_usd, timeout_cost_usd
            FROM unnest($9::smallint[], $10::timestamptz[], $11::timestamptz[]) AS parts (grain, since, until)
         JOIN rollups
           ON rollups.project_id = $1
          AND rollups.grain = parts.grain
          AND rollups.bucket >= parts.since
          AND rollups.bucket < parts.until
       UNION ALL
          SELECT provider, model, runs, errors, timeouts, unpriced, estimated, cost_usd, input_tokens,
                  output_tokens, error_cost_usd, timeout_cost_usd
            FROM rest) AS models
GROUP BY provider, model
   UNION ALL
  SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, array_agg(latency ORDER
          BY latency), array_agg(runs ORDER BY latency)
    FROM (SELECT latency, sum(runs)::int AS runs
            FROM met
           WHERE latency IS NOT NULL
        GROUP BY 1) AS binned

-- SELECT_SKETCHES
WITH waiting AS (
  SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, latency, sum(runs)::int
          AS runs
    FROM latency_deltas CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
   WHERE project_id = $1 AND bucket >= $7 AND bucket < $5
GROUP BY 1, 2
)
  SELECT number,
         CASE WHEN NOT is_known THEN latencies END AS latencies,
         CASE WHEN NOT is_known THEN counts END AS counts,
         CASE WHEN is_known THEN p50 END AS p50,
         CASE WHEN is_known THEN p95 END AS p95
    FROM (SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, latencies,
            counts, p50, p95, FALSE AS is_known
            FROM unnest($2::smallint[], $3::timestamptz[], $4::timestamptz[]) AS parts (grain, since, until)
         JOIN latency_sketches
           ON latency_sketches.project_id = $1
          AND latency_sketches.grain = parts.grain
          AND latency_sketches.bucket >= parts.since
          AND latency_sketches.bucket < parts.until) AS stored
   UNION ALL
  SELECT number, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency), NULL, NULL
    FROM waiting
GROUP BY 1
   UNION ALL
  SELECT number, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency), NULL, NULL
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
WITH waiting AS (
  SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, latency, sum(runs)::int
          AS runs
    FROM latency_deltas CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
   WHERE TRUE AND bucket >= $7 AND bucket < $5
GROUP BY 1, 2
)
  SELECT number,
         CASE WHEN NOT is_known THEN latencies END AS latencies,
         CASE WHEN NOT is_known THEN counts END AS counts,
         CASE WHEN is_known THEN p50 END AS p50,
         CASE WHEN is_known THEN p95 END AS p95
    FROM (SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, latencies,
            counts, p50, p95, FALSE AS is_known
            FROM unnest($2::smallint[], $3::timestamptz[], $4::timestamptz[]) AS parts (grain, since, until)
         JOIN latency_sketches
           ON latency_sketches.project_id = $1
          AND latency_sketches.grain = parts.grain
          AND latency_sketches.bucket >= parts.since
          AND latency_sketches.bucket < parts.until) AS stored
   UNION ALL
  SELECT number, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency), NULL, NULL
    FROM waiting
GROUP BY 1
   UNION ALL
  SELECT number, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency), NULL, NULL
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

-- SELECT_LATENCIES
WITH waiting AS (
  SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, latency, sum(runs)::int
          AS runs
    FROM latency_deltas CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
   WHERE project_id = $1 AND bucket >= $7 AND bucket < $5
GROUP BY 1, 2
)
  SELECT number,
         CASE WHEN NOT is_known THEN latencies END AS latencies,
         CASE WHEN NOT is_known THEN counts END AS counts,
         CASE WHEN is_known THEN p50 END AS p50,
         CASE WHEN is_known THEN p95 END AS p95
    FROM (SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, latencies,
            counts, p50, p95, p95 IS NOT NULL
                 AND parts.grain * 60 = $8::int
                 AND floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int NOT IN (SELECT number
                         FROM waiting) AS is_known
            FROM unnest($2::smallint[], $3::timestamptz[], $4::timestamptz[]) AS parts (grain, since, until)
         JOIN latency_sketches
           ON latency_sketches.project_id = $1
          AND latency_sketches.grain = parts.grain
          AND latency_sketches.bucket >= parts.since
          AND latency_sketches.bucket < parts.until) AS stored
   UNION ALL
  SELECT number, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency), NULL, NULL
    FROM waiting
GROUP BY 1
   UNION ALL
  SELECT number, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency), NULL, NULL
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

-- SELECT_LATENCIES_OF_ALL
WITH waiting AS (
  SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, latency, sum(runs)::int
          AS runs
    FROM latency_deltas CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
   WHERE TRUE AND bucket >= $7 AND bucket < $5
GROUP BY 1, 2
)
  SELECT number,
         CASE WHEN NOT is_known THEN latencies END AS latencies,
         CASE WHEN NOT is_known THEN counts END AS counts,
         CASE WHEN is_known THEN p50 END AS p50,
         CASE WHEN is_known THEN p95 END AS p95
    FROM (SELECT floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int AS number, latencies,
            counts, p50, p95, p95 IS NOT NULL
                 AND parts.grain * 60 = $8::int
                 AND floor(date_part('epoch', bucket - $7::timestamptz) / $8::int)::int NOT IN (SELECT number
                         FROM waiting) AS is_known
            FROM unnest($2::smallint[], $3::timestamptz[], $4::timestamptz[]) AS parts (grain, since, until)
         JOIN latency_sketches
           ON latency_sketches.project_id = $1
          AND latency_sketches.grain = parts.grain
          AND latency_sketches.bucket >= parts.since
          AND latency_sketches.bucket < parts.until) AS stored
   UNION ALL
  SELECT number, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency), NULL, NULL
    FROM waiting
GROUP BY 1
   UNION ALL
  SELECT number, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency), NULL, NULL
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

-- SELECT_DROPPED_BEFORE
SELECT max(dropped_before)
  FROM projects
 WHERE ($1::text IS NULL OR id = $1)

-- SELECT_POINTS
WITH waiting AS (
  SELECT to_timestamp(floor(date_part('epoch', bucket) / ($2 * 60)) * ($2 * 60)) AS bucket, latency,
          sum(runs)::int AS runs
    FROM latency_deltas CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
   WHERE project_id = $1 AND bucket >= $3 AND bucket < $4
GROUP BY 1, 2
)
  SELECT floor(date_part('epoch', bucket - $3::timestamptz) / ($2 * 60))::int AS number,
         NULL AS provider,
         NULL AS model,
         runs,
         errors + timeouts AS failed,
         trim_scale(cost_usd)::text AS cost_usd,
         input_tokens::text AS tokens_in,
         output_tokens::text AS tokens_out,
         NULL::int AS p95,
         NULL::int[] AS latencies,
         NULL::int[] AS counts
    FROM rollup_totals
   WHERE project_id = $1 AND grain = $2::smallint AND bucket >= $3 AND bucket < $4
   UNION ALL
  SELECT NULL, provider, model, sum(runs)::bigint, NULL, sum(cost_usd)::text, NULL, NULL, NULL, NULL, NULL
    FROM unnest($5::smallint[], $6::timestamptz[], $7::timestamptz[]) AS parts (grain, since, until)
         JOIN rollups
           ON rollups.project_id = $1
          AND rollups.grain = parts.grain
          AND rollups.bucket >= parts.since
          AND rollups.bucket < parts.until
GROUP BY provider, model
   UNION ALL
  SELECT number, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
         CASE WHEN is_known THEN p95 END,
         CASE WHEN NOT is_known THEN latencies END,
         CASE WHEN NOT is_known THEN counts END
    FROM (SELECT floor(date_part('epoch', bucket - $3::timestamptz) / ($2 * 60))::int AS number, latencies,
            counts, p95,
                 p95 IS NOT NULL AND bucket <> ALL (ARRAY(SELECT bucket FROM waiting)) AS is_known
            FROM latency_sketches
           WHERE project_id = $1 AND grain = $2::smallint AND bucket >= $3 AND bucket < $4) AS stored
   UNION ALL
  SELECT floor(date_part('epoch', bucket - $3::timestamptz) / ($2 * 60))::int AS number, NULL, NULL, NULL,
          NULL, NULL, NULL, NULL, NULL,
         array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency)
    FROM waiting
GROUP BY bucket

-- SELECT_POINTS_OF_ALL
WITH waiting AS (
  SELECT to_timestamp(floor(date_part('epoch', bucket) / ($2 * 60)) * ($2 * 60)) AS bucket, latency,
          sum(runs)::int AS runs
    FROM latency_deltas CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
   WHERE TRUE AND bucket >= $3 AND bucket < $4
GROUP BY 1, 2
)
  SELECT floor(date_part('epoch', bucket - $3::timestamptz) / ($2 * 60))::int AS number,
         NULL AS provider,
         NULL AS model,
         runs,
         errors + timeouts AS failed,
         trim_scale(cost_usd)::text AS cost_usd,
         input_tokens::text AS tokens_in,
         output_tokens::text AS tokens_out,
         NULL::int AS p95,
         NULL::int[] AS latencies,
         NULL::int[] AS counts
    FROM rollup_totals
   WHERE project_id = $1 AND grain = $2::smallint AND bucket >= $3 AND bucket < $4
   UNION ALL
  SELECT NULL, provider, model, sum(runs)::bigint, NULL, sum(cost_usd)::text, NULL, NULL, NULL, NULL, NULL
    FROM unnest($5::smallint[], $6::timestamptz[], $7::timestamptz[]) AS parts (grain, since, until)
         JOIN rollups
           ON rollups.project_id = $1
          AND rollups.grain = parts.grain
          AND rollups.bucket >= parts.since
          AND rollups.bucket < parts.until
GROUP BY provider, model
   UNION ALL
  SELECT number, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
         CASE WHEN is_known THEN p95 END,
         CASE WHEN NOT is_known THEN latencies END,
         CASE WHEN NOT is_known THEN counts END
    FROM (SELECT floor(date_part('epoch', bucket - $3::timestamptz) / ($2 * 60))::int AS number, latencies,
            counts, p95,
                 p95 IS NOT NULL AND bucket <> ALL (ARRAY(SELECT bucket FROM waiting)) AS is_known
            FROM latency_sketches
           WHERE project_id = $1 AND grain = $2::smallint AND bucket >= $3 AND bucket < $4) AS stored
   UNION ALL
  SELECT floor(date_part('epoch', bucket - $3::timestamptz) / ($2 * 60))::int AS number, NULL, NULL, NULL,
          NULL, NULL, NULL, NULL, NULL,
         array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency)
    FROM waiting
GROUP BY bucket

-- SELECT_COSTS_SINCE
  SELECT project_id,
         NULL AS provider,
         NULL AS model,
         NULL AS cost_usd,
         md5(string_agg(xmin::text, ' ' ORDER BY bucket)) AS version
    FROM rollup_totals
   WHERE project_id = ANY ($1::text[])
     AND grain = 1440
     AND bucket < $2::timestamptz
GROUP BY 1
   UNION ALL
  SELECT project_id, provider, model, sum(cost_usd), NULL
    FROM rollups
   WHERE project_id = ANY ($1)
     AND grain = 360
     AND bucket >= $2
GROUP BY 1, 2, 3

-- SELECT_COSTS_BEFORE
  SELECT project_id, provider, model, sum(cost_usd)
    FROM rollups
   WHERE project_id = ANY ($1)
     AND grain = 360
     AND bucket < $2
GROUP BY 1, 2, 3

-- OF_IDS
($1::text[] IS NULL OR projects.id = ANY ($1))

-- SELECT_SUMS_OF_DAYS
  SELECT project_id,
         sum(runs)::bigint AS runs,
                     sum(errors + timeouts)::bigint AS failed,
                     sum(unpriced)::bigint AS unpriced,
                     sum(cost_usd) AS cost_usd
    FROM rollup_totals
   WHERE grain = 1440
     AND bucket >= $1
     AND bucket < $2
     AND project_id <> ''
GROUP BY 1
  HAVING sum(runs) > 0

-- SELECT_SUMS_OF_DAY
SELECT project_id,
       runs,
       errors + timeouts AS failed,
       unpriced,
       cost_usd
  FROM rollup_totals
 WHERE grain = 1440
   AND bucket = $1
   AND project_id <> ''
   AND runs > 0

-- SELECT_SUMS_OF_RUNS
SELECT project_id,
       runs,
       errors + timeouts AS failed,
       unpriced,
       cost_usd
  FROM (SELECT project_id,
               sum(1) AS runs,
       coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
       coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
       coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
       coalesce(sum(cost_usd), 0) AS cost_usd
          FROM projects
               JOIN runs ON runs.project_id = projects.id
         WHERE ($1::text[] IS NULL OR projects.id = ANY ($1))
           AND occurred_at >= $2
           AND occurred_at < $3
           AND ($4::text IS NULL OR model = $4) AND ($5::text IS NULL OR provider = $5)
      GROUP BY 1) AS found

-- SELECT_DAYS
SELECT bucket,
       xmin::text AS version
  FROM rollup_totals
 WHERE project_id = ''
   AND grain = 1440
   AND bucket > $1::timestamptz - interval '1440 minutes'
   AND bucket < $2
 UNION ALL
SELECT max(bucket),
       NULL
  FROM rollup_totals
 WHERE project_id = ''
   AND grain = 15
   AND runs > 0

-- SELECT_LISTED
SELECT id,
       name,
       archived_at IS NOT NULL AS is_archived
  FROM projects
 WHERE ($1::text[] IS NULL OR projects.id = ANY ($1))

-- SELECT_REACHING_BACK
SELECT id
  FROM projects
 WHERE ($1::text[] IS NULL OR projects.id = ANY ($1))
   AND CASE WHEN dropped_before IS NULL
            THEN EXISTS (SELECT FROM runs WHERE project_id = projects.id AND occurred_at < $2)
            ELSE EXISTS (SELECT
                           FROM rollups
                          WHERE project_id = projects.id
                            AND grain = 360
                            AND bucket < $2) END

-- SELECT_DO_ANY_REACH_BACK
SELECT EXISTS (SELECT
                 FROM rollup_totals
                WHERE project_id = ''
                  AND grain = 360
                  AND bucket < $2)
       AND EXISTS (SELECT id
  FROM projects
 WHERE ($1::text[] IS NULL OR projects.id = ANY ($1))
   AND CASE WHEN dropped_before IS NULL
            THEN EXISTS (SELECT FROM runs WHERE project_id = projects.id AND occurred_at < $2)
            ELSE EXISTS (SELECT
                           FROM rollups
                          WHERE project_id = projects.id
                            AND grain = 360
                            AND bucket < $2) END)

-- SELECT_LAST_RUN_AT
SELECT CASE WHEN ends.recent >= $2 THEN ends.recent
            ELSE coalesce((SELECT max(found.at)
                             FROM projects
                                  CROSS JOIN LATERAL (SELECT max(occurred_at) AS at
                                                        FROM runs
                                                       WHERE project_id = projects.id
                                                         AND occurred_at >= ends.last) AS found
                            WHERE ($1 = '' OR projects.id = $1)), ends.last) END
  FROM (SELECT (SELECT max(bucket)
          FROM rollup_totals
         WHERE project_id = $1
           AND grain = 15
           AND runs > 0) AS recent,
               (SELECT max(bucket)
          FROM rollup_totals
         WHERE project_id = $1
           AND grain = 360
           AND runs > 0) AS last) AS ends

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

-- sums of projects: days and what is left of one
SELECT projects.id,
       held.*
  FROM projects
       CROSS JOIN LATERAL (
            SELECT sum(runs)::bigint AS runs,
                   sum(errors + timeouts)::bigint AS failed,
                   sum(unpriced)::bigint AS unpriced,
                   sum(cost_usd) AS cost_usd
              FROM (SELECT runs, errors, timeouts, unpriced, cost_usd
                      FROM rollup_totals
                     WHERE project_id = projects.id
                       AND grain = $2::smallint
                       AND bucket >= $3::timestamptz
                       AND bucket < $4::timestamptz
                    UNION ALL SELECT runs, errors, timeouts, unpriced, cost_usd
                      FROM rollup_totals
                     WHERE project_id = projects.id
                       AND grain = $5::smallint
                       AND bucket >= $6::timestamptz
                       AND bucket < $7::timestamptz) AS stored) AS held
 WHERE ($1::text[] IS NULL OR projects.id = ANY ($1))
   AND held.runs > 0

-- sums of projects: a model
SELECT projects.id,
       held.*
  FROM projects
       CROSS JOIN LATERAL (
            SELECT sum(runs)::bigint AS runs,
                   sum(errors + timeouts)::bigint AS failed,
                   sum(unpriced)::bigint AS unpriced,
                   sum(cost_usd) AS cost_usd
              FROM (SELECT runs, errors, timeouts, unpriced, cost_usd
                      FROM rollups
                     WHERE project_id = projects.id
                       AND grain = $2::smallint
                       AND bucket >= $3::timestamptz
                       AND bucket < $4::timestamptz AND ($5::text IS NULL OR model = $5) AND ($6::text IS NULL
                               OR provider = $6)) AS stored) AS held
 WHERE ($1::text[] IS NULL OR projects.id = ANY ($1))
   AND held.runs > 0

-- costs of projects: a model
SELECT projects.id,
       held.*
  FROM projects
       CROSS JOIN LATERAL (
            SELECT array_agg(number) AS numbers,
                   array_agg(cost_usd::float8) AS costs
              FROM (SELECT floor(date_part('epoch', occurred_at - $4::timestamptz) / $5::int)::int AS number,
                      coalesce(cost_usd, 0) AS cost_usd
                      FROM runs
                     WHERE $2::timestamptz < $3::timestamptz
                       AND project_id = projects.id
                       AND occurred_at >= $2
                       AND occurred_at < $3 AND ($9::text IS NULL OR model = $9) AND ($10::text IS NULL OR
                               provider = $10)
                 UNION ALL SELECT floor(date_part('epoch', bucket - $4::timestamptz) / $5::int)::int AS
                         number, cost_usd
                      FROM rollups
                     WHERE project_id = projects.id
                       AND grain = $6::smallint
                       AND bucket >= $7::timestamptz
                       AND bucket < $8::timestamptz AND ($9::text IS NULL OR model = $9) AND ($10::text IS
                               NULL OR provider = $10)) AS buckets) AS held
 WHERE ($1::text[] IS NULL OR projects.id = ANY ($1))
   AND held.numbers IS NOT NULL

-- runs: every filter
  SELECT number, provider, model, latencies, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated,
         sum(error_cost_usd) AS error_cost_usd,
         sum(timeout_cost_usd) AS timeout_cost_usd
    FROM (SELECT floor(date_part('epoch', occurred_at - $2::timestamptz) / 3600)::int AS number,
                 provider,
                 model,
                 array_agg(CASE WHEN latency_ms < 500000000 THEN (2 * latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END) FILTER (WHERE
                      latency_ms IS NOT NULL) AS latencies,
                 sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         coalesce(sum(input_tokens), 0) AS input_tokens,
         coalesce(sum(output_tokens), 0) AS output_tokens,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'error'), 0) AS error_cost_usd,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd
            FROM runs
           WHERE runs.project_id = $1
             AND occurred_at >= $2
             AND occurred_at < $3
             AND model = $4
             AND provider = $5
             AND experiment_id = $6
             AND status = 'error'
        GROUP BY 1, 2, 3) AS cells
GROUP BY 1, 2, 3, 4

-- runs: few, of a model
  SELECT number, provider, model, latencies, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated,
         sum(error_cost_usd) AS error_cost_usd,
         sum(timeout_cost_usd) AS timeout_cost_usd
    FROM (SELECT floor(date_part('epoch', occurred_at - $2::timestamptz) / 3600)::int AS number,
                 provider,
                 model,
                 array_agg(CASE WHEN latency_ms < 500000000 THEN (2 * latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END) FILTER (WHERE
                      latency_ms IS NOT NULL) AS latencies,
                 sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         coalesce(sum(input_tokens), 0) AS input_tokens,
         coalesce(sum(output_tokens), 0) AS output_tokens,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'error'), 0) AS error_cost_usd,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd
            FROM runs
           WHERE runs.project_id = $1
             AND occurred_at >= $2
             AND occurred_at < $3
             AND model || '' = $4
        GROUP BY 1, 2, 3) AS cells
GROUP BY 1, 2, 3, 4

-- runs: those that failed
  SELECT number, provider, model, latencies, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated,
         sum(error_cost_usd) AS error_cost_usd,
         sum(timeout_cost_usd) AS timeout_cost_usd
    FROM (SELECT floor(date_part('epoch', occurred_at - $2::timestamptz) / 3600)::int AS number,
                 provider,
                 model,
                 array_agg(CASE WHEN latency_ms < 500000000 THEN (2 * latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END) FILTER (WHERE
                      latency_ms IS NOT NULL) AS latencies,
                 sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         coalesce(sum(input_tokens), 0) AS input_tokens,
         coalesce(sum(output_tokens), 0) AS output_tokens,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'error'), 0) AS error_cost_usd,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd
            FROM runs
           WHERE runs.project_id = $1
             AND occurred_at >= $2
             AND occurred_at < $3
             AND status <> 'success'
        GROUP BY 1, 2, 3) AS cells
GROUP BY 1, 2, 3, 4

-- experiments: a status
  SELECT experiment_id, sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated,
         sum(error_cost_usd) AS error_cost_usd,
         sum(timeout_cost_usd) AS timeout_cost_usd
    FROM (SELECT experiment_id, sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         coalesce(sum(input_tokens), 0) AS input_tokens,
         coalesce(sum(output_tokens), 0) AS output_tokens,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'error'), 0) AS error_cost_usd,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd
            FROM runs
           WHERE runs.project_id = $1
             AND occurred_at >= $2
             AND occurred_at < $3
             AND status = 'timeout'
             AND experiment_id IS NOT NULL
        GROUP BY 1) AS cells
GROUP BY 1
