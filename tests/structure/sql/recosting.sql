-- SELECT_UNPRICED_NAMES
  SELECT DISTINCT project_id,
         provider,
         model
    FROM runs
   WHERE cost_usd IS NULL
ORDER BY project_id, provider, model

-- SELECT_UNPRICED
  SELECT id,
         occurred_at,
         provider,
         model,
         version,
         reported_cost_usd,
         cost_usd,
         cost_source,
         cost_estimated,
         price_entry_id,
         input_tokens,
         output_tokens,
         cached_input_tokens,
         cache_write_tokens,
         reasoning_tokens,
         audio_input_tokens,
         audio_output_tokens
    FROM runs
   WHERE project_id = $1
     AND cost_usd IS NULL
     AND created_at <= $2
     AND id > $3
ORDER BY id
   LIMIT $4

-- SELECT_COMPUTED
  SELECT id,
         occurred_at,
         provider,
         model,
         version,
         reported_cost_usd,
         cost_usd,
         cost_source,
         cost_estimated,
         price_entry_id,
         input_tokens,
         output_tokens,
         cached_input_tokens,
         cache_write_tokens,
         reasoning_tokens,
         audio_input_tokens,
         audio_output_tokens
    FROM runs
   WHERE project_id = $1
     AND (occurred_at, id) > ($2, $3)
     AND ($4::timestamptz IS NULL OR occurred_at < $4)
     AND ($5::text IS NULL OR provider = $5)
     AND ($6::text IS NULL OR model = $6)
     AND cost_source IS DISTINCT FROM 'provider'
ORDER BY occurred_at, id
   LIMIT $7

-- UPDATE_COSTS
WITH changed AS (
     UPDATE runs
        SET cost_usd = priced.cost_usd,
            cost_source = priced.cost_source,
            cost_estimated = priced.cost_estimated,
            price_entry_id = priced.price_entry_id,
            version = runs.version + 1
       FROM unnest($2::text[], $3::numeric[], $4::text[], $5::boolean[], $6::bigint[],
                   $7::numeric[], $8::boolean[], $9::integer[])
            AS priced (id, cost_usd, cost_source, cost_estimated, price_entry_id,
                       before_usd, before_estimated, version)
      WHERE runs.project_id = $1
        AND runs.id = priced.id
        AND runs.version = priced.version
  RETURNING runs.id, runs.version, before_usd, before_estimated, runs.project_id, runs.occurred_at,
          runs.provider, runs.model, runs.status, runs.latency_ms, runs.cost_usd, runs.cost_estimated,
          runs.input_tokens, runs.output_tokens, runs.cached_input_tokens, runs.cache_write_tokens,
          runs.reasoning_tokens, runs.audio_input_tokens, runs.audio_output_tokens
),
queued AS (
     INSERT INTO outbox (project_id, run_id, version, queued_at, due_at)
          SELECT project_id, id, version, $10::timestamptz, $10::timestamptz
            FROM (SELECT * FROM changed ORDER BY id) AS changed
           WHERE $11::boolean
     ON CONFLICT (project_id, run_id) DO UPDATE
             SET version = excluded.version,
                 due_at = excluded.due_at,
                 attempts = 0,
                 parked_at = NULL,
                 last_error = NULL
),
weighed AS (
     SELECT project_id, occurred_at, provider, model, status, latency_ms, cost_usd, cost_estimated,
             input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens,
             audio_input_tokens, audio_output_tokens, 1 AS weight
       FROM changed
  UNION ALL
     SELECT project_id, occurred_at, provider, model, status, latency_ms, before_usd, before_estimated,
             input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens,
             audio_input_tokens, audio_output_tokens, -1
       FROM changed
),
rolled_latencies AS (
     INSERT INTO latency_deltas (project_id, bucket, latencies, counts)
          SELECT project_id, bucket, array_agg(latency), array_agg(runs)
            FROM (SELECT project_id, to_timestamp(floor(date_part('epoch', occurred_at) / (15 * 60)) * (15 *
                    60)) AS bucket, CASE WHEN latency_ms < 500000000 THEN (2 * latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END AS latency,
                      sum(weight)::int AS runs
                    FROM weighed
                   WHERE latency_ms IS NOT NULL
                GROUP BY 1, 2, 3
                  HAVING sum(weight) <> 0) AS latencies
        GROUP BY 1, 2
),
rolled_runs AS (
  SELECT project_id,
         to_timestamp(floor(date_part('epoch', occurred_at) / (15 * 60)) * (15 * 60)) AS bucket,
         provider,
         model,
         sum(weight) AS runs,
         coalesce(sum(weight) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(weight) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(weight) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(weight) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(weight * cost_usd), 0) AS cost_usd,
         coalesce(sum(weight * input_tokens), 0) AS input_tokens,
         coalesce(sum(weight * output_tokens), 0) AS output_tokens,
         coalesce(sum(weight * cached_input_tokens), 0) AS cached_input_tokens,
         coalesce(sum(weight * cache_write_tokens), 0) AS cache_write_tokens,
         coalesce(sum(weight * reasoning_tokens), 0) AS reasoning_tokens,
         coalesce(sum(weight * audio_input_tokens), 0) AS audio_input_tokens,
         coalesce(sum(weight * audio_output_tokens), 0) AS audio_output_tokens,
         coalesce(sum(weight * cost_usd) FILTER (WHERE status = 'error'), 0) AS error_cost_usd,
         coalesce(sum(weight * cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd
    FROM weighed
GROUP BY 1, 2, 3, 4
),
rolled_totals AS (
     INSERT INTO rollup_totals AS held (project_id, grain, bucket, runs, errors, timeouts, unpriced,
             estimated, cost_usd, input_tokens, output_tokens, error_cost_usd, timeout_cost_usd)
          SELECT scope.project_id,
                 grains.minutes,
                 to_timestamp(floor(date_part('epoch', bucket) / (grains.minutes * 60)) * (grains.minutes *
                         60)),
                 sum(runs), sum(errors), sum(timeouts), sum(unpriced), sum(estimated), sum(cost_usd),
                         sum(input_tokens), sum(output_tokens), sum(error_cost_usd), sum(timeout_cost_usd)
            FROM rolled_runs AS cells
                 CROSS JOIN LATERAL (VALUES (cells.project_id), ('')) AS scope (project_id)
                 CROSS JOIN (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360,
                         make_interval(days => NULL)), (1440, make_interval(days => NULL))) AS grains
                         (minutes, kept)
           WHERE (kept IS NULL OR to_timestamp(floor(date_part('epoch', bucket) / (grains.minutes * 60)) *
                   (grains.minutes * 60)) >= $10::timestamptz - kept)
        GROUP BY 1, 2, 3
        ORDER BY scope.project_id = '', 1, 2, 3
     ON CONFLICT (project_id, grain, bucket) DO UPDATE
             SET runs = held.runs + excluded.runs, errors = held.errors + excluded.errors, timeouts =
                     held.timeouts + excluded.timeouts, unpriced = held.unpriced + excluded.unpriced,
                     estimated = held.estimated + excluded.estimated, cost_usd = held.cost_usd +
                     excluded.cost_usd, input_tokens = held.input_tokens + excluded.input_tokens,
                     output_tokens = held.output_tokens + excluded.output_tokens, error_cost_usd =
                     held.error_cost_usd + excluded.error_cost_usd, timeout_cost_usd = held.timeout_cost_usd +
                     excluded.timeout_cost_usd
       RETURNING 1
),
rolled AS (
     INSERT INTO rollups AS held (project_id, grain, bucket, provider, model, runs, errors, timeouts,
             unpriced, estimated, cost_usd, input_tokens, output_tokens, cached_input_tokens,
             cache_write_tokens, reasoning_tokens, audio_input_tokens, audio_output_tokens, error_cost_usd,
             timeout_cost_usd)
          SELECT scope.project_id,
                 grains.minutes,
                 to_timestamp(floor(date_part('epoch', bucket) / (grains.minutes * 60)) * (grains.minutes *
                         60)),
                 provider, model, sum(runs), sum(errors), sum(timeouts), sum(unpriced), sum(estimated),
                         sum(cost_usd), sum(input_tokens), sum(output_tokens), sum(cached_input_tokens),
                         sum(cache_write_tokens), sum(reasoning_tokens), sum(audio_input_tokens),
                         sum(audio_output_tokens), sum(error_cost_usd), sum(timeout_cost_usd)
            FROM rolled_runs AS cells
                 CROSS JOIN LATERAL (VALUES (cells.project_id), ('')) AS scope (project_id)
                 CROSS JOIN (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360,
                         make_interval(days => NULL))) AS grains (minutes, kept)
           WHERE (kept IS NULL OR to_timestamp(floor(date_part('epoch', bucket) / (grains.minutes * 60)) *
                   (grains.minutes * 60)) >= $10::timestamptz - kept)
             AND (SELECT count(*) FROM rolled_totals) >= 0
        GROUP BY 1, 2, 3, 4, 5
        ORDER BY scope.project_id = '', 1, 2, 3, 4, 5
     ON CONFLICT (project_id, grain, bucket, provider, model) DO UPDATE
             SET runs = held.runs + excluded.runs, errors = held.errors + excluded.errors, timeouts =
                     held.timeouts + excluded.timeouts, unpriced = held.unpriced + excluded.unpriced,
                     estimated = held.estimated + excluded.estimated, cost_usd = held.cost_usd +
                     excluded.cost_usd, input_tokens = held.input_tokens + excluded.input_tokens,
                     output_tokens = held.output_tokens + excluded.output_tokens, cached_input_tokens =
                     held.cached_input_tokens + excluded.cached_input_tokens, cache_write_tokens =
                     held.cache_write_tokens + excluded.cache_write_tokens, reasoning_tokens =
                     held.reasoning_tokens + excluded.reasoning_tokens, audio_input_tokens =
                     held.audio_input_tokens + excluded.audio_input_tokens, audio_output_tokens =
                     held.audio_output_tokens + excluded.audio_output_tokens, error_cost_usd =
                     held.error_cost_usd + excluded.error_cost_usd, timeout_cost_usd = held.timeout_cost_usd +
                     excluded.timeout_cost_usd
       RETURNING 1
)
SELECT count(*)
  FROM changed
