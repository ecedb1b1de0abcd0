"""The tables of stored sums, and the SQL that counts runs by the keys that a project tracks."""
