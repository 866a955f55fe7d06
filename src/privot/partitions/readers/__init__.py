"""Readers: what one partition is, and how its records are read a block at a time; files, shards, tables and queries."""
