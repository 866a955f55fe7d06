"""A sum over many parties of which everybody, the coordinator too, sees the total and nothing else.

`masking` hides each party's numbers under masks that cancel in the sum; `rounds` is one sum from keys to total, seen by
a party and by the coordinator; `round_memory` keeps what a party may never do twice.
"""
