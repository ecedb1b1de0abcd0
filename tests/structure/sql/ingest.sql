-- INSERT_RUNS
WITH sent AS MATERIALIZED (
SELECT * FROM json_to_recordset($1::json) AS sent (project_id TEXT, id TEXT, occurred_at TIMESTAMP WITH TIME
        ZONE, provider TEXT, model TEXT, status TEXT, error_code TEXT, finish_reason TEXT, input_tokens
        BIGINT, output_tokens BIGINT, cached_input_tokens BIGINT, cache_write_tokens BIGINT, reasoning_tokens
        BIGINT, audio_input_tokens BIGINT, audio_output_tokens BIGINT, units JSONB, service_tier TEXT, region
        TEXT, latency_ms BIGINT, time_to_first_token_ms BIGINT, cost_usd NUMERIC(38, 12), cost_source TEXT,
        cost_estimated BOOLEAN, cost_is_minimum BOOLEAN, without_usage BOOLEAN, counted_as_other BOOLEAN,
        cache_savings_usd NUMERIC(38, 12), reported_cost_usd NUMERIC(38, 12), price_entry_id BIGINT,
        experiment_id TEXT, trace_id TEXT, session_id TEXT, user_id TEXT, tags TEXT[], key_id UUID, client_id
        TEXT, idempotency_key TEXT, prompt_hash TEXT, prompt_preview TEXT, metadata JSONB, created_at
        TIMESTAMP WITH TIME ZONE, version INTEGER)
),
new_projects AS (
     INSERT INTO projects (id, name, created_at)
          SELECT project_id, project_id, min(created_at)
            FROM sent
        GROUP BY project_id
        ORDER BY project_id
     ON CONFLICT (id) DO NOTHING
),
new_experiments AS (
     INSERT INTO experiments (project_id, id, created_at)
          SELECT project_id, experiment_id, min(created_at)
            FROM sent
           WHERE experiment_id IS NOT NULL
             AND (project_id, experiment_id) NOT IN (SELECT * FROM unnest($4::text[], $5::text[]))
        GROUP BY project_id, experiment_id
        ORDER BY project_id, experiment_id
     ON CONFLICT (project_id, id) DO NOTHING
),
stored AS (
INSERT INTO runs (project_id, id, occurred_at, provider, model, status, error_code, finish_reason,
        input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens,
        audio_input_tokens, audio_output_tokens, units, service_tier, region, latency_ms,
        time_to_first_token_ms, cost_usd, cost_source, cost_estimated, cost_is_minimum, without_usage,
        counted_as_other, cache_savings_usd, reported_cost_usd, price_entry_id, experiment_id, trace_id,
        session_id, user_id, tags, key_id, client_id, idempotency_key, prompt_hash, prompt_preview, metadata,
        created_at, version)
     SELECT project_id, id, occurred_at, provider, model, status, error_code, finish_reason, input_tokens,
             output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens, audio_input_tokens,
             audio_output_tokens, units, service_tier, region, latency_ms, time_to_first_token_ms, cost_usd,
             cost_source, cost_estimated, cost_is_minimum, without_usage, counted_as_other, cache_savings_usd,
             reported_cost_usd, price_entry_id, experiment_id, trace_id, session_id, user_id, tags, key_id,
             client_id, idempotency_key, prompt_hash, prompt_preview, metadata, created_at, version FROM sent
ON CONFLICT (project_id, id) DO NOTHING
  RETURNING project_id, occurred_at, provider, model, status, latency_ms, cost_estimated, cost_is_minimum,
          without_usage, counted_as_other, cost_usd, input_tokens, output_tokens, cached_input_tokens,
          cache_write_tokens, reasoning_tokens, audio_input_tokens, audio_output_tokens, cache_savings_usd,
          user_id, session_id, tags, metadata, id, version, created_at
),
queued AS (
     INSERT INTO outbox_arrivals (project_id, queued_at, runs, run_ids)
          SELECT project_id, min(created_at), count(*), array_agg(id)
            FROM stored
           WHERE $2::boolean
        GROUP BY project_id
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
    FROM (SELECT DISTINCT project_id FROM stored) AS scope
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
                 $3::timestamptz,
                 count(*),
                 (SELECT ARRAY[user_key, session_key, tags_key] || metadata_keys FROM dimension_slots WHERE
                         dimension_slots.project_id = valued.project_id),
                 array_agg(run_values),
                 array_agg((floor(date_part('epoch', occurred_at) / 3600))::int),
                 array_agg(CASE WHEN counted_as_other THEN '(other)' ELSE provider END),
                 array_agg(CASE WHEN counted_as_other THEN '(other)' ELSE model END),
                 array_agg(CASE WHEN latency_ms < 500000000 THEN (2 * latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END),
                 array_agg(1)::bigint[],
                 array_agg(CASE WHEN status = 'error' THEN 1 END)::bigint[],
                 array_agg(CASE WHEN status = 'timeout' THEN 1 END)::bigint[],
                 array_agg(CASE WHEN cost_usd IS NULL THEN 1 END)::bigint[],
                 array_agg(CASE WHEN without_usage THEN 1 END)::bigint[],
                 array_agg(cost_usd)::numeric[],
                 array_agg(input_tokens)::numeric[],
                 array_agg(output_tokens)::numeric[],
                 array_agg(cached_input_tokens)::numeric[],
                 array_agg(cache_write_tokens)::numeric[],
                 array_agg(reasoning_tokens)::numeric[],
                 array_agg(cache_savings_usd)::numeric[]
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
                    FROM stored AS each
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
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END AS latency, 1
                      AS runs FROM stored WHERE latency_ms IS NOT NULL) AS latencies
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
                 sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_is_minimum), 0) AS partly_priced,
         coalesce(sum(1) FILTER (WHERE without_usage), 0) AS without_usage,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         coalesce(sum(input_tokens), 0) AS input_tokens,
         coalesce(sum(output_tokens), 0) AS output_tokens,
         coalesce(sum(cached_input_tokens), 0) AS cached_input_tokens,
         coalesce(sum(cache_write_tokens), 0) AS cache_write_tokens,
         coalesce(sum(reasoning_tokens), 0) AS reasoning_tokens,
         coalesce(sum(audio_input_tokens), 0) AS audio_input_tokens,
         coalesce(sum(audio_output_tokens), 0) AS audio_output_tokens,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'error'), 0) AS error_cost_usd,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd,
         coalesce(sum(cache_savings_usd), 0) AS cache_savings_usd
            FROM stored
        GROUP BY 1, 2, 3, 4
)
SELECT project_id, id FROM sent
EXCEPT ALL
SELECT project_id, id FROM stored

-- INSERT_NEW_RUNS
WITH sent AS MATERIALIZED (
SELECT * FROM json_to_recordset($1::json) AS sent (project_id TEXT, id TEXT, occurred_at TIMESTAMP WITH TIME
        ZONE, provider TEXT, model TEXT, status TEXT, error_code TEXT, finish_reason TEXT, input_tokens
        BIGINT, output_tokens BIGINT, cached_input_tokens BIGINT, cache_write_tokens BIGINT, reasoning_tokens
        BIGINT, audio_input_tokens BIGINT, audio_output_tokens BIGINT, units JSONB, service_tier TEXT, region
        TEXT, latency_ms BIGINT, time_to_first_token_ms BIGINT, cost_usd NUMERIC(38, 12), cost_source TEXT,
        cost_estimated BOOLEAN, cost_is_minimum BOOLEAN, without_usage BOOLEAN, counted_as_other BOOLEAN,
        cache_savings_usd NUMERIC(38, 12), reported_cost_usd NUMERIC(38, 12), price_entry_id BIGINT,
        experiment_id TEXT, trace_id TEXT, session_id TEXT, user_id TEXT, tags TEXT[], key_id UUID, client_id
        TEXT, idempotency_key TEXT, prompt_hash TEXT, prompt_preview TEXT, metadata JSONB, created_at
        TIMESTAMP WITH TIME ZONE, version INTEGER)
),
new_projects AS (
     INSERT INTO projects (id, name, created_at)
          SELECT project_id, project_id, min(created_at)
            FROM sent
        GROUP BY project_id
        ORDER BY project_id
     ON CONFLICT (id) DO NOTHING
),
new_experiments AS (
     INSERT INTO experiments (project_id, id, created_at)
          SELECT project_id, experiment_id, min(created_at)
            FROM sent
           WHERE experiment_id IS NOT NULL
             AND (project_id, experiment_id) NOT IN (SELECT * FROM unnest($4::text[], $5::text[]))
        GROUP BY project_id, experiment_id
        ORDER BY project_id, experiment_id
     ON CONFLICT (project_id, id) DO NOTHING
),
stored AS (
INSERT INTO runs (project_id, id, occurred_at, provider, model, status, error_code, finish_reason,
        input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens,
        audio_input_tokens, audio_output_tokens, units, service_tier, region, latency_ms,
        time_to_first_token_ms, cost_usd, cost_source, cost_estimated, cost_is_minimum, without_usage,
        counted_as_other, cache_savings_usd, reported_cost_usd, price_entry_id, experiment_id, trace_id,
        session_id, user_id, tags, key_id, client_id, idempotency_key, prompt_hash, prompt_preview, metadata,
        created_at, version)
     SELECT project_id, id, occurred_at, provider, model, status, error_code, finish_reason, input_tokens,
             output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens, audio_input_tokens,
             audio_output_tokens, units, service_tier, region, latency_ms, time_to_first_token_ms, cost_usd,
             cost_source, cost_estimated, cost_is_minimum, without_usage, counted_as_other, cache_savings_usd,
             reported_cost_usd, price_entry_id, experiment_id, trace_id, session_id, user_id, tags, key_id,
             client_id, idempotency_key, prompt_hash, prompt_preview, metadata, created_at, version FROM sent
  RETURNING project_id, occurred_at, provider, model, status, latency_ms, cost_estimated, cost_is_minimum,
          without_usage, counted_as_other, cost_usd, input_tokens, output_tokens, cached_input_tokens,
          cache_write_tokens, reasoning_tokens, audio_input_tokens, audio_output_tokens, cache_savings_usd,
          user_id, session_id, tags, metadata, id, version, created_at
),
queued AS (
     INSERT INTO outbox_arrivals (project_id, queued_at, runs, run_ids)
          SELECT project_id, min(created_at), count(*), array_agg(id)
            FROM stored
           WHERE $2::boolean
        GROUP BY project_id
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
    FROM (SELECT DISTINCT project_id FROM stored) AS scope
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
                 $3::timestamptz,
                 count(*),
                 (SELECT ARRAY[user_key, session_key, tags_key] || metadata_keys FROM dimension_slots WHERE
                         dimension_slots.project_id = valued.project_id),
                 array_agg(run_values),
                 array_agg((floor(date_part('epoch', occurred_at) / 3600))::int),
                 array_agg(CASE WHEN counted_as_other THEN '(other)' ELSE provider END),
                 array_agg(CASE WHEN counted_as_other THEN '(other)' ELSE model END),
                 array_agg(CASE WHEN latency_ms < 500000000 THEN (2 * latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END),
                 array_agg(1)::bigint[],
                 array_agg(CASE WHEN status = 'error' THEN 1 END)::bigint[],
                 array_agg(CASE WHEN status = 'timeout' THEN 1 END)::bigint[],
                 array_agg(CASE WHEN cost_usd IS NULL THEN 1 END)::bigint[],
                 array_agg(CASE WHEN without_usage THEN 1 END)::bigint[],
                 array_agg(cost_usd)::numeric[],
                 array_agg(input_tokens)::numeric[],
                 array_agg(output_tokens)::numeric[],
                 array_agg(cached_input_tokens)::numeric[],
                 array_agg(cache_write_tokens)::numeric[],
                 array_agg(reasoning_tokens)::numeric[],
                 array_agg(cache_savings_usd)::numeric[]
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
                    FROM stored AS each
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
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END AS latency, 1
                      AS runs FROM stored WHERE latency_ms IS NOT NULL) AS latencies
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
                 sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(1) FILTER (WHERE cost_is_minimum), 0) AS partly_priced,
         coalesce(sum(1) FILTER (WHERE without_usage), 0) AS without_usage,
         coalesce(sum(1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         coalesce(sum(input_tokens), 0) AS input_tokens,
         coalesce(sum(output_tokens), 0) AS output_tokens,
         coalesce(sum(cached_input_tokens), 0) AS cached_input_tokens,
         coalesce(sum(cache_write_tokens), 0) AS cache_write_tokens,
         coalesce(sum(reasoning_tokens), 0) AS reasoning_tokens,
         coalesce(sum(audio_input_tokens), 0) AS audio_input_tokens,
         coalesce(sum(audio_output_tokens), 0) AS audio_output_tokens,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'error'), 0) AS error_cost_usd,
         coalesce(sum(cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd,
         coalesce(sum(cache_savings_usd), 0) AS cache_savings_usd
            FROM stored
        GROUP BY 1, 2, 3, 4
)
SELECT project_id, id FROM sent WHERE FALSE
