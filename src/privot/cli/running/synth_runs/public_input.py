"""Reads the public images of `privot synth`; no record comes here, and nothing of it goes into a vault."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privot.cli.running.synth_runs.synth_options import SynthOptions
    from privot.data.stated_facts import StatedFacts
    from privot.synthesis import PublicImages


def read_public(options: SynthOptions, facts: StatedFacts) -> PublicImages | None:
    """The public images that the options name, if they do.

    They are public, so the sub-folders of a folder are looked up where DATA's must be stated. Labels of a folder count
    where it has the classes of DATA, by name; all others are compared by their number alone, when it is planned.
    """
    if options.public is None:
        return None
    from privot.data.loading import load
    from privot.errors import DataError, UsageError
    from privot.synthesis import PublicImages

    if options.method != "embedding" or options.schema is not None:
        raise UsageError("--set public works with images and --method embedding only: leave it out.")
    path = Path(options.public)
    if path.exists() and path.resolve() == Path(options.data).resolve():
        raise UsageError("--set public names the records themselves: give images that are public.")
    if not path.is_dir():
        found = load(options.public)
        return PublicImages(found.x, found.y)
    names = tuple(sorted(entry.name for entry in path.iterdir() if entry.is_dir()))
    if not names:
        raise DataError(f"{path.name!r} holds no sub-folder of images: put public images into at least one.")
    same = facts.names is not None and set(names) == set(facts.names)
    found = load(path, classes=facts.names if same else names)
    return PublicImages(found.x, found.y if same else None)
