-- SELECT_UNPRICED_NAMES
  SELECT DISTINCT project_id,
         provider,
         unnest(ARRAY[model, CASE WHEN jsonb_typeof(metadata -> 'responseModel') = 'string' THEN metadata ->>
                 'responseModel' END]) AS model
    FROM runs
   WHERE cost_usd IS NULL
ORDER BY project_id, provider, model

-- SELECT_UNPRICED
  SELECT id,
         occurred_at,
         provider,
         model,
         CASE WHEN jsonb_typeof(metadata -> 'responseModel') = 'string' THEN metadata ->> 'responseModel' END
                 AS answered_by,
         version,
         reported_cost_usd,
         cost_usd,
         cost_source,
         cost_estimated,
         price_entry_id,
         cache_savings_usd,
         cost_is_minimum,
         without_usage,
         service_tier,
         region,
         input_tokens,
         output_tokens,
         cached_input_tokens,
         cache_write_tokens,
         reasoning_tokens,
         audio_input_tokens,
         audio_output_tokens,
         units
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
         CASE WHEN jsonb_typeof(metadata -> 'responseModel') = 'string' THEN metadata ->> 'responseModel' END
                 AS answered_by,
         version,
         reported_cost_usd,
         cost_usd,
         cost_source,
         cost_estimated,
         price_entry_id,
         cache_savings_usd,
         cost_is_minimum,
         without_usage,
         service_tier,
         region,
         input_tokens,
         output_tokens,
         cached_input_tokens,
         cache_write_tokens,
         reasoning_tokens,
         audio_input_tokens,
         audio_output_tokens,
         units
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
            cache_savings_usd = priced.cache_savings_usd,
            cost_is_minimum = priced.cost_is_minimum,
            without_usage = priced.without_usage,
            version = runs.version + 1
       FROM unnest($2::text[], $3::numeric[], $4::text[], $5::boolean[], $6::bigint[], $7::numeric[],
               $8::boolean[],
                   $9::boolean[], $10::numeric[], $11::boolean[], $12::numeric[], $13::boolean[],
                           $14::boolean[],
                   $15::integer[])
            AS priced (id, cost_usd, cost_source, cost_estimated, price_entry_id, cache_savings_usd,
                    cost_is_minimum,
                       without_usage, before_usd, before_estimated, before_savings_usd, before_minimum,
                       before_without_usage, version)
      WHERE runs.project_id = $1
        AND runs.id = priced.id
        AND runs.version = priced.version
  RETURNING runs.id, runs.version, before_usd, before_estimated, before_savings_usd, before_minimum,
            before_without_usage, runs.project_id, runs.occurred_at, runs.provider, runs.model, runs.status,
                    runs.latency_ms, runs.cost_estimated, runs.cost_is_minimum, runs.without_usage,
                    runs.counted_as_other, runs.cost_usd, runs.input_tokens, runs.output_tokens,
                    runs.cached_input_tokens, runs.cache_write_tokens, runs.reasoning_tokens,
                    runs.audio_input_tokens, runs.audio_output_tokens, runs.cache_savings_usd, runs.user_id,
                    runs.session_id, runs.tags, runs.metadata
),
queued AS (
     INSERT INTO outbox (project_id, run_id, version, queued_at, due_at)
          SELECT project_id, id, version, $16::timestamptz, $16::timestamptz
            FROM (SELECT * FROM changed ORDER BY id) AS changed
           WHERE $17::boolean
     ON CONFLICT (project_id, run_id) DO UPDATE
             SET version = excluded.version,
                 due_at = excluded.due_at,
                 attempts = 0,
                 parked_at = NULL,
                 last_error = NULL
),
weighed AS (
     SELECT project_id, occurred_at, provider, model, status, latency_ms, cost_estimated, cost_is_minimum,
             without_usage, counted_as_other, cost_usd, input_tokens, output_tokens, cached_input_tokens,
             cache_write_tokens, reasoning_tokens, audio_input_tokens, audio_output_tokens, cache_savings_usd,
             user_id, session_id, tags, metadata, 1 AS weight
       FROM changed
  UNION ALL
     SELECT project_id, occurred_at, provider, model, status, latency_ms, before_estimated, before_minimum,
             before_without_usage, counted_as_other, before_usd, input_tokens, output_tokens,
             cached_input_tokens, cache_write_tokens, reasoning_tokens, audio_input_tokens,
             audio_output_tokens, before_savings_usd, user_id, session_id, tags, metadata, -1
       FROM changed
),
dimension_slots AS MATERIALIZED (
  SELECT project_id,
         max(id) FILTER (WHERE key = 'user') AS user_key,
         max(id) FILTER (WHERE key = 'session') AS session_key,
         max(id) FILTER (WHERE key = 'tags') AS tags_key,
         array_agg(id ORDER BY id) FILTER (WHERE names <> '{}') AS metadata_keys,
         array_agg(names[1] ORDER BY id) FILTER (WHERE names <> '{}') AS names,
         array_agg(names[2] ORDER BY id) FILTER (WHERE names <> '{}') AS other_names
    FROM (SELECT scope.project_id, keys.id, keys.key, keys.names, keys.complete_since
    FROM (SELECT DISTINCT project_id FROM weighed) AS scope
         JOIN tracked_keys AS keys
           ON keys.project_id = scope.project_id
           OR keys.project_id = ''
              AND NOT EXISTS (SELECT
                                FROM tracked_keys AS own
                               WHERE own.project_id = scope.project_id
                                 AND own.key = keys.key)
   WHERE keys.state IN ('tracked', 'filling')) AS keys
GROUP BY 1
),
dimensions_queued AS (
     INSERT INTO dimension_deltas (project_id, queued_at, size, key_ids, dimension_values, hours, providers,
             models,
                                   latencies, runs, errors, timeouts, unpriced, without_usage, cost_usd,
                                           input_tokens, output_tokens, cached_input_tokens,
                                           cache_write_tokens, reasoning_tokens, cache_savings_usd)
          SELECT project_id,
                 $16::timestamptz,
                 count(*),
                 (SELECT ARRAY[user_key, session_key, tags_key] || metadata_keys FROM dimension_slots WHERE
                         dimension_slots.project_id = valued.project_id),
                 array_agg(run_values),
                 array_agg((floor(date_part('epoch', occurred_at) / 3600))::int),
                 array_agg(CASE WHEN counted_as_other THEN '(other)' ELSE provider END),
                 array_agg(CASE WHEN counted_as_other THEN '(other)' ELSE model END),
                 array_agg(CASE WHEN latency_ms < 500000000 THEN (2 * latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END),
                 array_agg(weight)::bigint[],
                 array_agg(CASE WHEN status = 'error' THEN weight END)::bigint[],
                 array_agg(CASE WHEN status = 'timeout' THEN weight END)::bigint[],
                 array_agg(CASE WHEN cost_usd IS NULL THEN weight END)::bigint[],
                 array_agg(CASE WHEN without_usage THEN weight END)::bigint[],
                 array_agg(weight * cost_usd)::numeric[],
                 array_agg(weight * input_tokens)::numeric[],
                 array_agg(weight * output_tokens)::numeric[],
                 array_agg(weight * cached_input_tokens)::numeric[],
                 array_agg(weight * cache_write_tokens)::numeric[],
                 array_agg(weight * reasoning_tokens)::numeric[],
                 array_agg(weight * cache_savings_usd)::numeric[]
            FROM (SELECT each.*, ARRAY[CASE WHEN user_key IS NOT NULL THEN user_id END, CASE WHEN session_key
                    IS NOT NULL THEN session_id END, CASE WHEN tags_key IS NOT NULL THEN to_jsonb(tags)::text
                    END, coalesce(metadata ->> names[1], metadata ->> other_names[1]), coalesce(metadata ->>
                    names[2], metadata ->> other_names[2]), coalesce(metadata ->> names[3], metadata ->>
                    other_names[3]), coalesce(metadata ->> names[4], metadata ->> other_names[4]),
                    coalesce(metadata ->> names[5], metadata ->> other_names[5]), coalesce(metadata ->>
                    names[6], metadata ->> other_names[6]), coalesce(metadata ->> names[7], metadata ->>
                    other_names[7]), coalesce(metadata ->> names[8], metadata ->> other_names[8]),
                    coalesce(metadata ->> names[9], metadata ->> other_names[9]), coalesce(metadata ->>
                    names[10], metadata ->> other_names[10]), coalesce(metadata ->> names[11], metadata ->>
                    other_names[11]), coalesce(metadata ->> names[12], metadata ->> other_names[12])] AS
                    run_values
                    FROM weighed AS each
                         JOIN dimension_slots USING (project_id)
                  OFFSET 0) AS valued
           WHERE cardinality(array_remove(run_values, NULL)) > 0
        GROUP BY project_id
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
summed AS (
     INSERT INTO sum_deltas (project_id, bucket, provider, model, runs, errors, timeouts, unpriced,
             partly_priced, without_usage, estimated, cost_usd, input_tokens, output_tokens,
             cached_input_tokens, cache_write_tokens, reasoning_tokens, audio_input_tokens,
             audio_output_tokens, error_cost_usd, timeout_cost_usd, cache_savings_usd)
          SELECT project_id,
                 to_timestamp(floor(date_part('epoch', occurred_at) / (15 * 60)) * (15 * 60)),
                 CASE WHEN counted_as_other THEN '(other)' ELSE provider END,
                 CASE WHEN counted_as_other THEN '(other)' ELSE model END,
                 sum(weight) AS runs,
         coalesce(sum(weight) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(weight) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(weight) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(weight) FILTER (WHERE cost_is_minimum), 0) AS partly_priced,
         coalesce(sum(weight) FILTER (WHERE without_usage), 0) AS without_usage,
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
         coalesce(sum(weight * cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd,
         coalesce(sum(weight * cache_savings_usd), 0) AS cache_savings_usd
            FROM weighed
        GROUP BY 1, 2, 3, 4
)
SELECT count(*)
  FROM changed
