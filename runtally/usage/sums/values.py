"""SQL of the values that runs have for the tracked keys of their project.

A value is what `metadata ->> key` is: text, numbers and truth values as they were sent, and of a list or an object its JSON.
It counts by its first characters, and a blank one is none. Of `tags` a run has several values, and is in each of them;
once more it is counted under a blank value, which is what all runs with tags come to.
"""

from runtally.models.dimension import EVERY_PROJECT, MAX_TRACKED_KEYS, MAX_VALUE_LENGTH

ANY_TAG = ""
"""In place of a tag: all runs that have any, because runs with several tags are counted for each of these."""
_COLUMNS = {"user": "user_id", "session": "session_id", "tags": "to_jsonb(tags)::text"}
_TAGS = list(_COLUMNS).index("tags") + 1
INPUT_COLUMNS = ("user_id", "session_id", "tags", "metadata")
"""The columns of runs that dimensions are read from. Ingest fills the first ones from metadata where a client sends none."""


def keys_of(projects: str, states: str = "('tracked', 'filling')") -> str:
    """SQL of the keys that these projects count, in these states; `projects` is a query with a column project_id."""
    return f"""SELECT scope.project_id, keys.id, keys.key, keys.names, keys.complete_since
    FROM ({projects}) AS scope
         JOIN tracked_keys AS keys
           ON keys.project_id = scope.project_id
           OR keys.project_id = '{EVERY_PROJECT}'
              AND NOT EXISTS (SELECT
                                FROM tracked_keys AS own
                               WHERE own.project_id = scope.project_id
                                 AND own.key = keys.key)
   WHERE keys.state IN {states}"""


def slots_of(keys: str) -> str:
    """SQL of one row a project of a query for `keys`: their numbers, and the names in metadata that each is read from.

    Each key has a place, because reading a constant place takes a third of what a join by name takes.
    """
    columns = ",\n         ".join(f"max(id) FILTER (WHERE key = '{key}') AS {key}_key" for key in _COLUMNS)
    in_metadata = "FILTER (WHERE names <> '{}')"
    return f"""SELECT project_id,
         {columns},
         array_agg(id ORDER BY id) {in_metadata} AS metadata_keys,
         array_agg(names[1] ORDER BY id) {in_metadata} AS names,
         array_agg(names[2] ORDER BY id) {in_metadata} AS other_names
    FROM ({keys}) AS keys
GROUP BY 1"""


KEY_IDS = f"ARRAY[{', '.join(f'{key}_key' for key in _COLUMNS)}] || metadata_keys"
"""SQL of the numbers of the keys in the order of `VALUES`, from a row of `slots_of`."""
_VALUES = (
    *(f"CASE WHEN {key}_key IS NOT NULL THEN {sql} END" for key, sql in _COLUMNS.items()),
    *(
        f"coalesce(metadata ->> names[{place}], metadata ->> other_names[{place}])"
        for place in range(1, MAX_TRACKED_KEYS + 1)
    ),
)
VALUES = f"ARRAY[{', '.join(_VALUES)}]"
"""SQL of the values of a run, from a row of `slots_of`; of tags, all of them as JSON."""
_SLOTS = len(_VALUES)


def entries_of(runs: str, columns: str, which: str = "TRUE") -> str:
    """SQL of a row for each value of each run: columns of `runs`, the place of the run in its row, key_id and value.

    A row of `runs` has the values of several runs one after the other in `dimension_values`, and their `key_ids`.
    `which` is a condition on these, for where few of them are wanted.
    """
    key_id = f"key_ids[1 + (place - 1) % {_SLOTS}]"
    return f"""WITH sent_slots AS MATERIALIZED (
  SELECT {columns}, 1 + (place - 1) / {_SLOTS} AS number, 1 + (place - 1) % {_SLOTS} AS place, {key_id} AS key_id, sent
    FROM {runs} CROSS JOIN LATERAL unnest(dimension_values) WITH ORDINALITY AS slot (sent, place)
   WHERE sent IS NOT NULL AND {which.format(key_id=key_id)}
)
  SELECT {columns}, number, key_id, left(value, {MAX_VALUE_LENGTH}) AS value
    FROM (SELECT {columns}, number, key_id, sent AS value FROM sent_slots WHERE place <> {_TAGS}
           UNION ALL
          SELECT {columns}, number, key_id, jsonb_array_elements_text(sent::jsonb) FROM sent_slots WHERE place = {_TAGS})
         AS each
   WHERE value <> ''
   UNION ALL
  SELECT {columns}, number, key_id, '{ANY_TAG}' FROM sent_slots WHERE place = {_TAGS} AND sent <> '[]'"""
