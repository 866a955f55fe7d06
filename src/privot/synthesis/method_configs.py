"""What each method of synthesis is asked for beside the budget: frozen, and explained here once; it sees no record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from privot.mechanisms.embedding import FeatureMap
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.encoders.public_encoder import PublicEncoder
from privot.synthesis.neural.public.public_images import PublicImages


@dataclass(frozen=True, eq=False)
class MethodConfig:
    """A method and what it is asked for.

    Parameters
    ----------
    rules
        Replace the training rules that the defaults would choose.
    options
        The options of the method by name, as `privot synth --set` takes them.
    """

    name: ClassVar[str]
    rules: Rules | None = None
    options: Mapping[str, Any] | None = None
    # what only some methods take; after the fields, whose places they would take in a method that has them
    features: ClassVar[FeatureMap | None] = None
    encoder: ClassVar[PublicEncoder | None] = None
    label_encoder: ClassVar[PublicEncoder | None] = None
    public: ClassVar[PublicImages | None] = None

    def given(self) -> dict[str, Any]:
        """What is asked for, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def default(self) -> bool:
        """Whether nothing is asked for beside the method."""
        return all(value is None for value in self.given().values())


@dataclass(frozen=True, eq=False)
class Embedding(MethodConfig):
    """Class means of random features, released once; for images also how far to warp samples, and labels.

    Parameters
    ----------
    rules
        As for every method.
    options
        `labelled`, the share of the budget for labels; `common`, 0 or 1, whether the mean of all records is released
        beside those of the classes; and `leaves`, 0 or 1, whether pictures of leaves are labelled.
    features
        Replaces the feature map that the defaults would choose.
    encoder
        A `PublicEncoder`, a network that was trained elsewhere, on other images than these records: its features are
        released beside the others, in the same release (images only), and a classifier of its codes, tuned on the
        records in a second release, labels samples of colour images. The guarantee assumes that the network was not
        trained on these records.
    label_encoder
        Another `PublicEncoder`, beside `encoder`, whose codes label samples in place of that one's: nothing is trained
        through it, so it may be larger, or take larger images.
    public
        `PublicImages`, images of any kind that are public and hold none of these records, of the same shape and range.
        Where they have labels of the same classes, the means of their classes are mixed into the released ones, the
        more the noisier these are (`privot.synthesis.neural.public`); `public_` says what was made of them. What is
        released, and what it costs, is the same; the guarantee assumes that they hold none of these records.

    Examples
    --------
    >>> Embedding(options={"labelled": 0.1}).given()["options"]
    {'labelled': 0.1}
    """

    name: ClassVar[str] = "embedding"

    features: FeatureMap | None = None  # type: ignore[misc]
    encoder: PublicEncoder | None = None  # type: ignore[misc]
    label_encoder: PublicEncoder | None = None  # type: ignore[misc]
    public: PublicImages | None = None  # type: ignore[misc]


@dataclass(frozen=True, eq=False)
class Sinkhorn(MethodConfig):
    """Noise at the gradients of the Sinkhorn divergence at generated points (DP-Sinkhorn)."""

    name: ClassVar[str] = "sinkhorn"


@dataclass(frozen=True, eq=False)
class SinkhornParameters(MethodConfig):
    """Noise at the gradients of the generator's parameters."""

    name: ClassVar[str] = "sinkhorn-parameters"


@dataclass(frozen=True, eq=False)
class Sliced(MethodConfig):
    """Noise at random projections (DP-SWD)."""

    name: ClassVar[str] = "sliced"
