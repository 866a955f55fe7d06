"""The laws of a table's columns, one by one and given each other, from noisy counts; no record comes here."""
