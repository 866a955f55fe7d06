"""Signed sketches of a party's records, and everything computed from them."""
