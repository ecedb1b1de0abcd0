-- Runs number $1 to $2 of $3, spread over the 30 days before $4: 1,000 projects (one with a fifth of all runs, nine with a
-- twentieth each, and one of these in four experiments), 8 models of 4 providers, latencies around 1.1 s (log-normal), 3 %
-- failed, 5 features, 200 teams, 50,000 users, about 300 bytes as JSON.
WITH models (number, provider, model, input_price, output_price) AS (
     VALUES (0, 'openai', 'gpt-4o-mini', 0.15, 0.6), (1, 'openai', 'gpt-4o', 2.5, 10),
            (2, 'anthropic', 'claude-sonnet-4-5', 3, 15), (3, 'anthropic', 'claude-haiku-4-5', 1, 5),
            (4, 'google', 'gemini-2.5-flash', 0.3, 2.5), (5, 'google', 'gemini-2.5-pro', 1.25, 10),
            (6, 'mistral', 'mistral-large-latest', 2, 6), (7, 'mistral', 'mistral-small-latest', 0.1, 0.3)
),
drawn AS MATERIALIZED (
  SELECT $4::timestamptz - interval '30 days' * (1 - (number - random()) / $3::bigint) AS occurred_at,
         random() AS share,
         floor(random() * 990)::int AS small,
         floor(random() * 8)::int AS model,
         random() < 0.03 AS failed,
         200 + floor(random() * 5800)::bigint AS input_tokens,
         20 + floor(random() * 880)::bigint AS output_tokens,
         floor(exp(7 + 0.8 * sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random())))::bigint AS latency_ms,
         md5(random()::text || number) AS noise
    FROM generate_series($1::bigint, $2::bigint) AS numbers (number)
)
INSERT INTO runs (
         project_id, id, occurred_at, provider, model, status, error_code, input_tokens, output_tokens, latency_ms,
         experiment_id, user_id, cost_usd, cost_source, cost_estimated, price_entry_id, metadata, created_at, version
       )
  SELECT CASE WHEN share < 0.2 THEN 'bench-0001'
              WHEN share < 0.65 THEN 'bench-' || lpad((2 + floor((share - 0.2) / 0.05))::text, 4, '0')
              ELSE 'bench-' || lpad((11 + small)::text, 4, '0') END,
         (lpad(to_hex((extract(epoch FROM occurred_at) * 1000)::bigint), 12, '0') || '7' || substr(noise, 1, 3) || '8'
           || substr(noise, 4, 15))::uuid::text,
         occurred_at, provider, models.model,
         CASE WHEN failed THEN 'error' ELSE 'success' END, CASE WHEN failed THEN 'rate_limit' END,
         input_tokens, output_tokens, latency_ms,
         CASE WHEN share >= 0.2 AND share < 0.25 THEN 'prompt-' || 1 + small % 4 END,
         'user-' || ('x' || substr(noise, 20, 6))::bit(24)::int % 50000,
         (input_tokens * input_price + output_tokens * output_price) / 1000000,
         'catalog', false, 1,
         jsonb_build_object(
           'region', (ARRAY ['eu-west-1', 'us-east-1', 'ap-south-1'])[1 + small % 3],
           'release', '2026.11.' || 1 + small % 28, 'feature', 'feature-' || small % 5, 'team', 'team-' || small % 200, 'attempt', 1, 'stream', NOT failed
         ),
         occurred_at + interval '1 second', 1
    FROM drawn JOIN models ON models.number = drawn.model
ORDER BY occurred_at
