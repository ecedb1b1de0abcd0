-- SET_UP
SET LOCAL work_mem = '64MB'; SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL jit = off

-- TRY_LOCK
SELECT pg_try_advisory_xact_lock(hashtext('runtally folding'))

-- FOLD
WITH taken AS (
     DELETE FROM latency_deltas
           USING (SELECT project_id, bucket, id
                    FROM latency_deltas AS waiting
                   WHERE TRUE
                ORDER BY project_id, bucket, id
                   LIMIT $2 FOR UPDATE SKIP LOCKED) AS oldest
           WHERE (latency_deltas.project_id, latency_deltas.bucket, latency_deltas.id)
                 = (oldest.project_id, oldest.bucket, oldest.id)
       RETURNING latency_deltas.*
),
latencies AS (
  SELECT project_id, bucket, latency, sum(runs) AS runs
    FROM taken CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
GROUP BY 1, 2, 3
),
folded AS (
     INSERT INTO latency_sketches AS held (project_id, grain, bucket, latencies, counts)
          SELECT project_id, grain, bucket, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY
                  latency)
            FROM (SELECT project_id, grain, bucket, CASE WHEN different > 128 THEN CASE WHEN latency < 100 OR
                    latency >= 1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END ELSE latency END AS latency, sum(runs)::int AS runs
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
                                                     THEN CASE WHEN latency < 100 OR latency >= 1000000000
                                                             THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END ELSE latency END AS latency,
                                                runs
                                           FROM unnest(held.latencies, held.counts) AS old (latency, runs)
                                      UNION ALL
                                         SELECT CASE WHEN (cardinality(held.latencies) +
                                                 cardinality(excluded.latencies) > 128
                               OR 0 > ANY (excluded.counts)) THEN CASE WHEN latency < 100 OR latency >=
                                       1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END ELSE latency END, runs
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

-- SELECT_SPANS
  SELECT scopes.id,
         least((SELECT min(occurred_at) FROM runs WHERE project_id = scopes.id),
               (SELECT min(bucket) FROM rollups WHERE project_id = scopes.id AND grain = 360)) AS first,
         greatest((SELECT max(occurred_at) FROM runs WHERE project_id = scopes.id),
                  (SELECT max(bucket) FROM rollups WHERE project_id = scopes.id AND grain = 360)) AS last,
         (SELECT dropped_before FROM projects WHERE projects.id = scopes.id) AS dropped_before
    FROM (SELECT id FROM projects
           UNION
          SELECT DISTINCT project_id FROM rollups WHERE grain = 360 AND project_id <> '') AS scopes
ORDER BY 1

-- SELECT_SPAN_OF_ALL
SELECT min(bucket) AS first, max(bucket) AS last FROM rollups WHERE grain = 360

-- SELECT_COUNTS
  SELECT project_id, count(*)
    FROM runs
   WHERE project_id = ANY ($1::text[]) AND occurred_at >= $2 AND occurred_at < $3
GROUP BY 1

-- SELECT_IS_MISSING
SELECT EXISTS (SELECT FROM runs) AND NOT EXISTS (SELECT FROM rollups)
       OR EXISTS (SELECT FROM rollups) AND NOT EXISTS (SELECT FROM rollup_totals)

-- DELETE_EXPIRED_CELLS
WITH expired AS (
  SELECT rollups.project_id, grain, bucket, provider, model
    FROM (SELECT id FROM projects UNION ALL SELECT '') AS scopes
         JOIN rollups ON rollups.project_id = scopes.id
   WHERE grain = $1 AND bucket < $2
   LIMIT $3
     FOR UPDATE OF rollups SKIP LOCKED
)
DELETE FROM rollups USING expired
      WHERE (rollups.project_id, rollups.grain, rollups.bucket) = (expired.project_id, expired.grain,
              expired.bucket)
  RETURNING 1

-- DELETE_EXPIRED_TOTALS
WITH expired AS (
  SELECT rollup_totals.project_id, grain, bucket
    FROM (SELECT id FROM projects UNION ALL SELECT '') AS scopes
         JOIN rollup_totals ON rollup_totals.project_id = scopes.id
   WHERE grain = $1 AND bucket < $2
   LIMIT $3
     FOR UPDATE OF rollup_totals SKIP LOCKED
)
DELETE FROM rollup_totals USING expired
      WHERE (rollup_totals.project_id, rollup_totals.grain, rollup_totals.bucket) = (expired.project_id,
              expired.grain, expired.bucket)
  RETURNING 1

-- DELETE_EXPIRED_SKETCHES
WITH expired AS (
  SELECT latency_sketches.project_id, grain, bucket
    FROM (SELECT id FROM projects UNION ALL SELECT '') AS scopes
         JOIN latency_sketches ON latency_sketches.project_id = scopes.id
   WHERE grain = $1 AND bucket < $2
   LIMIT $3
     FOR UPDATE OF latency_sketches SKIP LOCKED
)
DELETE FROM latency_sketches USING expired
      WHERE (latency_sketches.project_id, latency_sketches.grain, latency_sketches.bucket) =
              (expired.project_id, expired.grain, expired.bucket)
  RETURNING 1

-- ON_REBUILT_SKETCH
ON CONFLICT (project_id, grain, bucket) DO UPDATE
             SET (latencies, counts, p50, p95) = (
                 SELECT coalesce(held.latencies, '{}'), coalesce(held.counts, '{}'), p50, p95
                   FROM (SELECT array_agg(latency) AS latencies, array_agg(runs) AS counts
                           FROM (SELECT latency, sum(runs)::int AS runs
                                   FROM (SELECT CASE WHEN (cardinality(held.latencies) +
                                           cardinality(excluded.latencies) > 128
                               OR 0 > ANY (excluded.counts)) AND cardinality(held.latencies) <= 128
                                                     THEN CASE WHEN latency < 100 OR latency >= 1000000000
                                                             THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END ELSE latency END AS latency,
                                                runs
                                           FROM unnest(held.latencies, held.counts) AS old (latency, runs)
                                      UNION ALL
                                         SELECT CASE WHEN (cardinality(held.latencies) +
                                                 cardinality(excluded.latencies) > 128
                               OR 0 > ANY (excluded.counts)) THEN CASE WHEN latency < 100 OR latency >=
                                       1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END ELSE latency END, runs
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
                                    WHERE cardinality(held.latencies) >= 1) AS each) AS whole)
                             AS percentiles (p50, p95)
                 )

-- PERCENTILES
(SELECT latencies[1 + width_bucket((reached[cardinality(reached)] * 50 + 99) / 100 - 1, reached)], latencies[1
        + width_bucket((reached[cardinality(reached)] * 95 + 99) / 100 - 1, reached)]
                     FROM (SELECT array_agg(reached ORDER BY latency) AS reached
                             FROM (SELECT latency, sum(runs) OVER (ORDER BY latency ROWS UNBOUNDED PRECEDING)
                                     AS reached
                                     FROM unnest(held.latencies, held.counts) AS each (latency, runs)
                                    WHERE TRUE) AS each) AS whole)

-- ADD_CELLS
WITH difference AS (
  SELECT project_id, grain, bucket, provider, model,
         coalesce(should_be.runs, 0) - coalesce(stored.runs, 0) AS runs,
         coalesce(should_be.errors, 0) - coalesce(stored.errors, 0) AS errors,
         coalesce(should_be.timeouts, 0) - coalesce(stored.timeouts, 0) AS timeouts,
         coalesce(should_be.unpriced, 0) - coalesce(stored.unpriced, 0) AS unpriced,
         coalesce(should_be.estimated, 0) - coalesce(stored.estimated, 0) AS estimated,
         coalesce(should_be.cost_usd, 0) - coalesce(stored.cost_usd, 0) AS cost_usd,
         coalesce(should_be.input_tokens, 0) - coalesce(stored.input_tokens, 0) AS input_tokens,
         coalesce(should_be.output_tokens, 0) - coalesce(stored.output_tokens, 0) AS output_tokens,
         coalesce(should_be.cached_input_tokens, 0) - coalesce(stored.cached_input_tokens, 0) AS
                 cached_input_tokens,
         coalesce(should_be.cache_write_tokens, 0) - coalesce(stored.cache_write_tokens, 0) AS
                 cache_write_tokens,
         coalesce(should_be.reasoning_tokens, 0) - coalesce(stored.reasoning_tokens, 0) AS reasoning_tokens,
         coalesce(should_be.audio_input_tokens, 0) - coalesce(stored.audio_input_tokens, 0) AS
                 audio_input_tokens,
         coalesce(should_be.audio_output_tokens, 0) - coalesce(stored.audio_output_tokens, 0) AS
                 audio_output_tokens,
         coalesce(should_be.error_cost_usd, 0) - coalesce(stored.error_cost_usd, 0) AS error_cost_usd,
         coalesce(should_be.timeout_cost_usd, 0) - coalesce(stored.timeout_cost_usd, 0) AS timeout_cost_usd
    FROM (
  SELECT project_id, minutes AS grain, to_timestamp(floor(date_part('epoch', occurred_at) / (minutes * 60)) *
          (minutes * 60)) AS bucket, provider, model,
         sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
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
         coalesce(sum(cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd
    FROM runs CROSS JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM
            (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days
            => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains
   WHERE project_id = ANY ($1::text[]) AND occurred_at >= $2 AND occurred_at < $3 AND project_id NOT IN
           (SELECT id FROM projects WHERE dropped_before > $2) AND to_timestamp(floor(date_part('epoch',
           occurred_at) / (minutes * 60)) * (minutes * 60)) >= kept_since
GROUP BY 1, 2, 3, 4, 5) AS should_be
         FULL JOIN (
  SELECT project_id, grain, bucket, provider, model, runs, errors, timeouts, unpriced, estimated, cost_usd,
          input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens,
          audio_input_tokens, audio_output_tokens, error_cost_usd, timeout_cost_usd
    FROM rollups JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM
            (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days
            => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON minutes = grain
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND project_id NOT IN (SELECT id FROM
           projects WHERE dropped_before > $2) AND bucket >= kept_since) AS stored USING (project_id, grain,
           bucket, provider, model)
   WHERE (coalesce(should_be.runs, 0), coalesce(should_be.errors, 0), coalesce(should_be.timeouts, 0),
           coalesce(should_be.unpriced, 0), coalesce(should_be.estimated, 0), coalesce(should_be.cost_usd, 0),
           coalesce(should_be.input_tokens, 0), coalesce(should_be.output_tokens, 0),
           coalesce(should_be.cached_input_tokens, 0), coalesce(should_be.cache_write_tokens, 0),
           coalesce(should_be.reasoning_tokens, 0), coalesce(should_be.audio_input_tokens, 0),
           coalesce(should_be.audio_output_tokens, 0), coalesce(should_be.error_cost_usd, 0),
           coalesce(should_be.timeout_cost_usd, 0))
         <> (coalesce(stored.runs, 0), coalesce(stored.errors, 0), coalesce(stored.timeouts, 0),
                 coalesce(stored.unpriced, 0), coalesce(stored.estimated, 0), coalesce(stored.cost_usd, 0),
                 coalesce(stored.input_tokens, 0), coalesce(stored.output_tokens, 0),
                 coalesce(stored.cached_input_tokens, 0), coalesce(stored.cache_write_tokens, 0),
                 coalesce(stored.reasoning_tokens, 0), coalesce(stored.audio_input_tokens, 0),
                 coalesce(stored.audio_output_tokens, 0), coalesce(stored.error_cost_usd, 0),
                 coalesce(stored.timeout_cost_usd, 0))
),
changed AS (
     INSERT INTO rollups AS held (project_id, grain, bucket, provider, model, runs, errors, timeouts,
             unpriced, estimated, cost_usd, input_tokens, output_tokens, cached_input_tokens,
             cache_write_tokens, reasoning_tokens, audio_input_tokens, audio_output_tokens, error_cost_usd,
             timeout_cost_usd)
          SELECT project_id, grain, bucket, provider, model, runs, errors, timeouts, unpriced, estimated,
                  cost_usd, input_tokens, output_tokens, cached_input_tokens, cache_write_tokens,
                  reasoning_tokens, audio_input_tokens, audio_output_tokens, error_cost_usd, timeout_cost_usd
            FROM difference
        ORDER BY project_id, grain, bucket, provider, model
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
       RETURNING project_id
)
  SELECT project_id, count(*)
    FROM changed
GROUP BY 1

-- ADD_CELLS_OF_ALL
WITH difference AS (
  SELECT project_id, grain, bucket, provider, model,
         coalesce(should_be.runs, 0) - coalesce(stored.runs, 0) AS runs,
         coalesce(should_be.errors, 0) - coalesce(stored.errors, 0) AS errors,
         coalesce(should_be.timeouts, 0) - coalesce(stored.timeouts, 0) AS timeouts,
         coalesce(should_be.unpriced, 0) - coalesce(stored.unpriced, 0) AS unpriced,
         coalesce(should_be.estimated, 0) - coalesce(stored.estimated, 0) AS estimated,
         coalesce(should_be.cost_usd, 0) - coalesce(stored.cost_usd, 0) AS cost_usd,
         coalesce(should_be.input_tokens, 0) - coalesce(stored.input_tokens, 0) AS input_tokens,
         coalesce(should_be.output_tokens, 0) - coalesce(stored.output_tokens, 0) AS output_tokens,
         coalesce(should_be.cached_input_tokens, 0) - coalesce(stored.cached_input_tokens, 0) AS
                 cached_input_tokens,
         coalesce(should_be.cache_write_tokens, 0) - coalesce(stored.cache_write_tokens, 0) AS
                 cache_write_tokens,
         coalesce(should_be.reasoning_tokens, 0) - coalesce(stored.reasoning_tokens, 0) AS reasoning_tokens,
         coalesce(should_be.audio_input_tokens, 0) - coalesce(stored.audio_input_tokens, 0) AS
                 audio_input_tokens,
         coalesce(should_be.audio_output_tokens, 0) - coalesce(stored.audio_output_tokens, 0) AS
                 audio_output_tokens,
         coalesce(should_be.error_cost_usd, 0) - coalesce(stored.error_cost_usd, 0) AS error_cost_usd,
         coalesce(should_be.timeout_cost_usd, 0) - coalesce(stored.timeout_cost_usd, 0) AS timeout_cost_usd
    FROM (
  SELECT '' AS project_id, minutes AS grain, bucket AS bucket, provider, model,
         sum(runs) AS runs, sum(errors) AS errors, sum(timeouts) AS timeouts, sum(unpriced) AS unpriced,
                 sum(estimated) AS estimated, sum(cost_usd) AS cost_usd, sum(input_tokens) AS input_tokens,
                 sum(output_tokens) AS output_tokens, sum(cached_input_tokens) AS cached_input_tokens,
                 sum(cache_write_tokens) AS cache_write_tokens, sum(reasoning_tokens) AS reasoning_tokens,
                 sum(audio_input_tokens) AS audio_input_tokens, sum(audio_output_tokens) AS
                 audio_output_tokens, sum(error_cost_usd) AS error_cost_usd, sum(timeout_cost_usd) AS
                 timeout_cost_usd
    FROM rollups JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM
            (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days
            => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON grain = minutes
   WHERE project_id <> '' AND bucket >= $2 AND bucket < $3 AND bucket >= kept_since
GROUP BY 1, 2, 3, 4, 5) AS should_be
         FULL JOIN (
  SELECT project_id, grain, bucket, provider, model, runs, errors, timeouts, unpriced, estimated, cost_usd,
          input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens,
          audio_input_tokens, audio_output_tokens, error_cost_usd, timeout_cost_usd
    FROM rollups JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM
            (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days
            => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON minutes = grain
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND bucket >= kept_since) AS stored
           USING (project_id, grain, bucket, provider, model)
   WHERE (coalesce(should_be.runs, 0), coalesce(should_be.errors, 0), coalesce(should_be.timeouts, 0),
           coalesce(should_be.unpriced, 0), coalesce(should_be.estimated, 0), coalesce(should_be.cost_usd, 0),
           coalesce(should_be.input_tokens, 0), coalesce(should_be.output_tokens, 0),
           coalesce(should_be.cached_input_tokens, 0), coalesce(should_be.cache_write_tokens, 0),
           coalesce(should_be.reasoning_tokens, 0), coalesce(should_be.audio_input_tokens, 0),
           coalesce(should_be.audio_output_tokens, 0), coalesce(should_be.error_cost_usd, 0),
           coalesce(should_be.timeout_cost_usd, 0))
         <> (coalesce(stored.runs, 0), coalesce(stored.errors, 0), coalesce(stored.timeouts, 0),
                 coalesce(stored.unpriced, 0), coalesce(stored.estimated, 0), coalesce(stored.cost_usd, 0),
                 coalesce(stored.input_tokens, 0), coalesce(stored.output_tokens, 0),
                 coalesce(stored.cached_input_tokens, 0), coalesce(stored.cache_write_tokens, 0),
                 coalesce(stored.reasoning_tokens, 0), coalesce(stored.audio_input_tokens, 0),
                 coalesce(stored.audio_output_tokens, 0), coalesce(stored.error_cost_usd, 0),
                 coalesce(stored.timeout_cost_usd, 0))
),
changed AS (
     INSERT INTO rollups AS held (project_id, grain, bucket, provider, model, runs, errors, timeouts,
             unpriced, estimated, cost_usd, input_tokens, output_tokens, cached_input_tokens,
             cache_write_tokens, reasoning_tokens, audio_input_tokens, audio_output_tokens, error_cost_usd,
             timeout_cost_usd)
          SELECT project_id, grain, bucket, provider, model, runs, errors, timeouts, unpriced, estimated,
                  cost_usd, input_tokens, output_tokens, cached_input_tokens, cache_write_tokens,
                  reasoning_tokens, audio_input_tokens, audio_output_tokens, error_cost_usd, timeout_cost_usd
            FROM difference
        ORDER BY project_id, grain, bucket, provider, model
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
       RETURNING project_id
)
  SELECT project_id, count(*)
    FROM changed
GROUP BY 1

-- ADD_TOTALS
WITH difference AS (
  SELECT project_id, grain, bucket,
         coalesce(should_be.runs, 0) - coalesce(stored.runs, 0) AS runs,
         coalesce(should_be.errors, 0) - coalesce(stored.errors, 0) AS errors,
         coalesce(should_be.timeouts, 0) - coalesce(stored.timeouts, 0) AS timeouts,
         coalesce(should_be.unpriced, 0) - coalesce(stored.unpriced, 0) AS unpriced,
         coalesce(should_be.estimated, 0) - coalesce(stored.estimated, 0) AS estimated,
         coalesce(should_be.cost_usd, 0) - coalesce(stored.cost_usd, 0) AS cost_usd,
         coalesce(should_be.input_tokens, 0) - coalesce(stored.input_tokens, 0) AS input_tokens,
         coalesce(should_be.output_tokens, 0) - coalesce(stored.output_tokens, 0) AS output_tokens,
         coalesce(should_be.error_cost_usd, 0) - coalesce(stored.error_cost_usd, 0) AS error_cost_usd,
         coalesce(should_be.timeout_cost_usd, 0) - coalesce(stored.timeout_cost_usd, 0) AS timeout_cost_usd
    FROM (
  SELECT project_id AS project_id, minutes AS grain, to_timestamp(floor(date_part('epoch', bucket) / (minutes
          * 60)) * (minutes * 60)) AS bucket,
         sum(runs) AS runs, sum(errors) AS errors, sum(timeouts) AS timeouts, sum(unpriced) AS unpriced,
                 sum(estimated) AS estimated, sum(cost_usd) AS cost_usd, sum(input_tokens) AS input_tokens,
                 sum(output_tokens) AS output_tokens, sum(error_cost_usd) AS error_cost_usd,
                 sum(timeout_cost_usd) AS timeout_cost_usd
    FROM rollups JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM
            (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days
            => NULL)), (1440, make_interval(days => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON
            grain = least(minutes, 360)
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND bucket >= kept_since
GROUP BY 1, 2, 3) AS should_be
         FULL JOIN (
  SELECT project_id, grain, bucket, runs, errors, timeouts, unpriced, estimated, cost_usd, input_tokens,
          output_tokens, error_cost_usd, timeout_cost_usd
    FROM rollup_totals JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM
            (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days
            => NULL)), (1440, make_interval(days => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON
            minutes = grain
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND bucket >= kept_since) AS stored
           USING (project_id, grain, bucket)
   WHERE (coalesce(should_be.runs, 0), coalesce(should_be.errors, 0), coalesce(should_be.timeouts, 0),
           coalesce(should_be.unpriced, 0), coalesce(should_be.estimated, 0), coalesce(should_be.cost_usd, 0),
           coalesce(should_be.input_tokens, 0), coalesce(should_be.output_tokens, 0),
           coalesce(should_be.error_cost_usd, 0), coalesce(should_be.timeout_cost_usd, 0))
         <> (coalesce(stored.runs, 0), coalesce(stored.errors, 0), coalesce(stored.timeouts, 0),
                 coalesce(stored.unpriced, 0), coalesce(stored.estimated, 0), coalesce(stored.cost_usd, 0),
                 coalesce(stored.input_tokens, 0), coalesce(stored.output_tokens, 0),
                 coalesce(stored.error_cost_usd, 0), coalesce(stored.timeout_cost_usd, 0))
),
changed AS (
     INSERT INTO rollup_totals AS held (project_id, grain, bucket, runs, errors, timeouts, unpriced,
             estimated, cost_usd, input_tokens, output_tokens, error_cost_usd, timeout_cost_usd)
          SELECT project_id, grain, bucket, runs, errors, timeouts, unpriced, estimated, cost_usd,
                  input_tokens, output_tokens, error_cost_usd, timeout_cost_usd
            FROM difference
        ORDER BY project_id, grain, bucket
     ON CONFLICT (project_id, grain, bucket) DO UPDATE
             SET runs = held.runs + excluded.runs, errors = held.errors + excluded.errors, timeouts =
                     held.timeouts + excluded.timeouts, unpriced = held.unpriced + excluded.unpriced,
                     estimated = held.estimated + excluded.estimated, cost_usd = held.cost_usd +
                     excluded.cost_usd, input_tokens = held.input_tokens + excluded.input_tokens,
                     output_tokens = held.output_tokens + excluded.output_tokens, error_cost_usd =
                     held.error_cost_usd + excluded.error_cost_usd, timeout_cost_usd = held.timeout_cost_usd +
                     excluded.timeout_cost_usd
       RETURNING project_id
)
  SELECT project_id, count(*)
    FROM changed
GROUP BY 1

-- ADD_SKETCHES
WITH difference AS (
  SELECT project_id, grain, bucket, latency, sum(n)::int AS runs
    FROM (
  SELECT project_id, minutes AS grain, to_timestamp(floor(date_part('epoch', occurred_at) / (minutes * 60)) *
          (minutes * 60)) AS bucket, latency, 1 AS n
    FROM (SELECT project_id, occurred_at, CASE WHEN latency < 100 OR latency >= 1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END AS latency
            FROM (SELECT project_id, occurred_at, CASE WHEN latency_ms < 500000000 THEN (2 * latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END AS latency
                    FROM runs
                   WHERE project_id = ANY ($1::text[]) AND occurred_at >= $2 AND occurred_at < $3 AND
                           project_id NOT IN (SELECT id FROM projects WHERE dropped_before > $2) AND
                           latency_ms IS NOT NULL) AS measured
          OFFSET 0) AS binned
         CROSS JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM (VALUES
                 (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days =>
                 NULL))) AS grains (minutes, kept) OFFSET 0) AS grains
   WHERE to_timestamp(floor(date_part('epoch', occurred_at) / (minutes * 60)) * (minutes * 60)) >= kept_since
           UNION ALL
  SELECT project_id, grain, bucket, CASE WHEN latency < 100 OR latency >= 1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END AS latency, -n AS n
    FROM latency_sketches JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since
            FROM (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360,
            make_interval(days => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON minutes = grain
         CROSS JOIN unnest(latencies, counts) AS each (latency, n)
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND project_id NOT IN (SELECT id FROM
           projects WHERE dropped_before > $2) AND bucket >= kept_since UNION ALL
  SELECT project_id, minutes AS grain, to_timestamp(floor(date_part('epoch', bucket) / (minutes * 60)) *
          (minutes * 60)) AS bucket, CASE WHEN latency < 100 OR latency >= 1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END AS latency, -n AS n
    FROM latency_deltas
         CROSS JOIN unnest(latencies, counts) AS each (latency, n)
         CROSS JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM (VALUES
                 (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days =>
                 NULL))) AS grains (minutes, kept) OFFSET 0) AS grains
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND project_id NOT IN (SELECT id FROM
           projects WHERE dropped_before > $2) AND to_timestamp(floor(date_part('epoch', bucket) / (minutes *
           60)) * (minutes * 60)) >= kept_since) AS both_sides
GROUP BY 1, 2, 3, 4
  HAVING sum(n) <> 0
),
changed AS (
     INSERT INTO latency_sketches AS held (project_id, grain, bucket, latencies, counts, p50, p95)
          SELECT project_id, grain, bucket, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY
                  latency),
                 CASE WHEN min(runs) > 0 THEN min(latency) FILTER (WHERE 100 * reached >= 50 * total) END,
                 CASE WHEN min(runs) > 0 THEN min(latency) FILTER (WHERE 100 * reached >= 95 * total) END
            FROM (SELECT project_id, grain, bucket, latency, runs,
                         sum(runs) OVER (PARTITION BY project_id, grain, bucket ORDER BY latency ROWS
                                 UNBOUNDED PRECEDING) AS reached,
                         sum(runs) OVER (PARTITION BY project_id, grain, bucket) AS total
                    FROM difference) AS ranked
        GROUP BY project_id, grain, bucket
        ORDER BY project_id, grain, bucket
     ON CONFLICT (project_id, grain, bucket) DO UPDATE
             SET (latencies, counts, p50, p95) = (
                 SELECT coalesce(held.latencies, '{}'), coalesce(held.counts, '{}'), p50, p95
                   FROM (SELECT array_agg(latency) AS latencies, array_agg(runs) AS counts
                           FROM (SELECT latency, sum(runs)::int AS runs
                                   FROM (SELECT CASE WHEN (cardinality(held.latencies) +
                                           cardinality(excluded.latencies) > 128
                               OR 0 > ANY (excluded.counts)) AND cardinality(held.latencies) <= 128
                                                     THEN CASE WHEN latency < 100 OR latency >= 1000000000
                                                             THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END ELSE latency END AS latency,
                                                runs
                                           FROM unnest(held.latencies, held.counts) AS old (latency, runs)
                                      UNION ALL
                                         SELECT CASE WHEN (cardinality(held.latencies) +
                                                 cardinality(excluded.latencies) > 128
                               OR 0 > ANY (excluded.counts)) THEN CASE WHEN latency < 100 OR latency >=
                                       1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END ELSE latency END, runs
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
                                    WHERE cardinality(held.latencies) >= 1) AS each) AS whole)
                             AS percentiles (p50, p95)
                 )
       RETURNING project_id
)
  SELECT project_id, count(*)
    FROM changed
GROUP BY 1

-- ADD_SKETCHES_OF_ALL
WITH difference AS (
  SELECT project_id, grain, bucket, latency, sum(n)::int AS runs
    FROM (
  SELECT ''::text AS project_id, grain, bucket, CASE WHEN latency < 100 OR latency >= 1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END AS latency, n
    FROM (SELECT grain, bucket, latency, sum(n)::int AS n
            FROM latency_sketches JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS
                    kept_since FROM (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)),
                    (360, make_interval(days => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON
                    minutes = grain
                 CROSS JOIN unnest(latencies, counts) AS each (latency, n)
           WHERE project_id <> '' AND bucket >= $2 AND bucket < $3 AND bucket >= kept_since
        GROUP BY 1, 2, 3) AS added_up UNION ALL
  SELECT project_id, grain, bucket, CASE WHEN latency < 100 OR latency >= 1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END AS latency, -n AS n
    FROM latency_sketches JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since
            FROM (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360,
            make_interval(days => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON minutes = grain
         CROSS JOIN unnest(latencies, counts) AS each (latency, n)
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND bucket >= kept_since) AS
           both_sides
GROUP BY 1, 2, 3, 4
  HAVING sum(n) <> 0
),
changed AS (
     INSERT INTO latency_sketches AS held (project_id, grain, bucket, latencies, counts, p50, p95)
          SELECT project_id, grain, bucket, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY
                  latency),
                 CASE WHEN min(runs) > 0 THEN min(latency) FILTER (WHERE 100 * reached >= 50 * total) END,
                 CASE WHEN min(runs) > 0 THEN min(latency) FILTER (WHERE 100 * reached >= 95 * total) END
            FROM (SELECT project_id, grain, bucket, latency, runs,
                         sum(runs) OVER (PARTITION BY project_id, grain, bucket ORDER BY latency ROWS
                                 UNBOUNDED PRECEDING) AS reached,
                         sum(runs) OVER (PARTITION BY project_id, grain, bucket) AS total
                    FROM difference) AS ranked
        GROUP BY project_id, grain, bucket
        ORDER BY project_id, grain, bucket
     ON CONFLICT (project_id, grain, bucket) DO UPDATE
             SET (latencies, counts, p50, p95) = (
                 SELECT coalesce(held.latencies, '{}'), coalesce(held.counts, '{}'), p50, p95
                   FROM (SELECT array_agg(latency) AS latencies, array_agg(runs) AS counts
                           FROM (SELECT latency, sum(runs)::int AS runs
                                   FROM (SELECT CASE WHEN (cardinality(held.latencies) +
                                           cardinality(excluded.latencies) > 128
                               OR 0 > ANY (excluded.counts)) AND cardinality(held.latencies) <= 128
                                                     THEN CASE WHEN latency < 100 OR latency >= 1000000000
                                                             THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END ELSE latency END AS latency,
                                                runs
                                           FROM unnest(held.latencies, held.counts) AS old (latency, runs)
                                      UNION ALL
                                         SELECT CASE WHEN (cardinality(held.latencies) +
                                                 cardinality(excluded.latencies) > 128
                               OR 0 > ANY (excluded.counts)) THEN CASE WHEN latency < 100 OR latency >=
                                       1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END ELSE latency END, runs
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
                                    WHERE cardinality(held.latencies) >= 1) AS each) AS whole)
                             AS percentiles (p50, p95)
                 )
       RETURNING project_id
)
  SELECT project_id, count(*)
    FROM changed
GROUP BY 1

-- CORRECT_PERCENTILES
WITH found AS MATERIALIZED (
  SELECT project_id, grain, bucket, p95 IS NOT NULL AS was_wrong
    FROM latency_sketches AS held JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS
            kept_since FROM (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360,
            make_interval(days => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON minutes = grain
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND bucket >= kept_since AND latencies
           <> '{}' AND (p95 IS NULL OR p95 IS NOT NULL AND (p50, p95) <> (SELECT latencies[1 +
           width_bucket((reached[cardinality(reached)] * 50 + 99) / 100 - 1, reached)], latencies[1 +
           width_bucket((reached[cardinality(reached)] * 95 + 99) / 100 - 1, reached)]
                     FROM (SELECT array_agg(reached ORDER BY latency) AS reached
                             FROM (SELECT latency, sum(runs) OVER (ORDER BY latency ROWS UNBOUNDED PRECEDING)
                                     AS reached
                                     FROM unnest(held.latencies, held.counts) AS each (latency, runs)
                                    WHERE TRUE) AS each) AS whole))
ORDER BY project_id, grain, bucket
     FOR UPDATE OF held
),
changed AS (
       UPDATE latency_sketches AS held
          SET (p50, p95) = (SELECT latencies[1 + width_bucket((reached[cardinality(reached)] * 50 + 99) / 100
                  - 1, reached)], latencies[1 + width_bucket((reached[cardinality(reached)] * 95 + 99) / 100 -
                  1, reached)]
                     FROM (SELECT array_agg(reached ORDER BY latency) AS reached
                             FROM (SELECT latency, sum(runs) OVER (ORDER BY latency ROWS UNBOUNDED PRECEDING)
                                     AS reached
                                     FROM unnest(held.latencies, held.counts) AS each (latency, runs)
                                    WHERE TRUE) AS each) AS whole)
         FROM found
        WHERE (held.project_id, held.grain, held.bucket) = (found.project_id, found.grain, found.bucket)
    RETURNING held.project_id, was_wrong
)
  SELECT project_id, count(*)
    FROM changed
   WHERE was_wrong
GROUP BY 1

-- DELETE_EMPTY_CELLS
WITH empty AS MATERIALIZED (
     SELECT project_id, grain, bucket, provider, model
       FROM rollups
      WHERE runs = 0
   ORDER BY project_id, grain, bucket, provider, model
        FOR UPDATE SKIP LOCKED
)
DELETE FROM rollups
      USING empty
      WHERE (rollups.project_id, rollups.grain, rollups.bucket, rollups.provider, rollups.model) =
              (empty.project_id, empty.grain, empty.bucket, empty.provider, empty.model)

-- DELETE_EMPTY_TOTALS
WITH empty AS MATERIALIZED (
     SELECT project_id, grain, bucket
       FROM rollup_totals
      WHERE runs = 0
   ORDER BY project_id, grain, bucket
        FOR UPDATE SKIP LOCKED
)
DELETE FROM rollup_totals
      USING empty
      WHERE (rollup_totals.project_id, rollup_totals.grain, rollup_totals.bucket) = (empty.project_id,
              empty.grain, empty.bucket)

-- DELETE_EMPTY_SKETCHES
WITH empty AS MATERIALIZED (
     SELECT project_id, grain, bucket
       FROM latency_sketches
      WHERE latencies = '{}'
   ORDER BY project_id, grain, bucket
        FOR UPDATE SKIP LOCKED
)
DELETE FROM latency_sketches
      USING empty
      WHERE (latency_sketches.project_id, latency_sketches.grain, latency_sketches.bucket) =
              (empty.project_id, empty.grain, empty.bucket)

-- LOCK
SELECT pg_advisory_xact_lock(hashtext('runtally rebuilding'), hashtext($1))

-- SELECT_CELL_DIFFERENCES
WITH difference AS (
  SELECT project_id, grain, bucket, provider, model,
         coalesce(should_be.runs, 0) - coalesce(stored.runs, 0) AS runs,
         coalesce(should_be.errors, 0) - coalesce(stored.errors, 0) AS errors,
         coalesce(should_be.timeouts, 0) - coalesce(stored.timeouts, 0) AS timeouts,
         coalesce(should_be.unpriced, 0) - coalesce(stored.unpriced, 0) AS unpriced,
         coalesce(should_be.estimated, 0) - coalesce(stored.estimated, 0) AS estimated,
         coalesce(should_be.cost_usd, 0) - coalesce(stored.cost_usd, 0) AS cost_usd,
         coalesce(should_be.input_tokens, 0) - coalesce(stored.input_tokens, 0) AS input_tokens,
         coalesce(should_be.output_tokens, 0) - coalesce(stored.output_tokens, 0) AS output_tokens,
         coalesce(should_be.cached_input_tokens, 0) - coalesce(stored.cached_input_tokens, 0) AS
                 cached_input_tokens,
         coalesce(should_be.cache_write_tokens, 0) - coalesce(stored.cache_write_tokens, 0) AS
                 cache_write_tokens,
         coalesce(should_be.reasoning_tokens, 0) - coalesce(stored.reasoning_tokens, 0) AS reasoning_tokens,
         coalesce(should_be.audio_input_tokens, 0) - coalesce(stored.audio_input_tokens, 0) AS
                 audio_input_tokens,
         coalesce(should_be.audio_output_tokens, 0) - coalesce(stored.audio_output_tokens, 0) AS
                 audio_output_tokens,
         coalesce(should_be.error_cost_usd, 0) - coalesce(stored.error_cost_usd, 0) AS error_cost_usd,
         coalesce(should_be.timeout_cost_usd, 0) - coalesce(stored.timeout_cost_usd, 0) AS timeout_cost_usd
    FROM (
  SELECT project_id, minutes AS grain, to_timestamp(floor(date_part('epoch', occurred_at) / (minutes * 60)) *
          (minutes * 60)) AS bucket, provider, model,
         sum(1) AS runs,
         coalesce(sum(1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
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
         coalesce(sum(cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd
    FROM runs CROSS JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM
            (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days
            => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains
   WHERE project_id = ANY ($1::text[]) AND occurred_at >= $2 AND occurred_at < $3 AND project_id NOT IN
           (SELECT id FROM projects WHERE dropped_before > $2) AND to_timestamp(floor(date_part('epoch',
           occurred_at) / (minutes * 60)) * (minutes * 60)) >= kept_since
GROUP BY 1, 2, 3, 4, 5) AS should_be
         FULL JOIN (
  SELECT project_id, grain, bucket, provider, model, runs, errors, timeouts, unpriced, estimated, cost_usd,
          input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens,
          audio_input_tokens, audio_output_tokens, error_cost_usd, timeout_cost_usd
    FROM rollups JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM
            (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days
            => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON minutes = grain
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND project_id NOT IN (SELECT id FROM
           projects WHERE dropped_before > $2) AND bucket >= kept_since) AS stored USING (project_id, grain,
           bucket, provider, model)
   WHERE (coalesce(should_be.runs, 0), coalesce(should_be.errors, 0), coalesce(should_be.timeouts, 0),
           coalesce(should_be.unpriced, 0), coalesce(should_be.estimated, 0), coalesce(should_be.cost_usd, 0),
           coalesce(should_be.input_tokens, 0), coalesce(should_be.output_tokens, 0),
           coalesce(should_be.cached_input_tokens, 0), coalesce(should_be.cache_write_tokens, 0),
           coalesce(should_be.reasoning_tokens, 0), coalesce(should_be.audio_input_tokens, 0),
           coalesce(should_be.audio_output_tokens, 0), coalesce(should_be.error_cost_usd, 0),
           coalesce(should_be.timeout_cost_usd, 0))
         <> (coalesce(stored.runs, 0), coalesce(stored.errors, 0), coalesce(stored.timeouts, 0),
                 coalesce(stored.unpriced, 0), coalesce(stored.estimated, 0), coalesce(stored.cost_usd, 0),
                 coalesce(stored.input_tokens, 0), coalesce(stored.output_tokens, 0),
                 coalesce(stored.cached_input_tokens, 0), coalesce(stored.cache_write_tokens, 0),
                 coalesce(stored.reasoning_tokens, 0), coalesce(stored.audio_input_tokens, 0),
                 coalesce(stored.audio_output_tokens, 0), coalesce(stored.error_cost_usd, 0),
                 coalesce(stored.timeout_cost_usd, 0))
)
  SELECT DISTINCT ON (project_id)
         project_id, count(*) OVER (PARTITION BY project_id) AS differing, grain, bucket, provider || ' ' ||
                 model AS name,
         runs::bigint AS runs, cost_usd AS cost_usd
    FROM difference
ORDER BY project_id, grain DESC, bucket, provider, model

-- SELECT_CELL_DIFFERENCES_OF_ALL
WITH difference AS (
  SELECT project_id, grain, bucket, provider, model,
         coalesce(should_be.runs, 0) - coalesce(stored.runs, 0) AS runs,
         coalesce(should_be.errors, 0) - coalesce(stored.errors, 0) AS errors,
         coalesce(should_be.timeouts, 0) - coalesce(stored.timeouts, 0) AS timeouts,
         coalesce(should_be.unpriced, 0) - coalesce(stored.unpriced, 0) AS unpriced,
         coalesce(should_be.estimated, 0) - coalesce(stored.estimated, 0) AS estimated,
         coalesce(should_be.cost_usd, 0) - coalesce(stored.cost_usd, 0) AS cost_usd,
         coalesce(should_be.input_tokens, 0) - coalesce(stored.input_tokens, 0) AS input_tokens,
         coalesce(should_be.output_tokens, 0) - coalesce(stored.output_tokens, 0) AS output_tokens,
         coalesce(should_be.cached_input_tokens, 0) - coalesce(stored.cached_input_tokens, 0) AS
                 cached_input_tokens,
         coalesce(should_be.cache_write_tokens, 0) - coalesce(stored.cache_write_tokens, 0) AS
                 cache_write_tokens,
         coalesce(should_be.reasoning_tokens, 0) - coalesce(stored.reasoning_tokens, 0) AS reasoning_tokens,
         coalesce(should_be.audio_input_tokens, 0) - coalesce(stored.audio_input_tokens, 0) AS
                 audio_input_tokens,
         coalesce(should_be.audio_output_tokens, 0) - coalesce(stored.audio_output_tokens, 0) AS
                 audio_output_tokens,
         coalesce(should_be.error_cost_usd, 0) - coalesce(stored.error_cost_usd, 0) AS error_cost_usd,
         coalesce(should_be.timeout_cost_usd, 0) - coalesce(stored.timeout_cost_usd, 0) AS timeout_cost_usd
    FROM (
  SELECT '' AS project_id, minutes AS grain, bucket AS bucket, provider, model,
         sum(runs) AS runs, sum(errors) AS errors, sum(timeouts) AS timeouts, sum(unpriced) AS unpriced,
                 sum(estimated) AS estimated, sum(cost_usd) AS cost_usd, sum(input_tokens) AS input_tokens,
                 sum(output_tokens) AS output_tokens, sum(cached_input_tokens) AS cached_input_tokens,
                 sum(cache_write_tokens) AS cache_write_tokens, sum(reasoning_tokens) AS reasoning_tokens,
                 sum(audio_input_tokens) AS audio_input_tokens, sum(audio_output_tokens) AS
                 audio_output_tokens, sum(error_cost_usd) AS error_cost_usd, sum(timeout_cost_usd) AS
                 timeout_cost_usd
    FROM rollups JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM
            (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days
            => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON grain = minutes
   WHERE project_id <> '' AND bucket >= $2 AND bucket < $3 AND bucket >= kept_since
GROUP BY 1, 2, 3, 4, 5) AS should_be
         FULL JOIN (
  SELECT project_id, grain, bucket, provider, model, runs, errors, timeouts, unpriced, estimated, cost_usd,
          input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens,
          audio_input_tokens, audio_output_tokens, error_cost_usd, timeout_cost_usd
    FROM rollups JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM
            (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days
            => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON minutes = grain
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND bucket >= kept_since) AS stored
           USING (project_id, grain, bucket, provider, model)
   WHERE (coalesce(should_be.runs, 0), coalesce(should_be.errors, 0), coalesce(should_be.timeouts, 0),
           coalesce(should_be.unpriced, 0), coalesce(should_be.estimated, 0), coalesce(should_be.cost_usd, 0),
           coalesce(should_be.input_tokens, 0), coalesce(should_be.output_tokens, 0),
           coalesce(should_be.cached_input_tokens, 0), coalesce(should_be.cache_write_tokens, 0),
           coalesce(should_be.reasoning_tokens, 0), coalesce(should_be.audio_input_tokens, 0),
           coalesce(should_be.audio_output_tokens, 0), coalesce(should_be.error_cost_usd, 0),
           coalesce(should_be.timeout_cost_usd, 0))
         <> (coalesce(stored.runs, 0), coalesce(stored.errors, 0), coalesce(stored.timeouts, 0),
                 coalesce(stored.unpriced, 0), coalesce(stored.estimated, 0), coalesce(stored.cost_usd, 0),
                 coalesce(stored.input_tokens, 0), coalesce(stored.output_tokens, 0),
                 coalesce(stored.cached_input_tokens, 0), coalesce(stored.cache_write_tokens, 0),
                 coalesce(stored.reasoning_tokens, 0), coalesce(stored.audio_input_tokens, 0),
                 coalesce(stored.audio_output_tokens, 0), coalesce(stored.error_cost_usd, 0),
                 coalesce(stored.timeout_cost_usd, 0))
)
  SELECT DISTINCT ON (project_id)
         project_id, count(*) OVER (PARTITION BY project_id) AS differing, grain, bucket, provider || ' ' ||
                 model AS name,
         runs::bigint AS runs, cost_usd AS cost_usd
    FROM difference
ORDER BY project_id, grain DESC, bucket, provider, model

-- SELECT_TOTAL_DIFFERENCES
WITH difference AS (
  SELECT project_id, grain, bucket,
         coalesce(should_be.runs, 0) - coalesce(stored.runs, 0) AS runs,
         coalesce(should_be.errors, 0) - coalesce(stored.errors, 0) AS errors,
         coalesce(should_be.timeouts, 0) - coalesce(stored.timeouts, 0) AS timeouts,
         coalesce(should_be.unpriced, 0) - coalesce(stored.unpriced, 0) AS unpriced,
         coalesce(should_be.estimated, 0) - coalesce(stored.estimated, 0) AS estimated,
         coalesce(should_be.cost_usd, 0) - coalesce(stored.cost_usd, 0) AS cost_usd,
         coalesce(should_be.input_tokens, 0) - coalesce(stored.input_tokens, 0) AS input_tokens,
         coalesce(should_be.output_tokens, 0) - coalesce(stored.output_tokens, 0) AS output_tokens,
         coalesce(should_be.error_cost_usd, 0) - coalesce(stored.error_cost_usd, 0) AS error_cost_usd,
         coalesce(should_be.timeout_cost_usd, 0) - coalesce(stored.timeout_cost_usd, 0) AS timeout_cost_usd
    FROM (
  SELECT project_id AS project_id, minutes AS grain, to_timestamp(floor(date_part('epoch', bucket) / (minutes
          * 60)) * (minutes * 60)) AS bucket,
         sum(runs) AS runs, sum(errors) AS errors, sum(timeouts) AS timeouts, sum(unpriced) AS unpriced,
                 sum(estimated) AS estimated, sum(cost_usd) AS cost_usd, sum(input_tokens) AS input_tokens,
                 sum(output_tokens) AS output_tokens, sum(error_cost_usd) AS error_cost_usd,
                 sum(timeout_cost_usd) AS timeout_cost_usd
    FROM rollups JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM
            (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days
            => NULL)), (1440, make_interval(days => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON
            grain = least(minutes, 360)
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND bucket >= kept_since
GROUP BY 1, 2, 3) AS should_be
         FULL JOIN (
  SELECT project_id, grain, bucket, runs, errors, timeouts, unpriced, estimated, cost_usd, input_tokens,
          output_tokens, error_cost_usd, timeout_cost_usd
    FROM rollup_totals JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM
            (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days
            => NULL)), (1440, make_interval(days => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON
            minutes = grain
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND bucket >= kept_since) AS stored
           USING (project_id, grain, bucket)
   WHERE (coalesce(should_be.runs, 0), coalesce(should_be.errors, 0), coalesce(should_be.timeouts, 0),
           coalesce(should_be.unpriced, 0), coalesce(should_be.estimated, 0), coalesce(should_be.cost_usd, 0),
           coalesce(should_be.input_tokens, 0), coalesce(should_be.output_tokens, 0),
           coalesce(should_be.error_cost_usd, 0), coalesce(should_be.timeout_cost_usd, 0))
         <> (coalesce(stored.runs, 0), coalesce(stored.errors, 0), coalesce(stored.timeouts, 0),
                 coalesce(stored.unpriced, 0), coalesce(stored.estimated, 0), coalesce(stored.cost_usd, 0),
                 coalesce(stored.input_tokens, 0), coalesce(stored.output_tokens, 0),
                 coalesce(stored.error_cost_usd, 0), coalesce(stored.timeout_cost_usd, 0))
)
  SELECT DISTINCT ON (project_id)
         project_id, count(*) OVER (PARTITION BY project_id) AS differing, grain, bucket, 'all models' AS
                 name,
         runs::bigint AS runs, cost_usd AS cost_usd
    FROM difference
ORDER BY project_id, grain DESC, bucket

-- SELECT_SKETCH_DIFFERENCES
WITH difference AS (
  SELECT project_id, grain, bucket, latency, sum(n)::int AS runs
    FROM (
  SELECT project_id, minutes AS grain, to_timestamp(floor(date_part('epoch', occurred_at) / (minutes * 60)) *
          (minutes * 60)) AS bucket, latency, 1 AS n
    FROM (SELECT project_id, occurred_at, CASE WHEN latency < 100 OR latency >= 1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END AS latency
            FROM (SELECT project_id, occurred_at, CASE WHEN latency_ms < 500000000 THEN (2 * latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END AS latency
                    FROM runs
                   WHERE project_id = ANY ($1::text[]) AND occurred_at >= $2 AND occurred_at < $3 AND
                           project_id NOT IN (SELECT id FROM projects WHERE dropped_before > $2) AND
                           latency_ms IS NOT NULL) AS measured
          OFFSET 0) AS binned
         CROSS JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM (VALUES
                 (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days =>
                 NULL))) AS grains (minutes, kept) OFFSET 0) AS grains
   WHERE to_timestamp(floor(date_part('epoch', occurred_at) / (minutes * 60)) * (minutes * 60)) >= kept_since
           UNION ALL
  SELECT project_id, grain, bucket, CASE WHEN latency < 100 OR latency >= 1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END AS latency, -n AS n
    FROM latency_sketches JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since
            FROM (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360,
            make_interval(days => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON minutes = grain
         CROSS JOIN unnest(latencies, counts) AS each (latency, n)
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND project_id NOT IN (SELECT id FROM
           projects WHERE dropped_before > $2) AND bucket >= kept_since UNION ALL
  SELECT project_id, minutes AS grain, to_timestamp(floor(date_part('epoch', bucket) / (minutes * 60)) *
          (minutes * 60)) AS bucket, CASE WHEN latency < 100 OR latency >= 1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END AS latency, -n AS n
    FROM latency_deltas
         CROSS JOIN unnest(latencies, counts) AS each (latency, n)
         CROSS JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM (VALUES
                 (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360, make_interval(days =>
                 NULL))) AS grains (minutes, kept) OFFSET 0) AS grains
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND project_id NOT IN (SELECT id FROM
           projects WHERE dropped_before > $2) AND to_timestamp(floor(date_part('epoch', bucket) / (minutes *
           60)) * (minutes * 60)) >= kept_since) AS both_sides
GROUP BY 1, 2, 3, 4
  HAVING sum(n) <> 0
)
  SELECT DISTINCT ON (project_id)
         project_id, count(*) OVER (PARTITION BY project_id) AS differing, grain, bucket, 'latencies' AS name,
         runs::bigint AS runs, 0::numeric AS cost_usd
    FROM difference
ORDER BY project_id, grain DESC, bucket, latency

-- SELECT_SKETCH_DIFFERENCES_OF_ALL
WITH difference AS (
  SELECT project_id, grain, bucket, latency, sum(n)::int AS runs
    FROM (
  SELECT ''::text AS project_id, grain, bucket, CASE WHEN latency < 100 OR latency >= 1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END AS latency, n
    FROM (SELECT grain, bucket, latency, sum(n)::int AS n
            FROM latency_sketches JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS
                    kept_since FROM (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)),
                    (360, make_interval(days => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON
                    minutes = grain
                 CROSS JOIN unnest(latencies, counts) AS each (latency, n)
           WHERE project_id <> '' AND bucket >= $2 AND bucket < $3 AND bucket >= kept_since
        GROUP BY 1, 2, 3) AS added_up UNION ALL
  SELECT project_id, grain, bucket, CASE WHEN latency < 100 OR latency >= 1000000000 THEN latency
              ELSE (ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 0)) +
                      ceil(power(1.02::float8, floor(ln((latency / 2.0)::float8) / 0.01980262729617973) + 1))
                      - 1)::int END AS latency, -n AS n
    FROM latency_sketches JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since
            FROM (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360,
            make_interval(days => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON minutes = grain
         CROSS JOIN unnest(latencies, counts) AS each (latency, n)
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND bucket >= kept_since) AS
           both_sides
GROUP BY 1, 2, 3, 4
  HAVING sum(n) <> 0
)
  SELECT DISTINCT ON (project_id)
         project_id, count(*) OVER (PARTITION BY project_id) AS differing, grain, bucket, 'latencies' AS name,
         runs::bigint AS runs, 0::numeric AS cost_usd
    FROM difference
ORDER BY project_id, grain DESC, bucket, latency

-- SELECT_PERCENTILE_DIFFERENCES
WITH difference AS (
  SELECT project_id, grain, bucket
    FROM latency_sketches AS held JOIN (SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS
            kept_since FROM (VALUES (15, make_interval(days => 4)), (60, make_interval(days => 35)), (360,
            make_interval(days => NULL))) AS grains (minutes, kept) OFFSET 0) AS grains ON minutes = grain
   WHERE project_id = ANY ($1::text[]) AND bucket >= $2 AND bucket < $3 AND bucket >= kept_since AND latencies
           <> '{}' AND (p95 IS NOT NULL AND (p50, p95) <> (SELECT latencies[1 +
           width_bucket((reached[cardinality(reached)] * 50 + 99) / 100 - 1, reached)], latencies[1 +
           width_bucket((reached[cardinality(reached)] * 95 + 99) / 100 - 1, reached)]
                     FROM (SELECT array_agg(reached ORDER BY latency) AS reached
                             FROM (SELECT latency, sum(runs) OVER (ORDER BY latency ROWS UNBOUNDED PRECEDING)
                                     AS reached
                                     FROM unnest(held.latencies, held.counts) AS each (latency, runs)
                                    WHERE TRUE) AS each) AS whole))
)
  SELECT DISTINCT ON (project_id)
         project_id, count(*) OVER (PARTITION BY project_id) AS differing, grain, bucket, 'percentiles' AS
                 name,
         0::bigint AS runs, 0::numeric AS cost_usd
    FROM difference
ORDER BY project_id, grain DESC, bucket

-- ERASE_RUNS
WITH erased AS (
     DELETE FROM runs
      WHERE project_id = $1
  RETURNING project_id, occurred_at, provider, model, status, latency_ms, cost_usd, cost_estimated,
          input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens,
          audio_input_tokens, audio_output_tokens
),
rolled_latencies AS (
     INSERT INTO latency_deltas (project_id, bucket, latencies, counts)
          SELECT project_id, bucket, array_agg(latency), array_agg(runs)
            FROM (SELECT project_id, to_timestamp(floor(date_part('epoch', occurred_at) / (15 * 60)) * (15 *
                    60)) AS bucket, CASE WHEN latency_ms < 500000000 THEN (2 * latency_ms)::int
              ELSE 1000000000 + floor(ln((latency_ms)::float8) / 0.01980262729617973)::int END AS latency,
                      sum(-1)::int AS runs
                    FROM erased
                   WHERE latency_ms IS NOT NULL
                GROUP BY 1, 2, 3
                  HAVING sum(-1) <> 0) AS latencies
        GROUP BY 1, 2
),
rolled_runs AS (
  SELECT project_id,
         to_timestamp(floor(date_part('epoch', occurred_at) / (15 * 60)) * (15 * 60)) AS bucket,
         provider,
         model,
         sum(-1) AS runs,
         coalesce(sum(-1) FILTER (WHERE status = 'error'), 0) AS errors,
         coalesce(sum(-1) FILTER (WHERE status = 'timeout'), 0) AS timeouts,
         coalesce(sum(-1) FILTER (WHERE cost_usd IS NULL), 0) AS unpriced,
         coalesce(sum(-1) FILTER (WHERE cost_estimated), 0) AS estimated,
         coalesce(sum(-1 * cost_usd), 0) AS cost_usd,
         coalesce(sum(-1 * input_tokens), 0) AS input_tokens,
         coalesce(sum(-1 * output_tokens), 0) AS output_tokens,
         coalesce(sum(-1 * cached_input_tokens), 0) AS cached_input_tokens,
         coalesce(sum(-1 * cache_write_tokens), 0) AS cache_write_tokens,
         coalesce(sum(-1 * reasoning_tokens), 0) AS reasoning_tokens,
         coalesce(sum(-1 * audio_input_tokens), 0) AS audio_input_tokens,
         coalesce(sum(-1 * audio_output_tokens), 0) AS audio_output_tokens,
         coalesce(sum(-1 * cost_usd) FILTER (WHERE status = 'error'), 0) AS error_cost_usd,
         coalesce(sum(-1 * cost_usd) FILTER (WHERE status = 'timeout'), 0) AS timeout_cost_usd
    FROM erased
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
                   (grains.minutes * 60)) >= now() - kept)
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
                   (grains.minutes * 60)) >= now() - kept)
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
  FROM erased
