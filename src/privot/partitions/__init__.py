"""Records that lie in many files, shards or a database, and the engines that go over them; no ledger and no noise.

A source knows *where* records are and reads them a block at a time. An engine maps a function over its partitions, in
processes on this machine or on a cluster. What comes back are sums of whole numbers, the same however the data are cut.
"""

from privot.partitions.engines.engine import Engine
from privot.partitions.engines.engine_choice import choose_engine
from privot.partitions.engines.local_engine import LocalEngine
from privot.partitions.partition import Partition
from privot.partitions.source import PartitionedSource
from privot.partitions.source_opening import is_partitioned, open_source

__all__ = [
    "Engine",
    "LocalEngine",
    "Partition",
    "PartitionedSource",
    "choose_engine",
    "is_partitioned",
    "open_source",
]
