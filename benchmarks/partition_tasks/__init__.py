"""What workers of the benchmark of partitions import."""
