"""Studies of synthetic tables: persons with several rows, a baseline and a follow-up, wide tables, many categories."""
