"""Benchmarks of records in many files: synthesis, passes, and images in shards."""
