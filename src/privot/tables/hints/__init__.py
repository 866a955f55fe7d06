"""Public documents about a table (SQL definitions, data dictionaries, maps of dtypes) as hints for a schema.

None of them is the private table: what is read here is published in the schema.
"""
