"""Reads DATA with what the options state about it; the commands' way to `privot.data.load`, with their own words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from privot.cli.parsing.typed_values import read_classes, read_pair, read_shape

if TYPE_CHECKING:
    from privot.data.loading import Dataset
    from privot.data.stated_facts import StatedFacts
    from privot.valuation.labelled_records import Labelled


def is_folder(data: str) -> bool:
    """Whether DATA is a folder of images."""
    return data != "digits" and Path(data).is_dir()


def stated(classes: str | int | None, shape: str | None = None) -> StatedFacts:
    """What `--classes` and `--shape` state."""
    from privot.data.stated_facts import StatedFacts

    said = read_classes(classes) if isinstance(classes, str) else classes
    return StatedFacts(said, read_shape(shape))


def read_range(text: str | None, source: str) -> tuple[float, float]:
    """The public range of all values; only that of the built-in digits is known."""
    from privot.errors import UsageError

    if text is not None:
        return read_pair(text)
    if source == "digits":
        return 0.0, 1.0
    raise UsageError("The range of values is public and must be stated: give --range LOW,HIGH.")


def read_records(
    data: str,
    facts: StatedFacts,
    *,
    labels: bool = True,
    private: bool = False,
    part: Literal["train", "test"] = "train",
    unit: str | None = None,
    unit_file: Path | None = None,
) -> Dataset:
    """The records of DATA, by the stated `facts`; without `labels` they have none, whatever is stated of classes.

    `unit` names the array of a `.npz` file, or of a folder of images the column of `unit_file`, that says whose each
    record is.

    A folder of images does not show its class names or its image shape before its first record is read, so both are
    stated: the names wherever labels are read, the shape wherever the records are `private`.
    """
    from privot.data.loading import load
    from privot.errors import DataError, UsageError

    if is_folder(data):
        name = Path(data).resolve().name
        if _is_empty(Path(data)):
            raise DataError(
                f"{name!r} is an empty folder: give a file, or a folder with one sub-folder of images per class."
            )
        if labels and facts.classes is None:
            raise UsageError(
                f"{name!r} is a folder of images: state its public class names with --classes NAME,NAME,…."
            )
        if private and facts.shape is None:
            raise UsageError(
                f"{name!r} is a folder of images: state their public shape with --shape HEIGHT,WIDTH or "
                "--shape HEIGHT,WIDTH,CHANNELS."
            )
    classes = facts.classes if labels else 0
    return load(data, part, classes=classes, shape=facts.shape, unit=unit, unit_file=unit_file)


def _is_empty(folder: Path) -> bool:
    """Whether there is nothing in a folder; one that cannot be read is left to its reader."""
    try:
        return not any(folder.iterdir())
    except OSError:
        return False


def labelled_records(source: str, name: str, facts: StatedFacts) -> Labelled:
    """The labelled records of a file, called `name` in errors; `facts` number the classes of every side alike."""
    from privot.valuation.labelled_records import Labelled

    found = read_records(source, facts)
    return Labelled.of(found.x, found.y, name)


def load_points(
    source: str,
    words: Path | None,
    facts: StatedFacts,
    *,
    labels: bool = False,
    private: bool = False,
    unit: str | None = None,
    unit_file: Path | None = None,
) -> Dataset:
    """A data set, by what is stated about it; or, with word vectors, a text as a cloud of its words."""
    from privot.data.loading import Dataset
    from privot.errors import DataError

    if words is None:
        return read_records(source, facts, labels=labels, private=private, unit=unit, unit_file=unit_file)
    from privot.federation.protocols.word_vectors import WordVectors
    from privot.opening import read_text

    try:
        text = read_text(source)
    except OSError:
        raise DataError(f"{Path(source).name!r} cannot be read as text.") from None
    vectors = WordVectors.load(words)
    return Dataset(vectors.cloud(vectors.words_of(text)))


def same_space(x: Any, y: Any) -> None:
    """Refuse two sets of points with different numbers of columns."""
    from privot.errors import DataError

    if x.shape[1] != y.shape[1]:
        raise DataError(f"A has {x.shape[1]} columns and B has {y.shape[1]}: both need the same columns.")


def check_new_file(out: Path, what: str) -> None:
    """Refuse, before anything is paid for, a name that is taken or that cannot be written."""
    import tempfile

    from privot.common.files import is_taken
    from privot.errors import DataError, UsageError

    if is_taken(out):
        raise UsageError(f"{out} exists already: a {what} that was paid for is not overwritten.")
    if not out.parent.is_dir():
        raise UsageError(f"There is no folder {out.parent}: create it before the {what} is paid for.")
    try:
        with tempfile.NamedTemporaryFile(dir=out.parent, prefix=f".{out.name}", suffix=".part"):
            pass
    except (OSError, ValueError) as error:
        # a name may hold what no file's name can
        why = getattr(error, "strerror", None) or error
        raise DataError(f"{out} cannot be written ({why}): nothing was paid.") from None
