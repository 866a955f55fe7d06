"""The adaptation methods, one module each. A new method is one file and one line in `METHODS`.

`METHODS` maps the name that users type to "module:class"; the module is imported when the method is asked for. A method
of another distribution is one entry point of the group `privot.adaptation_methods`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privot.adaptation.adaptation_config import AdaptationConfig, Sizes
from privot.adaptation.adaptation_design import AdaptationDesign, kind_of_design
from privot.adaptation.adaptation_methods.adaptation_method import AdaptationMethod
from privot.common.extras import Registry
from privot.errors import DataError, UsageError, brief
from privot.kinds import Kind

_HERE = "privot.adaptation.adaptation_methods."
METHODS = Registry(
    "method",
    {
        "stand-in": _HERE + "stand_in_method:StandInMethod",
        "embedding": _HERE + "transformed_source:EmbeddingMethod",
        "sliced": _HERE + "sliced_alignment:SlicedMethod",
        "source": _HERE + "source_alone:SourceMethod",
    },
    "privot.adaptation_methods",
)
OF_SCHEMAS = {"table": _HERE + "table_stand_in:TableStandInMethod"}
"""The only method of a kind with schemas, by the kind's name; users call it by the first name of `METHODS`."""
ALSO_CALLED = {"projection": "sliced"}
"""The name of a mechanism stands for the method that uses it."""
_BEST_OF = {"vectors": "embedding", "images": "stand-in"}
"""By lab/docs/results/stand-in.md and lab/docs/results/adaptation.md; of all others it is the first of `METHODS`."""


def usual_method(kind: Kind) -> str:
    """The best method for records of this `kind`.

    >>> from privot.kinds import Images, Vectors
    >>> usual_method(Vectors()), usual_method(Images((8, 8)))
    ('embedding', 'stand-in')
    """
    return next((_BEST_OF[name] for name in kind.names if name in _BEST_OF), next(iter(METHODS.own)))


def method_named(name: str, kind: Kind | None = None) -> AdaptationMethod:
    """The method that is called `name`, for records of this `kind`."""
    if not isinstance(name, str):
        raise UsageError(f"A method is named by a text, or stated as its settings, got {brief(name)}.")
    name = ALSO_CALLED.get(name, name)
    found = METHODS.load(name)
    schema = next((n for n in kind.names if n in OF_SCHEMAS), None) if kind is not None else None
    if schema is not None:
        usual = next(iter(METHODS.own))
        if name != usual:
            raise UsageError(f"A table is adapted by the method {usual}, not by {name}.")
        found = Registry("kind", OF_SCHEMAS, "").load(schema)
    made: AdaptationMethod = found()
    if made.config.name != name:
        raise UsageError(f"The settings of the method {name} call it {brief(made.config.name)}: use one name.")
    return made


def method_of(design: AdaptationDesign) -> AdaptationMethod:
    """The method that made this design."""
    return method_named(design.settings.name, design.kind)


def read_design(fields: Mapping[str, Any]) -> AdaptationDesign:
    """The design that `AdaptationDesign.to_dict` wrote, for the method that it names."""
    try:
        name, kind = fields["settings"]["method"], kind_of_design(fields["networks"], fields.get("table"))
    except (KeyError, TypeError) as error:
        raise DataError(f"This does not describe an adaptation ({type(error).__name__}).") from None
    if not isinstance(name, str) or name not in METHODS:
        raise DataError(f"This is an adaptation by the method {brief(name)}, which is not installed.")
    try:
        method = method_named(name, kind)
        design = AdaptationDesign.from_dict(fields, method.config)
        method.check(design)
    except UsageError as error:
        # a schema, or a method, that a file holds
        raise DataError(f"This does not describe an adaptation: {error}") from None
    return design


def choose(name: str, image: bool, records: int, network: str | None = None, cuda: bool = False) -> AdaptationConfig:
    """The default settings of a method, by whether records are images, and the public number of target records."""
    method = method_named(name)
    return method.defaults(Sizes(image, records, network or method.network(image), cuda))
