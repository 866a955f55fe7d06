"""Records that lie in many files, shards or a database, and the engines that go over them; no ledger and no noise.

A source knows *where* records are and reads them a block at a time. An engine maps a function over its partitions, in
processes on this machine or on a cluster. What comes back are sums of whole numbers, the same however the data are cut.
"""

from privot.partitions.engines.engine_choice import choose_engine

__all__ = [
    "choose_engine",
]
