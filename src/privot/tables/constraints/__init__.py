"""Public knowledge about how the columns of a table belong together: what may be stated, and how it is kept."""

from privot.tables.constraints.checking import check_constraints, named_columns
from privot.tables.constraints.keeping import Rules, Support, settle, with_generated
from privot.tables.constraints.stated import (
    Constant,
    Constraint,
    EmptyUnless,
    Function,
    Key,
    Order,
    constraint_from_dict,
)

__all__ = [
    "Constant",
    "Constraint",
    "EmptyUnless",
    "Function",
    "Key",
    "Order",
    "Rules",
    "Support",
    "check_constraints",
    "constraint_from_dict",
    "named_columns",
    "settle",
    "with_generated",
]
