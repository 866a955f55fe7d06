"""The synthesis methods, one module each. A new method is one file and one line in `METHODS`.

`METHODS` maps the name that users type to "module:class"; the module is imported when the method is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from privot.errors import UsageError

if TYPE_CHECKING:
    from privot.synthesis.methods.method import SynthesisMethod

METHODS = {
    "embedding": "embedding_method:EmbeddingMethod",
    "sinkhorn": "sinkhorn_method:SinkhornMethod",
    "sliced": "sliced_method:SlicedMethod",
    "sinkhorn-parameters": "sinkhorn_parameters:SinkhornParametersMethod",
}
TABLE_METHOD = "table_method:TableMethod"
"""The method for tables, which users always call embedding."""
RELATED_METHOD = "related_method:RelatedMethod"
"""The method for related tables; it is called embedding, too."""


def method_named(name: str, table: bool = False, related: bool = False) -> SynthesisMethod:
    """The method that is called `name`; with `table`, the one for records with a schema, or with `related` schemas.

    >>> type(method_named("sliced")).__name__
    'SlicedMethod'
    """
    if name not in METHODS:
        raise UsageError(f"Unknown method {name!r}: expected one of {', '.join(METHODS)}.")
    if table and name != "embedding":
        raise UsageError(f"Tables are synthesised by embedding, not by {name}.")
    module, kind = (RELATED_METHOD if related else TABLE_METHOD if table else METHODS[name]).split(":")
    made: SynthesisMethod = getattr(import_module(f"privot.synthesis.methods.{module}"), kind)()
    return made
