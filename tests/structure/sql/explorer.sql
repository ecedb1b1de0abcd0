-- page: a project
  SELECT *
    FROM (SELECT *, row_number() OVER (ORDER BY occurred_at DESC, id DESC) AS step
            FROM (SELECT project_id, id, occurred_at, provider, model, status, error_code, input_tokens,
                    output_tokens, cached_input_tokens, latency_ms, cost_usd, cost_estimated, experiment_id,
                    trace_id, TRUE AS is_match
                    FROM runs
                   WHERE project_id = $1::text AND occurred_at >= $2::timestamptz
                ORDER BY occurred_at DESC, id DESC
                   LIMIT 20000) AS walked) AS numbered
   WHERE is_match OR step = 20000
ORDER BY occurred_at DESC, id DESC
   LIMIT 51

-- totals: a project
SELECT count(*) FILTER (WHERE is_match) AS runs,
       coalesce(sum(cost_usd) FILTER (WHERE is_match), 0) AS cost_usd,
       count(*) FILTER (WHERE is_match AND cost_usd IS NULL) AS unpriced,
       CASE WHEN count(*) = 10000 THEN min(occurred_at) END AS reached
  FROM (SELECT occurred_at, cost_usd, TRUE AS is_match
          FROM runs
         WHERE project_id = $1::text AND occurred_at >= $2::timestamptz
      ORDER BY occurred_at DESC
         LIMIT 10000) AS walked

-- page: every filter, towards newer runs
  SELECT *
    FROM (SELECT *, row_number() OVER (ORDER BY occurred_at ASC, id ASC) AS step
            FROM (SELECT project_id, id, occurred_at, provider, model, status, error_code, input_tokens,
                    output_tokens, cached_input_tokens, latency_ms, cost_usd, cost_estimated, experiment_id,
                    trace_id, provider = $10::text AND model = $11::text AND status = $12::text AND cost_usd
                    >= $13::numeric AND cost_usd <= $14::numeric AND latency_ms >= $15::bigint AND latency_ms
                    <= $16::bigint AND (metadata ->> $17::text = $18::text OR metadata #>>
                    string_to_array($17::text, '.') = $18::text) AS is_match
                    FROM runs
                   WHERE project_id = $1::text AND occurred_at >= $2::timestamptz AND occurred_at <
                           $3::timestamptz AND occurred_at >= $4::timestamptz AND (occurred_at, id,
                           project_id) > ($4::timestamptz, $5::text, $6::text) AND trace_id = $7::text AND
                           experiment_id = $8::text AND (id = $9::text OR trace_id = $9::text) AND status <>
                           'success'
                ORDER BY occurred_at ASC, id ASC
                   LIMIT 20000) AS walked) AS numbered
   WHERE is_match OR step = 20000
ORDER BY occurred_at ASC, id ASC
   LIMIT 51

-- totals: every filter, towards newer runs
SELECT count(*) FILTER (WHERE is_match) AS runs,
       coalesce(sum(cost_usd) FILTER (WHERE is_match), 0) AS cost_usd,
       count(*) FILTER (WHERE is_match AND cost_usd IS NULL) AS unpriced,
       CASE WHEN count(*) = 10000 THEN min(occurred_at) END AS reached
  FROM (SELECT occurred_at, cost_usd, provider = $10::text AND model = $11::text AND status = $12::text AND
          cost_usd >= $13::numeric AND cost_usd <= $14::numeric AND latency_ms >= $15::bigint AND latency_ms
          <= $16::bigint AND (metadata ->> $17::text = $18::text OR metadata #>> string_to_array($17::text,
          '.') = $18::text) AS is_match
          FROM runs
         WHERE project_id = $1::text AND occurred_at >= $2::timestamptz AND occurred_at < $3::timestamptz AND
                 occurred_at >= $4::timestamptz AND (occurred_at, id, project_id) > ($4::timestamptz,
                 $5::text, $6::text) AND trace_id = $7::text AND experiment_id = $8::text AND (id = $9::text
                 OR trace_id = $9::text) AND status <> 'success'
      ORDER BY occurred_at DESC
         LIMIT 10000) AS walked

-- page: failed runs with a key in their metadata
  SELECT *
    FROM (SELECT *, row_number() OVER (ORDER BY occurred_at DESC, id DESC) AS step
            FROM (SELECT project_id, id, occurred_at, provider, model, status, error_code, input_tokens,
                    output_tokens, cached_input_tokens, latency_ms, cost_usd, cost_estimated, experiment_id,
                    trace_id, metadata ? $2::text AS is_match
                    FROM runs
                   WHERE project_id = $1::text AND status <> 'success'
                ORDER BY occurred_at DESC, id DESC
                   LIMIT 20000) AS walked) AS numbered
   WHERE is_match OR step = 20000
ORDER BY occurred_at DESC, id DESC
   LIMIT 51

-- totals: failed runs with a key in their metadata
SELECT count(*) FILTER (WHERE is_match) AS runs,
       coalesce(sum(cost_usd) FILTER (WHERE is_match), 0) AS cost_usd,
       count(*) FILTER (WHERE is_match AND cost_usd IS NULL) AS unpriced,
       CASE WHEN count(*) = 10000 THEN min(occurred_at) END AS reached
  FROM (SELECT occurred_at, cost_usd, metadata ? $2::text AS is_match
          FROM runs
         WHERE project_id = $1::text AND status <> 'success'
      ORDER BY occurred_at DESC
         LIMIT 10000) AS walked

-- page: all projects, within a stretch
  SELECT found.*
    FROM projects
         CROSS JOIN LATERAL (SELECT project_id, id, occurred_at, provider, model, status, error_code,
                 input_tokens, output_tokens, cached_input_tokens, latency_ms, cost_usd, cost_estimated,
                 experiment_id, trace_id, TRUE AS is_match, 0 AS step
                               FROM runs
                              WHERE project_id = projects.id AND occurred_at >= $1::timestamptz AND
                                      occurred_at <= $2::timestamptz AND (occurred_at, id, project_id) <
                                      ($2::timestamptz, $3::text, $4::text) AND occurred_at >= $5::timestamptz
                                      AND occurred_at < $6::timestamptz AND model = ANY($7::text[]) AND
                                      provider = $8::text
                           ORDER BY occurred_at DESC
                              FETCH FIRST 51 ROWS WITH TIES) AS found
ORDER BY occurred_at DESC, id DESC, project_id DESC
   LIMIT 51

-- totals: all projects, within a stretch
SELECT count(*) FILTER (WHERE is_match) AS runs,
       coalesce(sum(cost_usd) FILTER (WHERE is_match), 0) AS cost_usd,
       count(*) FILTER (WHERE is_match AND cost_usd IS NULL) AS unpriced,
       CASE WHEN count(*) = 10000 THEN min(occurred_at) END AS reached
  FROM (SELECT found.*
          FROM projects
               CROSS JOIN LATERAL (SELECT occurred_at, cost_usd, provider = $8::text AS is_match
                                     FROM runs
                                    WHERE project_id = projects.id AND occurred_at >= $1::timestamptz AND
                                            occurred_at <= $2::timestamptz AND (occurred_at, id, project_id) <
                                            ($2::timestamptz, $3::text, $4::text) AND occurred_at >=
                                            $5::timestamptz AND occurred_at < $6::timestamptz AND model =
                                            ANY($7::text[])) AS found) AS walked

-- extremes: every filter
WITH walked AS MATERIALIZED (
    SELECT project_id, id, occurred_at, latency_ms, cost_usd, provider = $10::text AND model = $11::text AND
            status = $12::text AND cost_usd >= $13::numeric AND cost_usd <= $14::numeric AND latency_ms >=
            $15::bigint AND latency_ms <= $16::bigint AND (metadata ->> $17::text = $18::text OR metadata #>>
            string_to_array($17::text, '.') = $18::text) AS is_match
      FROM runs
     WHERE project_id = $1::text AND occurred_at >= $2::timestamptz AND occurred_at < $3::timestamptz AND
             occurred_at >= $4::timestamptz AND (occurred_at, id, project_id) > ($4::timestamptz, $5::text,
             $6::text) AND trace_id = $7::text AND experiment_id = $8::text AND (id = $9::text OR trace_id =
             $9::text) AND status <> 'success'
  ORDER BY occurred_at DESC
     LIMIT 5000
),
found AS (
(  SELECT 'slowest' AS list, project_id, id
     FROM walked
    WHERE is_match AND latency_ms IS NOT NULL
 ORDER BY latency_ms DESC, occurred_at DESC, id
    LIMIT 5)
UNION ALL
(  SELECT 'costliest', project_id, id
     FROM walked
    WHERE is_match AND cost_usd > 0
 ORDER BY cost_usd DESC, occurred_at DESC, id
    LIMIT 5)
)
  SELECT list,
         (SELECT CASE WHEN count(*) = 5000 THEN min(occurred_at) END FROM walked) AS reached,
         listed.*
    FROM found
         CROSS JOIN LATERAL (SELECT project_id, id, occurred_at, provider, model, status, error_code,
                 input_tokens, output_tokens, cached_input_tokens, latency_ms, cost_usd, cost_estimated,
                 experiment_id, trace_id
                               FROM runs
                              WHERE project_id = found.project_id
                                AND id = found.id) AS listed
ORDER BY list, CASE list WHEN 'slowest' THEN latency_ms ELSE cost_usd END DESC, occurred_at DESC, id

-- latencies: a project
  SELECT provider, model, min(occurred_at) AS since, array_agg(CASE WHEN latency_ms < 500000000 THEN (2 *
          latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END) AS latencies
    FROM (SELECT provider, model, latency_ms, occurred_at
            FROM runs
           WHERE project_id = $1::text AND occurred_at >= $2::timestamptz AND TRUE AND latency_ms IS NOT NULL
        ORDER BY occurred_at DESC
           LIMIT 10000) AS walked
GROUP BY 1, 2

-- export: every filter
  SELECT project_id, id, occurred_at, provider, model, status, error_code, input_tokens, output_tokens,
          cached_input_tokens, cache_write_tokens, reasoning_tokens, audio_input_tokens, audio_output_tokens,
          latency_ms, cost_usd, cost_source, cost_estimated, reported_cost_usd, price_entry_id, experiment_id,
          trace_id, client_id, idempotency_key, prompt_hash, prompt_preview, metadata, created_at, version
    FROM runs
   WHERE project_id = $1::text AND occurred_at >= $2::timestamptz AND occurred_at < $3::timestamptz AND
           occurred_at >= $4::timestamptz AND (occurred_at, id, project_id) > ($4::timestamptz, $5::text,
           $6::text) AND trace_id = $7::text AND experiment_id = $8::text AND (id = $9::text OR trace_id =
           $9::text) AND status <> 'success' AND provider = $10::text AND model = $11::text AND status =
           $12::text AND cost_usd >= $13::numeric AND cost_usd <= $14::numeric AND latency_ms >= $15::bigint
           AND latency_ms <= $16::bigint AND (metadata ->> $17::text = $18::text OR metadata #>>
           string_to_array($17::text, '.') = $18::text)
ORDER BY occurred_at DESC, id DESC, project_id DESC
