"""Tables with mixed columns: a public schema, a codec, one private release and the model fitted to it."""
