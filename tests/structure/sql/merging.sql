-- TRY_LOCK
SELECT pg_try_advisory_xact_lock(hashtext('runtally merging'))

-- MERGE_SUMS
WITH taken AS (
     DELETE FROM sum_deltas
           WHERE ctid = ANY (ARRAY(SELECT ctid FROM sum_deltas LIMIT $2))
       RETURNING sum_deltas.*
),
added AS (
  SELECT CASE WHEN is_of_all THEN '' ELSE project_id END AS project_id,
         bucket, provider, model,
         sum(runs) AS runs, sum(errors) AS errors, sum(timeouts) AS timeouts, sum(unpriced) AS unpriced,
                 sum(partly_priced) AS partly_priced, sum(without_usage) AS without_usage, sum(estimated) AS
                 estimated, sum(cost_usd) AS cost_usd, sum(input_tokens) AS input_tokens, sum(output_tokens)
                 AS output_tokens, sum(cached_input_tokens) AS cached_input_tokens, sum(cache_write_tokens) AS
                 cache_write_tokens, sum(reasoning_tokens) AS reasoning_tokens, sum(audio_input_tokens) AS
                 audio_input_tokens, sum(audio_output_tokens) AS audio_output_tokens, sum(error_cost_usd) AS
                 error_cost_usd, sum(timeout_cost_usd) AS timeout_cost_usd, sum(cache_savings_usd) AS
                 cache_savings_usd
    FROM taken
         CROSS JOIN (VALUES (TRUE), (FALSE)) AS scopes (is_of_all)
   WHERE is_of_all OR project_id <> ''
GROUP BY 1, 2, provider, model
),
rolled_totals AS (
     INSERT INTO rollup_totals AS held (project_id, grain, bucket, runs, errors, timeouts, unpriced,
             partly_priced, without_usage, estimated, cost_usd, input_tokens, output_tokens, error_cost_usd,
             timeout_cost_usd)
          SELECT project_id,
                 grains.minutes,
                 to_timestamp(floor(date_part('epoch', bucket) / (grains.minutes * 60)) * (grains.minutes *
                         60)),
                 sum(runs), sum(errors), sum(timeouts), sum(unpriced), sum(partly_priced), sum(without_usage),
                         sum(estimated), sum(cost_usd), sum(input_tokens), sum(output_tokens),
                         sum(error_cost_usd), sum(timeout_cost_usd)
            FROM added
                 CROSS JOIN (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360,
                         make_interval(days => NULL)), (1440, make_interval(days => NULL))) AS grains
                         (minutes, kept)
           WHERE (kept IS NULL OR to_timestamp(floor(date_part('epoch', bucket) / (grains.minutes * 60)) *
                   (grains.minutes * 60)) >= $1::timestamptz - kept)
        GROUP BY 1, 2, 3
        ORDER BY 1, 2, 3
     ON CONFLICT (project_id, grain, bucket) DO UPDATE
             SET runs = held.runs + excluded.runs, errors = held.errors + excluded.errors, timeouts =
                     held.timeouts + excluded.timeouts, unpriced = held.unpriced + excluded.unpriced,
                     partly_priced = held.partly_priced + excluded.partly_priced, without_usage =
                     held.without_usage + excluded.without_usage, estimated = held.estimated +
                     excluded.estimated, cost_usd = held.cost_usd + excluded.cost_usd, input_tokens =
                     held.input_tokens + excluded.input_tokens, output_tokens = held.output_tokens +
                     excluded.output_tokens, error_cost_usd = held.error_cost_usd + excluded.error_cost_usd,
                     timeout_cost_usd = held.timeout_cost_usd + excluded.timeout_cost_usd
       RETURNING 1
),
rolled AS (
     INSERT INTO rollups AS held (project_id, grain, bucket, provider, model, runs, errors, timeouts,
             unpriced, partly_priced, without_usage, estimated, cost_usd, input_tokens, output_tokens,
             cached_input_tokens, cache_write_tokens, reasoning_tokens, audio_input_tokens,
             audio_output_tokens, error_cost_usd, timeout_cost_usd, cache_savings_usd)
          SELECT project_id,
                 grains.minutes,
                 to_timestamp(floor(date_part('epoch', bucket) / (grains.minutes * 60)) * (grains.minutes *
                         60)),
                 provider, model, sum(runs), sum(errors), sum(timeouts), sum(unpriced), sum(partly_priced),
                         sum(without_usage), sum(estimated), sum(cost_usd), sum(input_tokens),
                         sum(output_tokens), sum(cached_input_tokens), sum(cache_write_tokens),
                         sum(reasoning_tokens), sum(audio_input_tokens), sum(audio_output_tokens),
                         sum(error_cost_usd), sum(timeout_cost_usd), sum(cache_savings_usd)
            FROM added
                 CROSS JOIN (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360,
                         make_interval(days => NULL))) AS grains (minutes, kept)
           WHERE (kept IS NULL OR to_timestamp(floor(date_part('epoch', bucket) / (grains.minutes * 60)) *
                   (grains.minutes * 60)) >= $1::timestamptz - kept)
             AND (SELECT count(*) FROM rolled_totals) >= 0
        GROUP BY 1, 2, 3, 4, 5
        ORDER BY 1, 2, 3, 4, 5
     ON CONFLICT (project_id, grain, bucket, provider, model) DO UPDATE
             SET runs = held.runs + excluded.runs, errors = held.errors + excluded.errors, timeouts =
                     held.timeouts + excluded.timeouts, unpriced = held.unpriced + excluded.unpriced,
                     partly_priced = held.partly_priced + excluded.partly_priced, without_usage =
                     held.without_usage + excluded.without_usage, estimated = held.estimated +
                     excluded.estimated, cost_usd = held.cost_usd + excluded.cost_usd, input_tokens =
                     held.input_tokens + excluded.input_tokens, output_tokens = held.output_tokens +
                     excluded.output_tokens, cached_input_tokens = held.cached_input_tokens +
                     excluded.cached_input_tokens, cache_write_tokens = held.cache_write_tokens +
                     excluded.cache_write_tokens, reasoning_tokens = held.reasoning_tokens +
                     excluded.reasoning_tokens, audio_input_tokens = held.audio_input_tokens +
                     excluded.audio_input_tokens, audio_output_tokens = held.audio_output_tokens +
                     excluded.audio_output_tokens, error_cost_usd = held.error_cost_usd +
                     excluded.error_cost_usd, timeout_cost_usd = held.timeout_cost_usd +
                     excluded.timeout_cost_usd, cache_savings_usd = held.cache_savings_usd +
                     excluded.cache_savings_usd
       RETURNING 1
)
SELECT count(*)
  FROM taken

-- MERGE_SKETCHES
WITH taken AS (
     DELETE FROM latency_deltas
           WHERE ctid = ANY (ARRAY(SELECT ctid
                                     FROM latency_deltas AS waiting
                                    WHERE TRUE
                                 ORDER BY project_id, bucket, id
                                    LIMIT $2))
       RETURNING latency_deltas.*
),
latencies AS (
  SELECT project_id, bucket, CASE WHEN different > 128 THEN CASE WHEN latency < 116 OR latency >= 1000000000
          THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2::float8)::float8) / 0.01980262729617973) +
                      0)) + ceil(power(1.02::float8, floor(ln((latency / 2::float8)::float8) /
                      0.01980262729617973) + 1)) - 1)::int END ELSE latency END AS latency, sum(runs) AS runs
    FROM (SELECT project_id, bucket, latency, sum(runs) AS runs, count(*) OVER (PARTITION BY project_id,
            bucket) AS different
            FROM taken CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
        GROUP BY 1, 2, 3
          HAVING sum(runs) <> 0) AS counted
GROUP BY 1, 2, 3
),
merged AS (
     INSERT INTO latency_sketches AS held (project_id, grain, bucket, latencies, counts)
          SELECT project_id, grain, bucket, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY
                  latency)
            FROM (SELECT project_id, grain, bucket, CASE WHEN different > 128 THEN CASE WHEN latency < 116 OR
                    latency >= 1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2::float8)::float8) / 0.01980262729617973) +
                      0)) + ceil(power(1.02::float8, floor(ln((latency / 2::float8)::float8) /
                      0.01980262729617973) + 1)) - 1)::int END ELSE latency END AS latency, sum(runs)::int AS
                      runs
                    FROM (SELECT scope.project_id,
                                 grains.minutes AS grain,
                                 to_timestamp(floor(date_part('epoch', bucket) / (grains.minutes * 60)) *
                                         (grains.minutes * 60)) AS bucket,
                                 latency,
                                 sum(runs) AS runs,
                                 count(*) OVER (PARTITION BY scope.project_id,
                                                             grains.minutes,
                                                             to_timestamp(floor(date_part('epoch', bucket) /
                                                                     (grains.minutes * 60)) * (grains.minutes
                                                                     * 60))) AS different
                            FROM latencies
                                 CROSS JOIN LATERAL (VALUES (latencies.project_id), ('')) AS scope
                                         (project_id)
                                 CROSS JOIN (VALUES (15, make_interval(days => 4)), (60, make_interval(days =>
                                         35)), (360, make_interval(days => NULL))) AS grains (minutes, kept)
                           WHERE kept IS NULL
                              OR to_timestamp(floor(date_part('epoch', bucket) / (grains.minutes * 60)) *
                                      (grains.minutes * 60)) >= $1::timestamptz - kept
                        GROUP BY 1, 2, 3, 4
                          HAVING sum(runs) <> 0) AS counted
                GROUP BY 1, 2, 3, 4
                  HAVING sum(runs) <> 0) AS binned
        GROUP BY 1, 2, 3
        ORDER BY project_id = '', 1, 2, 3
     ON CONFLICT (project_id, grain, bucket) DO UPDATE
             SET (latencies, counts, p50, p95) = (
                 SELECT coalesce(held.latencies, '{}'), coalesce(held.counts, '{}'), p50, p95
                   FROM (SELECT array_agg(latency) AS latencies, array_agg(runs) AS counts
                           FROM (SELECT latency, sum(runs)::int AS runs
                                   FROM (SELECT CASE WHEN (cardinality(held.latencies) +
                                           cardinality(excluded.latencies) > 128
                               OR 0 > ANY (excluded.counts)) AND cardinality(held.latencies) <= 128
                                                     THEN CASE WHEN latency < 116 OR latency >= 1000000000
                                                             THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2::float8)::float8) / 0.01980262729617973) +
                      0)) + ceil(power(1.02::float8, floor(ln((latency / 2::float8)::float8) /
                      0.01980262729617973) + 1)) - 1)::int END ELSE latency END AS latency,
                                                runs
                                           FROM unnest(held.latencies, held.counts) AS old (latency, runs)
                                      UNION ALL
                                         SELECT CASE WHEN (cardinality(held.latencies) +
                                                 cardinality(excluded.latencies) > 128
                               OR 0 > ANY (excluded.counts)) THEN CASE WHEN latency < 116 OR latency >=
                                       1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2::float8)::float8) / 0.01980262729617973) +
                      0)) + ceil(power(1.02::float8, floor(ln((latency / 2::float8)::float8) /
                      0.01980262729617973) + 1)) - 1)::int END ELSE latency END, runs
                                           FROM unnest(excluded.latencies, excluded.counts) AS new (latency,
                                                   runs)) AS added
                               GROUP BY latency
                                 HAVING sum(runs) <> 0
                               ORDER BY latency) AS merged) AS held
                        CROSS JOIN LATERAL (SELECT latencies[1 + width_bucket((reached[cardinality(reached)] *
                                50 + 99) / 100 - 1, reached)], latencies[1 +
                                width_bucket((reached[cardinality(reached)] * 95 + 99) / 100 - 1, reached)]
                     FROM (SELECT array_agg(reached ORDER BY latency) AS reached
                             FROM (SELECT latency, sum(runs) OVER (ORDER BY latency ROWS UNBOUNDED PRECEDING)
                                     AS reached
                                     FROM unnest(held.latencies, held.counts) AS each (latency, runs)
                                    WHERE cardinality(held.latencies) >= 32) AS each) AS whole)
                             AS percentiles (p50, p95)
                 )
       RETURNING 1
)
SELECT count(*)
  FROM taken
