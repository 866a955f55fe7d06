"""The estimator of private synthesis: a vault goes in, a generator with a guarantee comes out; it sees no record.

How it pays and trains is in `paid_fit`; here are its parameters, and what needs no vault any more: samples, saved
folders, and what was learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common.declared import declared
from privot.guarantee import Guarantee
from privot.jobs.estimator import NotFittedError
from privot.mechanisms.embedding import FeatureMap
from privot.release import Release
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.fitted import Fitted, FittedGenerator, FittedRelated, FittedTable
from privot.synthesis.method_configs import MethodConfig
from privot.synthesis.methods import asked_of
from privot.synthesis.methods.method import Outcome
from privot.synthesis.neural.after_training.relabelling import Labeller
from privot.synthesis.neural.generators.generator import Generator
from privot.synthesis.neural.public.public_means import PublicUse
from privot.synthesis.output.html_report import REPORT
from privot.synthesis.output.saved_model import read_model, write_model
from privot.synthesis.paid_fit import PaidFit
from privot.synthesis.tabular.conditions import Where


class Synthesizer(PaidFit):
    """Synthetic records under (ε, δ): call `fit(vault)`, then `sample(n)` as often as you like.

    Parameters
    ----------
    epsilon, delta
        The budget of everything that is released; the adjacency is the vault's.
    method
        Where the noise enters: "embedding" (class means of random features, released once; for images on a GPU also
        how far to warp samples, and labels), "sinkhorn" (gradients at generated points, DP-Sinkhorn), "sliced" (random
        projections, DP-SWD), "sinkhorn-parameters" (gradients of the generator's parameters), or what another
        distribution plugs in. What a method needs is its own: `Embedding(encoder=…)`, `Sliced(options={"steps": 500})`.
    records
        About how many records there are, if that is public although the adjacency hides it; it affects sizes only.
    kind
        What the records are (`privot.kinds`, a schema, a codec). It is left out where a vault is given: the vault
        knows. It serves designs without a vault, and a vault of an array of which nothing more was stated.
    device
        "auto", "cpu" or "cuda".
    seed
        Makes everything but the privacy noise repeatable.
    allow_unproven
        Allows releases that no theorem covers.

    Attributes
    ----------
    guarantee_, design_, losses_
        After `fit`: what was spent, what was decided before, and the public losses of training.
    kind_
        What the records are, and all that is public about them.
    generator_, counts_, features_, labels_, labeller_, public_
        The generator and what sampling needs; `model_` for a table.
    release_
        The first release, where there is one. It is kept even where training fails: `train(release_, rules)` costs
        nothing more.

    Notes
    -----
    Formal guarantees: (ε, δ)-differential privacy of everything `fit` keeps, under the vault's adjacency, composed of
    the events in `guarantee_`; sampling is post-processing. Noise is added on a grid that floating point cannot give
    away (`privot.noise`).

    Examples
    --------
    >>> import numpy as np
    >>> from privot import Vault
    >>> from privot.synthesis import Embedding, Rules
    >>> x, y = np.random.default_rng(0).uniform(size=(200, 2)), np.arange(200) % 2
    >>> vault = Vault(x, y, classes=2, clip=2.0, adjacency="add-remove", budget=(1.0, 1e-5))
    >>> network = {"kind": "mlp", "dim": 2, "classes": 2, "segments": [[0, 2, "interval"]], "latent": 4, "hidden": [8]}
    >>> rules = Rules(network, steps=5, batch=16, learning_rate=1e-3)
    >>> fitted = Synthesizer(epsilon=1.0, delta=1e-5, method=Embedding(rules), device="cpu", seed=1).fit(vault)
    >>> fitted.sample(10)[0].shape
    (10, 2)
    >>> bool(fitted.guarantee_.epsilon() <= 1.0)
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        method: str | MethodConfig = "embedding",
        records: int | None = None,
        kind: Any = None,
        device: str = "auto",
        seed: int | None = None,
        allow_unproven: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.records = records
        self.kind = kind
        self.device = device
        self.seed = seed
        self.allow_unproven = allow_unproven

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
        """`n` synthetic records and their labels; needs no vault and costs nothing.

        Parameters
        ----------
        n
            How many records.
        labels
            The labels wanted, of shape (n,). Unless given they follow the released counts, or a labeller where there
            is one.
        seed
            Makes the samples repeatable.
        where
            Of a table, conditions that all rows satisfy: "age>=65", a list of such texts, or a mapping from columns to
            values. Rows are drawn as if many more were drawn and the others left out.
        frame
            Of a table, "pandas", "polars" or "arrow" gives a DataFrame of that kind, and "table" a `Table`. Unless
            given, it is what the vault was made from.
        joined
            Of images whose labels a classifier gives (`labeller_`), the share of samples that are joined of two along a
            soft border and labelled then. A network learns more from samples half of which are joined; they look less
            like records.

        Returns
        -------
        (x, y)
            Records of shape (n, dim) and labels of shape (n,), None where there are none. For a table, x is a `Table`
            with all columns, the label's included.
        DataFrame
            Of a vault made from a DataFrame, and with `frame`: one of that kind alone, the label among its columns,
            with the dtypes that went in (`privot.tables.FrameForm`) and a fresh index.
        dict
            Of related tables: every table by its name, `n` parents and their children, linked by made-up keys. `where`
            states conditions on parents.

        Raises
        ------
        UsageError
            No row can satisfy the conditions.
        ConvergenceError
            Rows that satisfy them are so rare that too many would have to be drawn; the sentence says how rare.
        """
        return self._fitted.draw(n, labels, seed, where, frame, joined)

    def to_params(self) -> dict[str, Any]:
        """The public choices that sampling and reading back need, as plain JSON types."""
        return self.config.to_dict()

    @classmethod
    def from_params(cls, params: Mapping[str, Any], device: str = "auto") -> Synthesizer:
        """Read what `to_params` wrote."""
        return cls._of(SynthesisConfig.from_dict(params, device))

    @classmethod
    def _of(cls, config: SynthesisConfig) -> Synthesizer:
        method = config.method if config.asked.default else asked_of(config.method, **config.asked.given())
        told = {name: getattr(config, name) for name in ("epsilon", "delta", "records", "kind", "device")}
        return cls(**told, method=method, seed=config.seed, allow_unproven=config.allow_unproven)

    def save(self, folder: str | Path) -> None:
        """Write generator.safetensors, config.json and guarantee.json: all that sampling needs."""
        rules = getattr(getattr(self, "design_", None), "rules", None)
        write_model(Path(folder), self.config, self._fitted, self.guarantee_, rules)

    @declared(folder="path")
    def publish(self, folder: str | Path, samples: int = 10_000, seed: int | None = None) -> Path:
        """Write what `privot synth` hands on: `samples` synthetic records, the guarantee, the generator, report.html.

        Returns the path of the report. Nothing is paid: everything follows from the release.
        """
        from privot.synthesis.output.output_folder import write_folder

        Path(folder).mkdir(parents=True, exist_ok=True)
        write_folder(self, Path(folder), samples, seed)
        return Path(folder) / REPORT

    @classmethod
    @declared(folder="path")
    def load(cls, folder: str | Path, device: str = "cpu") -> Synthesizer:
        """Read what `save` or `privot synth` wrote; needs no vault."""
        config, fitted, guarantee = read_model(Path(folder), device)
        made = cls._of(config)
        made.kind_ = config.kind
        made.outcome_ = Outcome(None, guarantee, fitted=fitted)
        return made

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `sample` works; after a training that failed, `release_` is there and this is False."""
        return hasattr(self, "outcome_") and self.outcome_.fitted is not None

    @property
    def _fitted(self) -> Fitted:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("This Synthesizer is not fitted yet: call fit or load first.")
        fitted = self.outcome_.fitted
        assert fitted is not None
        return fitted

    def _attribute(self, fitted_as: Any, name: str) -> Any:
        """The attribute `name` of a fitted model of this class; AttributeError otherwise, as scikit-learn expects."""
        fitted = self._fitted
        if not isinstance(fitted, fitted_as):
            raise AttributeError(f"A synthesizer of this kind has no {name}_.")
        return getattr(fitted, name)

    def _paid(self, name: str) -> Any:
        value = getattr(self.outcome_, name) if hasattr(self, "outcome_") else None
        if value is None:
            raise NotFittedError(f"This Synthesizer has no {name}_: call fit first.")
        return value

    @property
    def guarantee_(self) -> Guarantee:
        """What was spent."""
        found: Guarantee = self._paid("guarantee")
        return found

    @property
    def design_(self) -> Any:
        """What was decided before anything was paid."""
        return self._paid("design")

    @property
    def release_(self) -> Release:
        """The first release."""
        found: Release = self._paid("release")
        return found

    @property
    def losses_(self) -> list[float]:
        """The public losses of training."""
        return self._fitted.losses

    @property
    def generator_(self) -> Generator:
        """The trained generator."""
        found: Generator = self._attribute(FittedGenerator, "generator")
        return found

    @property
    def features_(self) -> FeatureMap | None:
        """The feature map that was released."""
        found: FeatureMap | None = self._attribute(FittedGenerator, "features")
        return found

    @property
    def counts_(self) -> NDArray[np.float64]:
        """How often each class is drawn, of shape (classes,)."""
        found: NDArray[np.float64] = self._attribute(FittedGenerator, "counts")
        return found

    @property
    def labels_(self) -> bool:
        """Whether samples have labels."""
        return bool(self._attribute(FittedGenerator, "labels"))

    @property
    def labeller_(self) -> Labeller | None:
        """The classifier that labels samples, if it was paid for."""
        found: Labeller | None = self._attribute(FittedGenerator, "labeller")
        return found

    @property
    def public_(self) -> PublicUse | None:
        """What was made of public images, if there were some."""
        found: PublicUse | None = self._attribute(FittedGenerator, "public")
        return found

    @property
    def model_(self) -> Any:
        """The fitted model of a table (`TableModel`), or of related tables (`RelatedModel`)."""
        return self._attribute(FittedTable | FittedRelated, "model")
