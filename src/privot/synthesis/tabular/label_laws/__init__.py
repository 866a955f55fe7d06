"""The laws of a table's labels given its columns, from noisy counts and scores; no record comes here."""
