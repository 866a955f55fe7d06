"""Related tables: one release for a parent table and its tables of children, and the models that draw them together."""
