"""The list of studies about privot itself: what its own pages state, measured again. "Published" is what they state."""

from __future__ import annotations

from privot.studies.study import Paper, Study

PRODUCT = Paper("privot", "privot, what its own pages state")

_IN = "privot.studies.product"
PRODUCT_STUDIES: tuple[Study, ...] = (
    Study(
        "privot-embedding",
        PRODUCT,
        "results: synthesis of images",
        "Classifiers trained on synthetic grey images, and FID",
        f"{_IN}.embedding_images",
        (0.5, 25.0),
        "GPU",
        needs=("mnist", "fashion_mnist"),
        fid=True,
    ),
    Study(
        "privot-adult",
        PRODUCT,
        "results: synthesis of tables",
        "Models trained on a synthetic Adult census, ε = 1",
        f"{_IN}.adult_synthesis",
        (1.5, 5.0),
        needs=("adult_train", "adult_test"),
        quick_needs=("adult_train", "adult_test"),
    ),
)
