"""With the noisy counts fixed, the records have no influence on anything that `privot synth` leaves behind."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from privot import Vault
from privot.synthesis import Synthesizer
from privot.synthesis.output.output_folder import write_folder
from privot.tables import Column, Schema, TableCodec
from replaced_noise import Answers

CODEC = TableCodec(
    Schema(
        (
            Column("age", "integer", 0, 40),
            *(Column(name, "categorical", categories=tuple("abcd")) for name in ("one", "two")),
            Column("ill", "boolean", categories=("no", "yes")),
        ),
        label="ill",
    )
)


def coded(informative: tuple[int, int], rows: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three columns of four cells, of which two say nearly everything about the label."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, (rows, 3)).astype(np.float64)
    return x, (x[:, informative].sum(axis=1) + 0.5 * rng.normal(size=rows) > 3).astype(int)


@pytest.mark.slow
def test_two_tables_with_the_same_noisy_counts_leave_the_same_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folders = []
    for place, (informative, rows) in enumerate((((0, 1), 3000), ((1, 2), 900))):
        answers = Answers(monkeypatch)
        x, y = coded(informative, rows, seed=place)
        x[:, 0] = (x[:, 0] + np.random.default_rng(place).random(rows)) / (4.0 + 3.0 * place)
        clip = CODEC.bound(compact=True)
        vault = Vault(x, y, clip=clip, classes=2, adjacency="add-remove", budget=(1.0, 1e-6))
        fitted = Synthesizer(1.0, 1e-6, seed=3, device="cpu", kind=CODEC)
        # the rehearsal on made-up rows asks first; the records' own answers start where it ended
        design = fitted.design(vault.facts)
        fitted.fit(vault, folder=tmp_path / f"job{place}")
        assert answers.asked > 3 + 3 + 3
        assert design.mechanism.event(vault.facts).to_dict() == dict(fitted.guarantee_.events[0])
        folder = tmp_path / str(place)
        folder.mkdir()
        write_folder(fitted, folder, 500, seed=1, kind=".csv")
        files = {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        with ZipFile(tmp_path / f"job{place}" / "release.npz") as release:
            # member by member: the archive holds the time of its writing
            folders.append({**files, **{name: release.read(name) for name in release.namelist()}})
    assert {"synthetic.csv", "figures.json"} <= folders[0].keys() == folders[1].keys()
    assert len(folders[0]) > len(files)
    for name in folders[0]:
        assert folders[0][name] == folders[1][name], name
