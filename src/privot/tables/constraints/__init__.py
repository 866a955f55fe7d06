"""Public knowledge about how the columns of a table belong together: what may be stated, and how it is kept."""
