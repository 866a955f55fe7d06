"""Reads records from files and checks that they can be used; it hands out raw data and knows no privacy."""

from privot.data.loading import LABEL_NAMES, Dataset, checked_labels, checked_rows, load
from privot.data.stated import Stated

__all__ = ["LABEL_NAMES", "Dataset", "Stated", "checked_labels", "checked_rows", "load"]
