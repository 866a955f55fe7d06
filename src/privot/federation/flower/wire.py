"""Where the signed bytes stand in a Flower message: one record, one field."""

RECORD, FIELD, TYPE = "privot", "data", "query"
