"""pandas, Polars and Arrow in and out of tables with a schema; none of them is imported unless one of its frames is."""
