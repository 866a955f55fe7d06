"""How a released simple number is printed: with its interval, in the column's own unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.release import Release
    from privot.tables import TableCodec


def plain_value(release: Release) -> dict[str, Any]:
    """The arrays of a release as plain JSON types."""
    assert not hasattr(release.value, "shape")
    return {name: array.tolist() for name, array in release.value.items()}


def answer_rows(release: Release, codec: TableCodec | None) -> tuple[list[str], list[list[str]]]:
    """A header and rows of a table, for bins and quantiles; or one sentence in the header and no rows."""
    public, value = release.public, plain_value(release)
    kind = public["mechanism"]
    if kind == "histogram":
        names = _bins(public)
        rows = [[n, f"{e:.0f}", f"{a:.0f} to {b:.0f}"] for n, e, a, b in _lines(names, value)]
        return ["bin" if public["categories"] is None else "category", "records", "interval"], rows
    show = _shown(public["column"], codec) if kind in ("mean", "quantiles") else lambda x: f"{x:.0f}"
    if kind == "quantiles":
        names = [f"{q:g}" for q in public["probabilities"]]
        rows = [[n, show(e), f"{show(a)} to {show(b)}"] for n, e, a, b in _lines(names, value)]
        return ["quantile", "value", "interval"], rows
    sentence = f"{show(value['estimate'])}, between {show(value['low'])} and {show(value['high'])}"
    if "count" in value:
        sentence += f"; of about {max(value['count'], 0.0):.0f} values"
    return [sentence], []


def _lines(names: list[str], value: dict[str, Any]) -> list[tuple[str, float, float, float]]:
    return list(zip(names, value["estimate"], value["low"], value["high"], strict=True))


def _bins(public: Any) -> list[str]:
    if public["categories"] is not None:
        return list(public["categories"])
    edges = public["edges"]
    ends = [")"] * (len(edges) - 2) + ["]"]
    names = [f"[{a:g}, {b:g}{end}" for a, b, end in zip(edges, edges[1:], ends, strict=False)]
    return [*names, "(missing)"] if public["missing"] else names


def _shown(name: str, codec: TableCodec | None) -> Any:
    """How a value of this column is written: a date as a date, anything else with five digits."""
    if codec is not None and name in codec.schema.names and codec.schema[name].type == "date":
        column = codec.schema[name]
        return lambda x: column.to_date(x).strftime(column.format)
    return lambda x: f"{x:.5g}"
