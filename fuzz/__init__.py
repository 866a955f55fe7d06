"""A fuzzer of privot's command line: hostile options, files, folders and messages; `python -m fuzz` runs it."""
