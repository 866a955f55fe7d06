"""Tables 1, 2 and 3 of the DP-Sinkhorn paper, printed beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privot_lab.studies.dp_sinkhorn.ablation_table import VARIANTS
from privot_lab.studies.dp_sinkhorn.face_table import PRINTED as FACES
from privot_lab.studies.dp_sinkhorn.image_table import PRINTED as IMAGES
from privot_lab.studies.result_tables import Found, Maker, ResultTable, plain, printed, shares, spread

_NAMES = {"sinkhorn": "DP-Sinkhorn", "embedding": "DP-MERF (ours: `embedding`)", "real data": "real data"}
_OPEN = {
    ("mnist", "m = 1"): ((89.0, 89.0, 91.0), 54.2),
    ("mnist", "m = 3"): ((87.7, 87.3, 90.6), 43.4),
    ("fashion_mnist", "m = 1"): ((78.4, 79.1, 73.9), 65.8),
    ("fashion_mnist", "m = 3"): ((78.4, 78.4, 73.3), 63.8),
}
"""Sinkhorn without privacy: LogReg, MLP, CNN, and FID."""
_FIDS = {
    ("mnist", "sinkhorn"): 48.4,
    ("mnist", "embedding"): 116.3,
    ("fashion_mnist", "sinkhorn"): 128.3,
    ("fashion_mnist", "embedding"): 132.6,
}
_ABLATION_FIDS = dict(zip(VARIANTS, (218.6, 124.3, 73.9, 89.1, 86.0, 48.4), strict=True))
_FACE_FIDS = {
    ("real data", False): 1.1,
    ("sinkhorn", False): 129.5,
    ("embedding", True): 274.0,
    ("sinkhorn", True): 189.5,
}
_KINDS = ("logreg", "mlp", "cnn")
_HEADER = ("published LogReg / MLP / CNN", "published FID", "our LogReg", "our MLP", "our CNN", "our FID")


def _ours(found: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> tuple[str, ...]:
    fids = [float(each["fid"]) for each in found if each.get("fid") is not None]
    return (*(shares(found, kind) for kind in kinds), spread(fids))


def _images(found: Found) -> list[ResultTable]:
    rows = []
    for name, held in _openly(found["without_privacy"]):
        for data, seeds in held.items():
            openly, fid = _OPEN.get((data, name), (None, None))
            rows.append((data, f"Sinkhorn, {name}", "∞", printed(openly), plain(fid), *_ours(seeds, _KINDS)))
    for row in found["rows"]:
        data, method = row["data"], row["method"]
        stated = IMAGES.get(data, {}).get(method)
        own = _ours(row["found"], _KINDS)
        beside = (printed(stated), plain(_FIDS.get((data, method))))
        rows.append((data, _NAMES[method], f"{found['epsilon']:g}", *beside, *own))
    rows.sort(key=lambda row: row[0], reverse=True)
    return [ResultTable("Accuracy on real test images, %", ("data", "method", "ε", *_HEADER), tuple(rows))]


def _openly(held: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Runs without privacy by weight of the L1 cost; earlier results hold one, of squared distances."""
    if all(name.startswith("m = ") for name in held):
        return list(held.items())
    return [("squared distances", held)]


def _ablation(found: Found) -> list[ResultTable]:
    rows = tuple(
        (
            row["variant"],
            printed(VARIANTS[row["variant"]][2]),
            plain(_ABLATION_FIDS.get(row["variant"])),
            *_ours(row["found"], ("mlp", "cnn")),
        )
        for row in found["rows"]
    )
    header = ("variant", "published MLP / CNN", "published FID", "our MLP", "our CNN", "our FID")
    return [ResultTable(f"Accuracy on real test images of {found['data']}, %", header, rows)]


def _faces(found: Found) -> list[ResultTable]:
    kinds = tuple(found["rows"][0]["found"][0]["accuracy"])
    rows = []
    for row in found["rows"]:
        held = [{**each["accuracy"], "fid": each.get("fid")} for each in row["found"]]
        key = (row["method"], row["private"])
        method = _NAMES[row["method"]] if row["private"] else row["method"].replace("sinkhorn", "Sinkhorn")
        epsilon = f"{found['epsilon']:g}" if row["private"] else "∞"
        rows.append((method, epsilon, printed(FACES.get(key)), plain(_FACE_FIDS.get(key)), *_ours(held, kinds)))
    header = ("method", "ε", "published MLP / CNN", "published FID", *(f"our {kind}" for kind in kinds), "our FID")
    return [ResultTable("Accuracy on real test faces, %", header, tuple(rows))]


TABLES: dict[str, Maker] = {
    "dp-sinkhorn-table-1": _images,
    "dp-sinkhorn-table-2": _ablation,
    "dp-sinkhorn-table-3": _faces,
}
