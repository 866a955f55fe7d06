"""What `privot evaluate` computes: classifiers trained on synthetic data and tested on real data, for tables or not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.cli.printing.progress import Steps, Tell, silent
from privot.cli.records import is_folder, read_records, stated

if TYPE_CHECKING:
    from privot.data.loading import Dataset
    from privot.tables import TableCodec


LOOKED = (
    "not private: these figures were made with the --private records themselves, without any privacy, so they are as "
    "confidential as those"
)
"""What is said beside figures that looked at the records behind the release."""


def made_folder(synthetic: str) -> Path | None:
    """The folder of `privot synth` that is meant; None for a file, and for a folder of images by class."""
    from privot.jobs.job import NAME
    from privot.synthesis.output.saved_model import CONFIG

    folder = Path(synthetic)
    if not folder.is_dir():
        return None
    # a job that was stopped has no configuration yet: what is missing is said by name then
    own = (folder / CONFIG).exists() or (folder / NAME).exists() or not any(p.is_dir() for p in folder.iterdir())
    return folder if own else None


def evaluate_table_data(
    synthetic: str,
    folder: Path | None,
    test: str,
    *,
    codec: TableCodec,
    private: str | None,
    public_test: bool,
    seed: int,
    tell: Tell = silent,
) -> dict[str, Any]:
    """Scores of a synthetic table, by itself or in a `folder` of `privot synth`; `tell` hears of the progress."""
    from privot.evaluation.table_quality import COMPARISONS, MODELS, evaluate_table, halves, train_and_test
    from privot.opening.plain_files import check_inside
    from privot.report.evaluation_parts import CONFIDENTIAL, HALF, PUBLIC_TEST
    from privot.synthesis.tabular.table_folder import SYNTHETIC, find_synthetic
    from privot.tables import read_table

    if folder is not None:
        synthetic = str(check_inside(find_synthetic(folder) or folder / f"{SYNTHETIC}.csv", folder))
    made, real = read_table(synthetic), read_table(test)
    records = None if private is None else read_table(private)
    models = MODELS if codec.classes is not None else ()
    steps = Steps(tell, COMPARISONS + 2 * len(models))
    answer = {
        **evaluate_table(made, real, codec, private=records, seed=seed, progress=steps.begin).to_dict(),
        "records": {"synthetic": made.rows, "test": real.rows},
        "public_test": public_test,
        "privacy": PUBLIC_TEST if public_test else CONFIDENTIAL,
    }
    if models:
        base, asked = halves(real, seed) if records is None else (records, real)
        if records is None:
            answer["real_from"] = HALF
        scores = {}
        for model in models:
            steps.begin(f"training {model} on {HALF if records is None else 'the private records'}")
            scores[model] = train_and_test(base, asked, codec, model, seed)
        answer["real"] = {name: score.accuracy for name, score in scores.items()}
        answer["real_auc"] = {name: score.auc for name, score in scores.items()}
        answer["real_roc"] = {name: score.roc for name, score in scores.items()}
    if records is not None:
        answer["privacy"] = LOOKED
    return answer


def evaluate_arrays(
    synthetic: str,
    folder: Path | None,
    test: str,
    *,
    classes: str | None,
    shape: str | None,
    inception: Path | None,
    takes: tuple[float, float],
    private: str | None,
    public_test: bool,
    device: str,
    seed: int,
    tell: Tell = silent,
) -> dict[str, Any]:
    """Scores of synthetic rows or images, by themselves or in a `folder` of `privot synth`; FID with a network.

    With `private` records also scores of classifiers trained on those, and nearest neighbours among them. `tell` hears
    of the progress.
    """
    from privot.errors import DataError
    from privot.evaluation import fid
    from privot.evaluation.classifiers import CLASSIFIERS
    from privot.jobs.released_files import read_json
    from privot.opening.plain_files import check_inside
    from privot.report.evaluation_parts import CONFIDENTIAL, PUBLIC_TEST
    from privot.synthesis.output.numbers_output import SYNTHETIC
    from privot.synthesis.output.saved_model import CONFIG

    facts, params = stated(classes, shape), {} if folder is None else read_json(folder / CONFIG)["params"]
    if facts.shape is None and params.get("shape"):
        facts = replace(facts, shape=tuple(params["shape"]))
    if facts.classes is None and isinstance(params.get("class_names"), list):
        # the names that the generator was trained with, where the test set is a folder of images too
        facts = replace(facts, classes=tuple(params["class_names"]))
    size = facts.shape
    # in a file labels are numbers, whatever the classes are called
    numbered = replace(facts, classes=None)
    source = str(check_inside(folder / SYNTHETIC, folder)) if folder else synthetic
    made = read_records(source, facts if is_folder(source) else numbered)
    real = read_records(test, facts if is_folder(test) else numbered, part="test")
    if made.y is None or real.y is None:
        raise DataError("Classifiers need labels in the synthetic and in the test data: there are none.")
    names = [name for name, recipe in CLASSIFIERS.items() if size or not recipe.images]
    how: dict[str, Any] = {"shape": size, "device": device, "seed": seed}
    trainings = len(names) * (1 if private is None else 2)
    steps = Steps(tell, trainings + (size is not None) + (inception is not None))
    scores, mistakes = _scores(names, made, real, how, steps)
    answer: dict[str, Any] = {
        "scores": scores,
        "confusion": {**mistakes, "names": list(facts.names or [])},
        "records": {"synthetic": len(made.x), "test": len(real.x)},
        "public_test": public_test,
        "privacy": PUBLIC_TEST if public_test else CONFIDENTIAL,
    }
    records = None
    if private is not None:
        records = read_records(private, facts if is_folder(private) else numbered)
        if records.y is None:
            raise DataError("The --private records have no labels, and scores need them: give them with their labels.")
        answer["real"], _ = _scores(names, records, real, how, steps)
        answer["privacy"] = LOOKED
    if size is not None:
        from privot.evaluation.nearest_images import nearest_images

        steps.begin("finding nearest images")
        others = None if records is None else real.x
        near = real.x if records is None else records.x
        answer["nearest"] = nearest_images(made.x, near, others, size, _black_and_white(made, real, params), seed)
    if inception is not None:
        if size is None:
            raise DataError("FID needs images: give --shape.")
        steps.begin("computing FID")
        span = _black_and_white(made, real, params)
        answer["fid"] = fid(made.x, real.x, size, inception, span=span, takes=takes, device=device)
    return answer


def _scores(
    names: list[str], train: Dataset, test: Dataset, how: dict[str, Any], steps: Steps
) -> tuple[dict[str, float], dict[str, Any]]:
    """The accuracy of each classifier, and the confusion of the best one."""
    import numpy as np

    from privot.evaluation.classifiers import confusion, predicted

    assert train.y is not None
    assert test.y is not None
    labels = {}
    for name in names:
        steps.begin(f"training {name}")
        labels[name] = predicted(name, train.x, train.y, test.x, test.y, **how)
    scores = {name: float(np.mean(given == test.y)) for name, given in labels.items()}
    best = max(scores, key=lambda name: scores[name])
    return scores, {"classifier": best, "matrix": confusion(test.y, labels[best])}


def _black_and_white(made: Dataset, real: Dataset, params: dict[str, Any]) -> tuple[float, float]:
    """The ends of the public range; where none is known, 0 and the brightest value there is."""
    import numpy as np

    brightest = max(float(np.max(made.x)), float(np.max(real.x)))
    black, white = params.get("low", min(0.0, float(np.min(made.x)))), params.get("high", brightest)
    return float(np.min(black)), float(np.max(white))


def keep_evaluation(folder: Path | None, answer: dict[str, Any]) -> None:
    """Leave the evaluation in a `folder` of `privot synth`, and show it in its report."""
    from privot.jobs.released_files import write_json
    from privot.synthesis.output.html_report import write_report

    if folder is not None:
        write_json(folder / "evaluation.json", answer)
        write_report(folder)
