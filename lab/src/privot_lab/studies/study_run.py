"""Runs a study: settings, data, parts kept for a run that is cut off, and where a result comes from.

The result is one JSON file per study and mode. A part (one seed, one pair) is kept as soon as it is there, so that a
run that was killed goes on with the next one. Results of other settings or of other source code are not used.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import privot
import privot_lab
from privot.common.files import write_whole
from privot.errors import DataError, UsageError, brief
from privot.opening import parse_json, read_text
from privot_lab.studies.study import Mode, Study, StudyFinding, StudyVerdict

SCHEMA_VERSION = 1
DATA_SETS = {
    "mnist": "mnist.npz",
    "usps": "usps.npz",
    "fashion_mnist": "fashion_mnist.npz",
    "cifar10": "cifar10_small.npz",
    "celeba": "celeba32_10k.npz",
    "office_caltech": "office_caltech_surf.npz",
    "bbc": "bbc_news.jsonl.gz",
    "glove": "glove50_bbc.npz",
    "adult_train": "adult_train.csv.gz",
    "adult_test": "adult_test.csv.gz",
    "rand_hie": "randhie.csv",
    "font_digits": "fonts_digits.npz",
    "font_capitals": "fonts_capitals.npz",
    "inception": "inception.pt",
}
"""Open data sets by name, and the file that holds each in the folder of data."""
_VERSIONS = ("numpy", "scipy", "torch")


class MissingDataError(DataError):
    """A study needs a data set that is not at hand."""


@dataclass
class StudyRun:
    """One run of one study."""

    study: Study
    mode: Mode = "quick"
    data_folder: Path | None = None
    out: Path | None = None
    """Where results and parts are kept; nowhere if None."""
    device: str = "cpu"
    seed: int = 0
    tell: Callable[[str], None] = lambda line: None
    _parts: dict[str, Any] = field(default_factory=dict)
    _identity: str = ""

    def data(self, name: str) -> Path:
        """The file of a data set; raises `MissingDataError` if it is not at hand."""
        if name not in DATA_SETS:
            known = ", ".join(DATA_SETS)
            raise UsageError(f"{self.study.name} knows no data set {brief(name)}: name some of {known}, with commas.")
        file = DATA_SETS[name]
        if self.data_folder is None or not (self.data_folder / file).is_file():
            raise MissingDataError(f"{self.study.name} needs {file}: name the folder that holds it (--data DIR).")
        return self.data_folder / file

    def network(self) -> Path | None:
        """The network of FID, a TorchScript file beside the data sets; None if it is not at hand: FID is left out."""
        path = None if self.data_folder is None else self.data_folder / DATA_SETS["inception"]
        return path if path is not None and path.is_file() else None

    def part(self, key: str, make: Callable[[], Any]) -> Any:
        """What `make` returns, plain JSON types; taken from the parts of an earlier run that was cut off."""
        if key not in self._parts:
            began, busy = time.perf_counter(), time.process_time()
            self._parts[key] = make()
            took = [round(time.perf_counter() - began, 1), round(time.process_time() - busy, 1)]
            self.tell(f"{self.study.name}: {key}, {took[0]:.0f} s")
            if self.out is not None:
                held = {"run": self._identity, "part": key, "seconds": took, "value": self._parts[key]}
                line = json.dumps(held) + "\n"
                with self._parts_file.open("a", encoding="utf-8") as file:
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
        return self._parts[key]

    def result(self, settings: Mapping[str, Any] | None = None, *, again: bool = False) -> dict[str, Any]:
        """The result of the study: of an earlier run with the same settings, or computed now.

        `settings` change those of the mode. A data set that is missing is a finding, not an error.
        """
        chosen = self._settings(settings or {})
        self._identity = self._digest(chosen)
        if not again and (kept := self._kept()) is not None:
            return kept
        self._parts, earlier = ({}, (0.0, 0.0)) if again else self._kept_parts()
        # a run that was cut off took what its parts took
        began, busy = time.perf_counter() - earlier[0], time.process_time() - earlier[1]
        try:
            found = import_module(self.study.module).compute(self, **chosen)
        except MissingDataError as missing:
            finding = StudyFinding(self.study.title, "–", StudyVerdict.CANNOT_RUN, why=str(missing))
            found = {"findings": [finding.to_dict()]}
        record = {
            "schema": SCHEMA_VERSION,
            "study": self.study.name,
            "paper": self.study.paper.citation,
            "item": self.study.item,
            "title": self.study.title,
            "mode": self.mode,
            "settings": chosen,
            "seed": self.seed,
            "run": self._identity,
            "seconds": round(time.perf_counter() - began, 1),
            # of all threads: what it takes on quiet cores, whatever else ran beside it
            "processor_seconds": round(time.process_time() - busy, 1),
            **({"fid_network": DATA_SETS["inception"]} if self.study.fid and self.network() is not None else {}),
            **provenance(self.device),
            "result": found,
        }
        missing_data = any(f["verdict"] == StudyVerdict.CANNOT_RUN for f in found["findings"])
        if self.out is not None and not missing_data:
            write_whole(self._file, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode(), mode=0o644)
            self._parts_file.unlink(missing_ok=True)
        return record

    def _settings(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        settings = self.study.settings(self.mode)
        for name in changes:
            if name not in settings:
                known = ", ".join(settings) or "none"
                raise UsageError(f"The study {self.study.name} has no setting {name!r}; it has {known}.")
        return {**settings, **{name: _like(settings[name], value) for name, value in changes.items()}}

    def _digest(self, settings: Mapping[str, Any]) -> str:
        """What a result depends on, as far as it is known before it is computed."""
        known = [SCHEMA_VERSION, _source(), self.study.name, self.mode, settings, self.seed, self.device]
        if self.study.fid and self.network() is not None:
            # a result without FID is not that of a run with it
            known.append("FID")
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def _file(self) -> Path:
        assert self.out is not None
        return self.out / f"{self.study.name}.{self.mode}.json"

    @property
    def _parts_file(self) -> Path:
        return self._file.with_suffix(".parts.jsonl")

    def _kept(self) -> dict[str, Any] | None:
        """The result of an earlier run of the same settings."""
        if self.out is None or not self._file.is_file():
            return None
        record = read_result(self._file)
        return record if record.get("run") == self._identity else None

    def _kept_parts(self) -> tuple[dict[str, Any], tuple[float, float]]:
        """Parts of an earlier run, and the seconds that they took: by the clock, and of processors."""
        if self.out is None:
            return {}, (0.0, 0.0)
        self.out.mkdir(parents=True, exist_ok=True)
        if not self._parts_file.is_file():
            return {}, (0.0, 0.0)
        kept: dict[str, Any] = {}
        took: dict[str, list[float]] = {}
        for line in read_text(self._parts_file).splitlines():
            try:
                held = parse_json(line, self._parts_file.name)
                if held["run"] == self._identity:
                    kept[str(held["part"])] = held["value"]
                    took[str(held["part"])] = [float(each) for each in held.get("seconds", (0.0, 0.0))]
            except (DataError, KeyError, TypeError, ValueError):
                continue  # the line that a kill cut off
        return kept, (sum(each[0] for each in took.values()), sum(each[1] for each in took.values()))


def _like(usual: Any, value: Any) -> Any:
    """`value` as the setting takes it: a list may be given as text, its entries separated by commas.

    >>> _like([1.0, 10.0], "0.3,1"), _like(["a"], "b,c"), _like([1.0], 3), _like(True, "false"), _like(2, 5)
    ([0.3, 1.0], ['b', 'c'], [3.0], False, 5)
    """
    if isinstance(usual, bool) and value in ("true", "false"):
        return value == "true"
    if isinstance(usual, list) and not isinstance(value, list):
        kind = type(usual[0]) if usual and isinstance(usual[0], int | float) else str
        try:
            return [kind(entry) for entry in str(value).split(",")]
        except ValueError:
            raise UsageError(f"A setting takes numbers separated by commas, got {brief(str(value))}.") from None
    return value


def read_result(path: Path) -> dict[str, Any]:
    """A result that `StudyRun.result` wrote."""
    record = parse_json(read_text(path), path.name)
    if not isinstance(record, dict) or record.get("schema") != SCHEMA_VERSION or "result" not in record:
        raise DataError(f"{path.name!r} is not a study's result that this privot reads.")
    return record


def provenance(device: str) -> dict[str, Any]:
    """Date, versions, machine and commit of a result."""
    loaded = {name: str(sys.modules[name].__version__) for name in _VERSIONS if name in sys.modules}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "versions": {"privot": privot.__version__, "python": platform.python_version(), **loaded},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "device": _device_name(device),
    }


@cache
def _source() -> str:
    """A digest of the source of both packages: figures of other code are not of today, whatever the version says."""
    found = hashlib.sha256()
    for package in (privot, privot_lab):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            found.update(f"{path.relative_to(root).as_posix()} {path.stat().st_size} ".encode())
            found.update(path.read_bytes())
    return found.hexdigest()


def _device_name(device: str) -> str:
    """The device with the name of its GPU: "cuda (NVIDIA H200)"."""
    torch = sys.modules.get("torch")
    if torch is None or not device.startswith("cuda"):
        return device
    return f"{device} ({torch.cuda.get_device_name(device)})"


def _commit() -> str | None:
    """The commit of a checkout, with "-dirty" if files were changed since.

    An installed package or a copy of the source has none: PRIVOT_COMMIT may name it; None otherwise.
    """
    root = Path(privot.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return os.environ.get("PRIVOT_COMMIT") or None
    try:
        found = subprocess.run(  # noqa: S603 - the checkout of this very file
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
