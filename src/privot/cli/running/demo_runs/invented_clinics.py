"""The patients of the demonstration: invented by a recorded seed, so that nobody's records are needed to try privot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from privot.tables import Table

PATIENTS = 6000
"""Records of each clinic."""
REGISTRY = 3000
"""Records of the open registry that synthetic patients are tested on."""
WARDS = ("surgery", "medicine", "cardiology", "emergency")
SCHEMA: dict[str, Any] = {
    "label": "readmitted",
    "columns": [
        {"name": "age", "type": "integer", "low": 18, "high": 99},
        {"name": "sex", "type": "categorical", "categories": ["female", "male"]},
        {"name": "ward", "type": "categorical", "categories": list(WARDS)},
        {"name": "pressure", "type": "integer", "low": 80, "high": 210},
        {"name": "smoker", "type": "boolean", "categories": ["no", "yes"]},
        {"name": "days", "type": "integer", "low": 0, "high": 40},
        {"name": "readmitted", "type": "boolean", "categories": ["no", "yes"]},
    ],
}
"""What is public about the patients."""
_NORTH = {"age": 57.0, "spread": 17.0, "wards": (0.3, 0.35, 0.15, 0.2), "smokers": 0.28}
_SOUTH = {"age": 68.0, "spread": 13.0, "wards": (0.2, 0.3, 0.35, 0.15), "smokers": 0.2}


def invent(clinic: str, count: int, seed: int) -> Table:
    """`count` patients of "north" or "south", who are older and more often in cardiology."""
    from privot.tables import Table

    facts: dict[str, Any] = _NORTH if clinic == "north" else _SOUTH
    dice = np.random.default_rng(seed)
    age = np.clip(np.rint(dice.normal(facts["age"], facts["spread"], count)), 18, 99)
    male = dice.random(count) < 0.48
    ward = dice.choice(len(WARDS), count, p=facts["wards"])
    smoker = dice.random(count) < facts["smokers"] * np.where(age < 70, 1.2, 0.6)
    pressure = 98.0 + 0.5 * age + 5.0 * smoker + 6.0 * (ward == 2) + dice.normal(0.0, 13.0, count)
    days = dice.gamma(2.0, 0.6 + 0.02 * age + 1.5 * (ward == 0) + 1.0 * (ward == 2))
    days = np.clip(np.rint(days), 0, 40)
    risk = -5.2 + 0.035 * age + 0.1 * days + 0.9 * smoker + 0.8 * (ward == 2)
    readmitted = dice.random(count) < 1.0 / (1.0 + np.exp(-risk))
    words = np.array(["no", "yes"], dtype=object)
    return Table(
        {
            "age": age.astype(np.int64),
            "sex": np.array(["female", "male"], dtype=object)[male.astype(np.int64)],
            "ward": np.array(WARDS, dtype=object)[ward],
            "pressure": np.clip(np.rint(pressure), 80, 210).astype(np.int64),
            "smoker": words[smoker.astype(np.int64)],
            "days": days.astype(np.int64),
            "readmitted": words[readmitted.astype(np.int64)],
        }
    )
