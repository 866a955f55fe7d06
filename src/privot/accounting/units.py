"""From what one record costs to what everything of one unit costs; it knows no data."""

from __future__ import annotations

import math
from dataclasses import replace

from privot.accounting.events import Composed, Event, Gaussian, Laplace, PerUnit, Repeated
from privot.common.privacy_unit import Unit
from privot.errors import NoTheoremError


def group_event(event: Event, records: int) -> Event | None:
    """`event` for data sets that differ in `records` records; None where sensitivities do not scale so.

    Formal guarantee: a chain of `records` neighbours leads from one data set to the other, and each link moves the
    value by at most Δ, so the value moves by at most `records`·Δ (triangle inequality). That holds for every part of a
    composition, whose function is fixed once the earlier parts are known. The product is rounded up.

    >>> from privot.guarantee import Adjacency
    >>> group_event(Gaussian(4.0, 1.0, Adjacency.ADD_REMOVE), 1)
    Gaussian(sigma=4.0, sensitivity=1.0, adjacency=<Adjacency.ADD_REMOVE: 'add-remove'>)
    """
    if isinstance(event, Gaussian | Laplace):
        if records == 1:
            return event
        return replace(event, sensitivity=math.nextafter(records * event.sensitivity, math.inf))
    if isinstance(event, Repeated):
        inside = group_event(event.event, records)
        return None if inside is None else replace(event, event=inside)
    if isinstance(event, Composed):
        parts = [group_event(part, records) for part in event.events]
        return None if any(part is None for part in parts) else Composed(tuple(part for part in parts if part))
    return None


def for_unit(event: Event, unit: Unit | None) -> Event:
    """What `event`, stated for one record, costs for one `unit`; itself where the unit is one record.

    Parameters
    ----------
    event
        Gaussian or Laplace noise on values of all records, once or several times, under add-remove.
    unit
        The unit; at most `unit.rows` records of it take part.

    Raises
    ------
    NoTheoremError
        If the event samples records, shows their number or states no sensitivity: sums of all records are covered.

    Notes
    -----
    Formal guarantee: adding or removing a unit adds or removes at most `rows` records, and changes no other record that
    takes part; the rest is `group_event`.

    References
    ----------
    Dwork & Roth 2014, "The algorithmic foundations of differential privacy", theorem 2.2 (group privacy).

    Examples
    --------
    >>> from privot.accounting import account
    >>> from privot.guarantee import Adjacency
    >>> one = Gaussian(20.0, 1.0, Adjacency.ADD_REMOVE)
    >>> account(for_unit(one, Unit("patient_id", 5)), 1e-5)
    Guarantee(ε = 0.926342 at δ = 1e-05, add-remove of one patient_id, at most 5 rows, proven)
    """
    if unit is None:
        return event
    grouped = group_event(event, unit.rows)
    if grouped is None:
        raise NoTheoremError(
            f"No theorem here covers this release for one {unit.name} with several records, because it samples "
            "records, shows their number or states no sensitivity: release sums of all records, or protect single ones."
        )
    return PerUnit(grouped, unit.name, unit.rows)
