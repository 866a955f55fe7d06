"""The result of a synthesis: a generator or a model of a table that draws records; it needs no vault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from privot.common import arguments
from privot.errors import UsageError
from privot.kinds import Kind
from privot.mechanisms.embedding import FeatureMap
from privot.synthesis.design import shares
from privot.synthesis.neural.after_training.relabelling import Labeller, labels_of
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.features.encoder_codes import EncoderClassifier
from privot.synthesis.neural.generators.generator import Generator
from privot.synthesis.neural.generators.joined_pairs import joined_pairs
from privot.synthesis.neural.generators.record_scale import RecordScale
from privot.synthesis.neural.public.public_means import PublicUse
from privot.synthesis.tabular.conditions import Where, conditions_of
from privot.synthesis.tabular.related.related_model import RelatedModel
from privot.synthesis.tabular.restricted_rows import restricted_rows
from privot.synthesis.tabular.table_model import TableModel
from privot.tables.frames.frame_form import FrameForm
from privot.tables.frames.frame_writing import frame_of
from privot.tables.table import Table
from privot.transport.slice_directions import check_seed, fresh_seed

ENCODER = "labeller-encoder.pt2"
"""A copy of the public encoder's file, where labels of samples need it."""
LABELLER = "labeller."
"""The prefix of the names of a labeller's arrays."""
_SAMPLE_ROWS = 4096
_LEAST_ROWS, _MOST_TRIES = 64, 50
"""The fewest records that are drawn at once in search of a class, and how often for each block of those wanted."""
Samples = tuple[Any, NDArray[np.int64] | None]


@dataclass
class FittedGenerator:
    """A trained generator and what sampling from it needs.

    `counts` of shape (classes,) weigh the classes; `span` is the public range of the records, used where there are no
    `features` that know it; a `labeller` gives samples their labels.
    """

    generator: Generator
    features: FeatureMap | None
    counts: NDArray[np.float64]
    labels: bool
    span: tuple[Any, Any]
    labeller: Labeller | None = None
    losses: list[float] = field(default_factory=list)
    public: PublicUse | None = None
    """What was made of public images, if there were some."""
    form: FrameForm | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    """Of a generator that was read from a folder, what that folder says of its making and sampling does not need."""

    def __post_init__(self) -> None:
        self.generator = self.generator.eval()
        self.generator.ease(1.0)
        self.counts = np.asarray(self.counts, dtype=np.float64)

    @property
    def low(self) -> Any:
        """The lower end of the range, as `RecordScale` needs it."""
        return self.span[0]

    @property
    def high(self) -> Any:
        """The upper end."""
        return self.span[1]

    def sample(self, n: int, labels: Any = None, seed: int | None = None, joined: float = 0.0) -> Samples:
        """`n` records of shape (n, dim) and their labels of shape (n,), None where there are none.

        A share `joined` of them, drawn at random, is joined of two each (`joined_pairs`) and named by the labeller.
        """
        n = arguments.whole("The number of samples", n, 1)
        self._check_joined(joined, labels)
        random = np.random.default_rng(None if seed is None else check_seed(seed))
        if labels is None:
            y = random.permutation(shares(self.counts, n))
        else:
            y = np.asarray(labels, dtype=np.int64)
            if y.shape != (n,) or y.min() < 0 or y.max() >= self.generator.classes:
                raise UsageError(f"Give {n} labels from 0 to {self.generator.classes - 1}.")
            if self.labeller is not None and not self.generator.shows_class:
                return self._of_classes(y, random), y if self.labels else None
        own = self.labeller is not None and labels is None
        parts = []
        for start in range(0, n, _SAMPLE_ROWS):
            x, marks = self._made(y[start : start + _SAMPLE_ROWS], random, own, joined)
            if own:
                y[start : start + _SAMPLE_ROWS] = marks
            parts.append(x)
        return np.concatenate(parts), y if self.labels else None

    def draw(
        self, n: int, labels: Any, seed: int | None, where: Where | None, frame: str | None, joined: float
    ) -> Samples:
        """`sample` with what may be asked of any fitted model; refuses what only tables have."""
        if frame is not None or where is not None:
            raise UsageError("Only a table with a schema has columns to name: leave out frame and where.")
        return self.sample(n, labels, seed, joined)

    def learned(self, rules: Rules | None = None) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Its arrays, and the rest as plain JSON types: what its folder holds."""
        labeller, features = self.labeller, self.features
        weights = dict(self.generator.state_dict())
        if labeller is not None:
            weights |= {LABELLER + name: tensor for name, tensor in labeller.tensors().items()}
        used = {} if self.public is None else {"public": self.public.to_dict()}
        learned = {
            "generator": self.generator.config,
            "features": None if features is None else features.to_dict(),
            "counts": self.counts.tolist(),
            "labels": self.labels,
            "labeller": None if labeller is None else labeller.to_dict(),
            "losses": [float(f"{v:.6g}") for v in self.losses],
            "rules": None if rules is None else rules.to_dict(),
            **used,
        }
        # of a folder that was read: what it says of its making
        return weights, learned | {
            n: self.origin[n] for n in ("features", "rules") if learned[n] is None and n in self.origin
        }

    @property
    def files(self) -> dict[str, bytes]:
        """What lies beside the weights in its folder, by name."""
        coded = isinstance(self.labeller, EncoderClassifier)
        return {ENCODER: self.labeller.map.encoder.content} if coded else {}  # type: ignore[union-attr]

    def _check_joined(self, joined: float, labels: Any) -> None:
        if not arguments.is_number(joined) or not 0.0 <= joined <= 1.0:
            raise UsageError(f"The share of samples that are joined of two must lie between 0 and 1, got {joined!r}.")
        if joined and self.labeller is None:
            raise UsageError(
                "Samples are joined of two only where a classifier says what came out, which none does here."
            )
        if joined and labels is not None:
            raise UsageError("What samples that are joined of two show is found, not asked for: leave out the labels.")

    def _made(
        self, y: NDArray[np.int64], random: np.random.Generator, own: bool, joined: float = 0.0
    ) -> tuple[Any, NDArray[np.int64]]:
        """Records of the classes `y`, and their labels: those of the labeller, or `y`."""
        with torch.no_grad():
            made = self._drawn(y, random)
            if joined and len(at := np.flatnonzero(random.random(len(y)) < joined)):
                assert self.labeller is not None
                # the other picture is a sample of its own, of a class that follows the same shares
                other = self._drawn(random.choice(y, len(at)), random)
                places = torch.from_numpy(at).to(made.device)
                made[places] = joined_pairs(made[places], other, self.labeller.shape, random)
            if own:
                assert self.labeller is not None
                y = labels_of(self.labeller, made).cpu().numpy()
        return made.cpu().numpy(), y

    def _drawn(self, y: NDArray[np.int64], random: np.random.Generator) -> torch.Tensor:
        """Records of the classes `y`, on the generator's device."""
        device = next(self.generator.parameters()).device
        scale, part = RecordScale.of(self.features or self, device), torch.from_numpy(y).to(device)
        z = random.standard_normal((len(part), self.generator.latent)).astype(np.float32)
        return scale.to_records(self.generator(torch.from_numpy(z).to(device), part))

    def _of_classes(self, wanted: NDArray[np.int64], random: np.random.Generator) -> NDArray[Any]:
        """Records whose labels are `wanted`: those among many that the labeller gives these labels."""
        out = np.empty((len(wanted), self.generator.dim), dtype=np.float32)
        missing = np.ones(len(wanted), dtype=bool)
        classes = self.generator.classes
        for _ in range(_MOST_TRIES * (1 + len(wanted) * classes // _SAMPLE_ROWS)):
            block = min(_SAMPLE_ROWS, max(_LEAST_ROWS, 2 * classes * int(missing.sum())))
            x, marks = self._made(random.permutation(shares(self.counts, block)), random, own=True)
            for c in np.unique(wanted[missing]):
                places, found = np.flatnonzero(missing & (wanted == c)), np.flatnonzero(marks == c)
                k = min(len(places), len(found))
                out[places[:k]] = x[found[:k]]
                missing[places[:k]] = False
            if not missing.any():
                return out
        raise UsageError(
            f"Hardly any sample is labelled {int(wanted[missing][0])}: ask for fewer of that class, or for no classes."
        )


@dataclass
class FittedTable:
    """A fitted model of a table; `form` is the kind and dtypes of the DataFrame that the records came in, if any."""

    model: TableModel
    losses: list[float] = field(default_factory=list)
    form: FrameForm | None = None

    origin: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    """What lies beside the weights in its folder, by name: nothing."""

    def sample(self, n: int, labels: Any = None, seed: int | None = None, where: Where | None = None) -> Samples:
        """`n` rows as a `Table`, the label's column among them, and the labels; `where` states conditions on them."""
        if labels is not None:
            raise UsageError(
                "The label of a table is drawn with its row: leave out labels, or state a condition on it."
            )
        drawn = fresh_seed() if seed is None else check_seed(seed)
        rows, y = restricted_rows(self.model, n, drawn, conditions_of(where, self.model.codec.schema))
        return self.model.table_of(rows, y, drawn), y

    def draw(self, n: int, labels: Any, seed: int | None, where: Where | None, frame: str | None, joined: float) -> Any:
        """`sample` in the form of a DataFrame, where `frame` asks for one or the records came in one."""
        _check_not_joined(joined)
        form = self.form
        if frame is not None:
            form = None if frame == "table" else form if form and form.kind == frame else FrameForm(frame)
        x, y = self.sample(n, labels, seed, where)
        return (x, y) if form is None else frame_of(x, self.model.codec.schema, form)

    def learned(self, rules: Rules | None = None) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Its arrays, and the rest as plain JSON types: what its folder holds."""
        form = {} if self.form is None else {"frame": self.form.to_dict()}
        return tensors_of(self.model), self.model.config() | form


@dataclass
class FittedRelated:
    """Fitted models of related tables."""

    model: RelatedModel
    losses: list[float] = field(default_factory=list)

    form: FrameForm | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    """What lies beside the weights in its folder, by name: nothing."""

    def sample(
        self, n: int, labels: Any = None, seed: int | None = None, where: Where | None = None
    ) -> tuple[dict[str, Table], None]:
        """`n` parents and their children, as tables by name; `where` states conditions on parents. No labels apart."""
        if labels is not None:
            raise UsageError(
                "The label of a table is drawn with its row: leave out labels, or state a condition on it."
            )
        drawn = fresh_seed() if seed is None else check_seed(seed)
        conditions = conditions_of(where, self.model.codec.parent_codec.schema)
        return self.model.sample(n, drawn, conditions), None

    def draw(
        self, n: int, labels: Any, seed: int | None, where: Where | None, frame: str | None, joined: float
    ) -> dict[str, Any]:
        """Every table by its name, as DataFrames where `frame` asks for them."""
        _check_not_joined(joined)
        tables, _ = self.sample(n, labels, seed, where)
        if frame in (None, "table"):
            return dict(tables)
        schemas = zip(self.model.codec.names, self.model.codec.output_schemas, strict=True)
        return {name: frame_of(tables[name], schema, FrameForm(frame)) for name, schema in schemas}

    def learned(self, rules: Rules | None = None) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Its arrays, and the rest as plain JSON types: what its folder holds."""
        return tensors_of(self.model), self.model.config()


def _check_not_joined(joined: float) -> None:
    if joined:
        raise UsageError("Rows of tables are not joined of two, as images may be: leave out joined.")


def tensors_of(model: TableModel | RelatedModel) -> dict[str, torch.Tensor]:
    """The model's arrays, for one safetensors file."""
    return {name: torch.from_numpy(np.array(array)) for name, array in model.arrays().items()}


Fitted = FittedGenerator | FittedTable | FittedRelated


class FittedSynthesizer(Protocol):
    """A `Synthesizer` after its fit, as whoever writes what it draws sees it."""

    @property
    def kind_(self) -> Kind:
        """The kind of the records."""
        ...

    @property
    def design_(self) -> Any:
        """What was decided before anything was paid."""
        ...

    @property
    def release_(self) -> Any:
        """The first release."""
        ...

    @property
    def model_(self) -> Any:
        """The fitted model of tables."""
        ...

    @property
    def generator_(self) -> Generator:
        """The trained generator."""
        ...

    @property
    def labeller_(self) -> Labeller | None:
        """The classifier that labels samples, if it was paid for."""
        ...

    def sample(
        self,
        n: int,
        labels: Any = None,
        seed: int | None = None,
        *,
        where: Where | None = None,
        frame: str | None = None,
        joined: float = 0.0,
    ) -> Any:
        """`n` synthetic records and their labels."""
        ...

    def save(self, folder: str | Path) -> None:
        """Write all that sampling needs."""
        ...
