"""Engines: how a function is mapped over partitions, in processes on this machine or on a cluster."""
