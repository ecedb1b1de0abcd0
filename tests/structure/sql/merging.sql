-- TRY_LOCK
SELECT pg_try_advisory_xact_lock(hashtext('runtally merging'))

-- MERGE_SKETCHES
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
merged AS (
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
