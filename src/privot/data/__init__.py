"""Reads records from files and checks that they can be used; it hands out raw data and knows no privacy."""
