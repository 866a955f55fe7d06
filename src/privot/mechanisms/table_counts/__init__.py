"""Mechanisms for tables: marginals, grouped and scored marginals, and the cells they count in."""
