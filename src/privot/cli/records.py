"""Reads DATA with what the options state about it; the commands' way to `privot.data.load`, with their own words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from privot.cli.parsing.typed_values import read_classes, read_shape

if TYPE_CHECKING:
    from privot.data import Dataset, StatedFacts


def is_folder(data: str) -> bool:
    """Whether DATA is a folder of images."""
    return data != "digits" and Path(data).is_dir()


def stated(classes: str | int | None, shape: str | None = None) -> StatedFacts:
    """What `--classes` and `--shape` say."""
    from privot.data import StatedFacts

    said = read_classes(classes) if isinstance(classes, str) else classes
    return StatedFacts(said, read_shape(shape))


def read_records(
    data: str,
    facts: StatedFacts,
    *,
    labels: bool = True,
    private: bool = False,
    part: Literal["train", "test"] = "train",
) -> Dataset:
    """The records of DATA, by the stated `facts`; without `labels` those are left out, whatever is said of classes.

    A folder says neither the names of its classes nor the shape of its images before its first record, so both are
    stated: the names wherever labels are read, the shape wherever the records are `private`.
    """
    from privot.data import load
    from privot.errors import UsageError

    if is_folder(data):
        if labels and facts.classes is None:
            raise UsageError(
                f"{Path(data).name!r} is a folder of images, and the names of its classes are public and stated: give "
                "--classes NAME,NAME,…."
            )
        if private and facts.shape is None:
            raise UsageError(
                f"{Path(data).name!r} is a folder of images, and their shape is public and stated: give --shape "
                "HEIGHT,WIDTH or HEIGHT,WIDTH,CHANNELS."
            )
    return load(data, part, classes=facts.classes if labels else 0, shape=facts.shape)
