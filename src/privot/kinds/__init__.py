"""The kinds of records: what is public about each, said once, and how one record is read. Below the vault.

`Vectors` and `Images` state their facts; a `Schema`, or a `RelatedCodec`, states those of tables.
"""

from privot.common.privacy_unit import Unit
from privot.kinds.kind import Kind, Read
from privot.kinds.kind_registry import as_kind
from privot.kinds.numbers import Images, Vectors
from privot.kinds.record_places import Files

__all__ = ["Files", "Images", "Kind", "Read", "Unit", "Vectors", "as_kind"]
