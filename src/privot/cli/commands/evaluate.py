"""`privot evaluate`: train on synthetic, test on real. The real test set is a file of its own, never a vault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from privot.cli.parsing.options import AsJson, Classes, Device
from privot.cli.printing.output import print_facts, print_json, print_table
from privot.cli.table_input import SchemaFile


def evaluate(
    synthetic: Annotated[str, typer.Argument(metavar="SYNTHETIC", help="Synthetic data, or privot synth's folder.")],
    test: Annotated[
        str,
        typer.Option("--test", "--real", metavar="DATA", help="Real records with labels (x_test, y_test, or x, y)."),
    ],
    shape: Annotated[
        str | None, typer.Option(help="Shape of an image: 28,28; read from the folder if given one.")
    ] = None,
    classes: Classes = None,
    inception: Annotated[
        Path | None, typer.Option(help="TorchScript network for FID, or a package (.whl) with one in it.")
    ] = None,
    inception_range: Annotated[str, typer.Option(help="What the network takes black and white for.")] = "-1,1",
    schema: SchemaFile = None,
    private: Annotated[
        str | None,
        typer.Option(help="Of tables: the records behind the release, for their neighbours and for real scores."),
    ] = None,
    device: Device = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the classifiers.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train classifiers on synthetic data and test them on real data. Of tables, also compare columns and pairs.

    Examples: privot evaluate digits-synth --test test.npz;
    privot evaluate census-synth --test census-test.csv --private census.csv
    """
    import numpy as np

    from privot.cli.parsing.typed_values import read_pair
    from privot.cli.records import is_folder, read_records, stated
    from privot.cli.table_input import codec_for, evaluate_table_file
    from privot.errors import DataError, UsageError
    from privot.evaluation import CLASSIFIERS, fid, score
    from privot.jobs.released_files import read_json, write_json
    from privot.opening import check_inside
    from privot.synthesis.design import usable_device
    from privot.synthesis.output.html_report import CONFIDENTIAL, write_report
    from privot.synthesis.output.output_folder import SYNTHETIC
    from privot.synthesis.output.saved_model import CONFIG
    from privot.synthesis.tabular.table_folder import SYNTHETIC as TABLE
    from privot.synthesis.tabular.table_folder import find_synthetic

    answer: dict[str, Any]
    takes = read_pair(inception_range)
    where = usable_device(device)
    if not 0 <= seed < 2**32:
        raise UsageError("--seed must be a whole number from 0 to 4294967295.")
    folder = Path(synthetic) if Path(synthetic).is_dir() else None
    codec = codec_for(folder, schema)
    if codec is not None:
        if shape is not None or inception is not None:
            raise UsageError("A table has no shape and no FID: leave out --shape and --inception.")
        file = synthetic
        if folder is not None:
            file = str(check_inside(find_synthetic(folder) or folder / f"{TABLE}.csv", folder))
        answer, show = evaluate_table_file(file, test, codec, private, seed)
        if folder is not None:
            write_json(folder / "evaluation.json", answer)
            write_report(folder)
        print_json(answer) if as_json else show()
        return
    if private is not None:
        raise UsageError("--private is for tables: give a folder of one, or --schema FILE.")
    facts, params = stated(classes, shape), {} if folder is None else read_json(folder / CONFIG)["params"]
    if facts.shape is None and params.get("shape"):
        facts = replace(facts, shape=tuple(params["shape"]))
    if facts.classes is None and isinstance(params.get("class_names"), list):
        # the names that the generator was trained under, where the test set is a folder of images too
        facts = replace(facts, classes=tuple(params["class_names"]))
    size = facts.shape
    # of a file labels are numbers, whatever the classes are called
    numbered = replace(facts, classes=None)
    made = read_records(str(check_inside(folder / SYNTHETIC, folder)) if folder else synthetic, numbered)
    real = read_records(test, facts if is_folder(test) else numbered, part="test")
    if made.y is None or real.y is None:
        raise DataError("Classifiers need labels in the synthetic and in the test data: there are none.")
    names = [name for name, recipe in CLASSIFIERS.items() if size or not recipe.images]
    scores = {name: score(name, made.x, made.y, real.x, real.y, shape=size, device=where, seed=seed) for name in names}
    answer = {
        "scores": scores,
        "records": {"synthetic": len(made.x), "test": len(real.x)},
        "privacy": CONFIDENTIAL,
    }
    if inception is not None:
        if size is None:
            raise DataError("FID is for images: give --shape.")
        # black and white are the ends of the public range, or 0 and the brightest there is
        ends = [float(np.max(made.x)), float(np.max(real.x))]
        black, white = params.get("low", min(0.0, float(np.min(made.x)))), params.get("high", max(ends))
        span = (float(np.min(black)), float(np.max(white)))
        answer["fid"] = fid(made.x, real.x, size, inception, span=span, takes=takes, device=where)
    if folder is not None:
        write_json(folder / "evaluation.json", answer)
        write_report(folder)
    if as_json:
        print_json(answer)
        return
    print_table(["classifier", "accuracy, trained on synthetic"], [[n, f"{100 * s:.1f} %"] for n, s in scores.items()])
    print_facts([*([("FID", f"{answer['fid']:.2f}")] if "fid" in answer else []), ("privacy", CONFIDENTIAL)])
