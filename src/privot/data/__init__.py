"""Reads records from files and checks that they can be used; it hands out raw data and knows no privacy."""

from privot.data.loading import LABEL_NAMES, Dataset, checked_labels, checked_rows, load
from privot.data.record_digest import Checksum, class_digests, owned_digest, records_digest
from privot.data.stated_facts import StatedFacts

__all__ = [
    "LABEL_NAMES",
    "Checksum",
    "Dataset",
    "StatedFacts",
    "checked_labels",
    "checked_rows",
    "class_digests",
    "load",
    "owned_digest",
    "records_digest",
]
