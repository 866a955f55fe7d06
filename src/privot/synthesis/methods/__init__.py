"""The synthesis methods, one module each. A new method is one file and one line in `METHODS`.

`METHODS` maps the name that users type to "module:class"; the module is imported when the method is asked for. A method
of another distribution is one entry point of the group `privot.synthesis_methods`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from privot.common.extras import Registry
from privot.errors import UsageError
from privot.synthesis.method_configs import MethodConfig
from privot.synthesis.methods.outside import OutsideMethod

if TYPE_CHECKING:
    from privot.kinds import Kind
    from privot.synthesis.methods.method import SynthesisMethod

_HERE = "privot.synthesis.methods."
METHODS = Registry(
    "method",
    {
        "embedding": _HERE + "embedding_method:EmbeddingMethod",
        "sinkhorn": _HERE + "sinkhorn_method:SinkhornMethod",
        "sliced": _HERE + "sliced_method:SlicedMethod",
        "sinkhorn-parameters": _HERE + "sinkhorn_parameters:SinkhornParametersMethod",
    },
    "privot.synthesis_methods",
)
OF_SCHEMAS = {
    "table": _HERE + "table_method:TableMethod",
    "related tables": _HERE + "related_method:RelatedMethod",
}
"""The only method of a kind with schemas, by the kind's name; users always call it by the first name of `METHODS`."""


def method_named(name: str, kind: Kind | None = None) -> SynthesisMethod:
    """The method that is called `name`, for records of this `kind`.

    >>> type(method_named("sliced")).__name__
    'SlicedMethod'
    """
    found = METHODS.load(name)
    usual, schemas = next(iter(METHODS.own)), Registry("kind", OF_SCHEMAS, "privot.synthesis_of_kinds")
    if kind is not None and (own := next((n for n in kind.names if n in schemas), None)) is not None:
        if name != usual:
            raise UsageError(f"Tables are synthesised by {usual}, not by {name}.")
        found = schemas.load(own)
    made: SynthesisMethod = found()
    if not METHODS.is_own(name):
        # of this distribution alone it is known what is proven
        made = OutsideMethod(name, made)  # type: ignore[assignment]
    return made


def asked_of(name: str, **given: Any) -> MethodConfig:
    """What is asked of the method `name` beside the budget; refuses what it does not take."""
    make = getattr(METHODS.load(name), "config", MethodConfig)
    stated = {what: value for what, value in given.items() if value is not None}
    odd = sorted(stated.keys() - {field.name for field in fields(make)})
    if odd:
        what = {"public": "public images"}.get(odd[0], odd[0].replace("_", " "))
        raise UsageError(f"The method {name} takes no {what}: leave it out.")
    made: MethodConfig = make(**stated)
    return made
