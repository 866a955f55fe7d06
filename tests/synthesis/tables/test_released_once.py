"""A release on disk is refused for each thing by itself in which it is not the one that its design pays for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privot import Synthesizer, Vault
from privot.errors import DataError
from privot.release import Release
from privot.tables import Column, RelatedCodec, Schema, TableCodec

PEOPLE = Schema((Column("age", "integer", 0, 9), Column("sex", "categorical", categories=("f", "m"))))
VISITS = Schema((Column("days", "integer", 0, 9),))
TOLD: dict[str, Any] = {"adjacency": "add-remove", "budget": (5.0, 1e-6)}


def table(folder: Path) -> tuple[Vault, Any]:
    (folder / "people.csv").write_text("age,sex\n1,f\n4,m\n")
    return Vault.open(folder / "people.csv", PEOPLE, **TOLD), TableCodec(PEOPLE)


def related(folder: Path) -> tuple[Vault, Any]:
    codec = RelatedCodec({"people": PEOPLE, "visits": VISITS}, key="who", per_parent=2)
    files = {name: folder / f"{name}.csv" for name in codec.names}
    files["people"].write_text("who,age,sex\na,1,f\nb,4,m\n")
    files["visits"].write_text("who,days\na,3\nb,5\nb,6\n")
    return Vault.open(files, codec, **TOLD), codec


@pytest.mark.parametrize("opened", [table, related])
def test_another_event_delta_or_statement_is_refused_by_itself(tmp_path: Path, opened: Any) -> None:
    vault, codec = opened(tmp_path)
    design = Synthesizer(1.0, 1e-6, seed=1, device="cpu", kind=codec).design(vault.facts)
    release = vault.release(design.mechanism, purpose="test")
    design.check_release(release)
    assert design.due(None) == design.event(vault.facts)
    paid, public = release.guarantee, dict(release.public)
    stated = "tables" if "tables" in public else "by_class"
    others = [
        Release(release.value, replace(paid, events=(*paid.events, *paid.events)), public),
        Release(release.value, paid.quoted_at(1e-7), public),
        Release(release.value, paid, {name: held for name, held in public.items() if name != stated}),
    ]
    for other in others:
        with pytest.raises(DataError, match="not the one its job paid for"):
            design.check_release(other)
