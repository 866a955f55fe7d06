"""The list of studies. A new one is a module with SETTINGS, `compute` and `draw`, and an entry here."""

from __future__ import annotations

from importlib.metadata import entry_points

from privot.common.extras import load
from privot.errors import UsageError, brief
from privot_lab.studies.product_list import PRODUCT, PRODUCT_STUDIES
from privot_lab.studies.study import Paper, Study

DP_SWD = Paper("dp-swd", "Rakotomamonjy & Ralaivola 2021, Differentially Private Sliced Wasserstein Distance")
DP_SWD_FIRST = Paper("dp-swd-first", "Rakotomamonjy & Ralaivola 2021, the same in its first version")
"""An earlier version of the same paper: its items are those of the final one, which stands where they differ."""
WDP = Paper("wdp", "Yang, Qi & Zhou 2024, Wasserstein Differential Privacy")
DP_SINKHORN = Paper("dp-sinkhorn", "Cao, Bie, Vahdat, Fidler & Kreis 2021, Don't Generate Me")
TRIANGLE_WAD = Paper("triangle-wad", "Li, Huang, Wang & Pang 2024, Private Wasserstein Distance with Random Noises")
PAPERS = (DP_SWD, WDP, DP_SINKHORN, TRIANGLE_WAD, PRODUCT)

GROUP = "privot_lab.studies"
"""The group of entry points of other distributions' studies."""
_IN = "privot_lab.studies"
STUDIES: tuple[Study, ...] = (
    Study(
        "dp-sinkhorn-theorem-4-1",
        DP_SINKHORN,
        "Theorem 4.1",
        "Rényi divergence of one update, rows or the matrix clipped",
        f"{_IN}.dp_sinkhorn.row_clipping",
        (0.2, 1.0),
    ),
    Study(
        "dp-sinkhorn-table-1",
        DP_SINKHORN,
        "Table 1",
        "Classifiers trained on generated grey images, ε = 10",
        f"{_IN}.dp_sinkhorn.image_table",
        (0.5, 12.0),
        "GPU",
        needs=("mnist", "fashion_mnist"),
        fid=True,
    ),
    Study(
        "dp-sinkhorn-table-2",
        DP_SINKHORN,
        "Table 2",
        "Ablation: loss, debiasing, place of the noise",
        f"{_IN}.dp_sinkhorn.ablation_table",
        (1.0, 10.0),
        "GPU",
        needs=("mnist",),
        fid=True,
    ),
    Study(
        "dp-sinkhorn-table-3",
        DP_SINKHORN,
        "Table 3, Figure 3",
        "Classifiers trained on generated faces",
        f"{_IN}.dp_sinkhorn.face_table",
        (1.0, 10.0),
        "GPU",
        needs=("celeba",),
        quick_needs=("celeba",),
        fid=True,
    ),
    Study(
        "dp-sinkhorn-figure-4",
        DP_SINKHORN,
        "Figure 4",
        "Learning rate, ε, and bias and variance against p",
        f"{_IN}.dp_sinkhorn.hyperparameters",
        (1.0, 10.0),
        "GPU",
        needs=("mnist",),
    ),
    Study(
        "dp-swd-figure-1",
        DP_SWD,
        "Figure 1, Lemma 2",
        "The squared sensitivity of projections and its bounds",
        f"{_IN}.dp_swd.sensitivity_law",
        (0.1, 0.5),
    ),
    Study(
        "dp-swd-figure-2",
        DP_SWD,
        "Figure 2, Properties 1 and 2",
        "SWD and its private version between two Gaussians",
        f"{_IN}.dp_swd.toy_gaussians",
        (0.2, 1.0),
    ),
    Study(
        "dp-swd-figure-3",
        DP_SWD,
        "Figure 3",
        "Accuracy on a private target against ε, by bound",
        f"{_IN}.dp_swd.epsilon_figure",
        (1.0, 8.0),
        "GPU",
        needs=("mnist", "usps"),
    ),
    Study(
        "dp-swd-figure-6",
        DP_SWD,
        "Figure 6",
        "Faces by sliced Wasserstein generators, and the noise that each bound needs",
        f"{_IN}.dp_swd.face_figure",
        (1.0, 5.0),
        "GPU",
        needs=("celeba",),
        quick_needs=("celeba",),
        fid=True,
    ),
    Study(
        "dp-swd-figure-7",
        DP_SWD,
        "Figure 7, Lemma 1",
        "The law of one squared projection",
        f"{_IN}.dp_swd.beta_law",
        (0.1, 0.1),
    ),
    Study(
        "dp-swd-table-1",
        DP_SWD,
        "Table 1, Figure 3, Algorithm 2",
        "Accuracy on a private target, by method and ε",
        f"{_IN}.dp_swd.adaptation_table",
        (1.0, 10.0),
        "GPU",
        needs=("mnist", "usps"),
    ),
    Study(
        "dp-swd-table-2",
        DP_SWD,
        "Table 2",
        "Classifiers trained on images of a sliced-Wasserstein generator, by bound",
        f"{_IN}.dp_swd.generative_table",
        (1.0, 25.0),
        "GPU",
        needs=("mnist", "fashion_mnist"),
    ),
    Study(
        "dp-swd-table-3",
        DP_SWD,
        "Tables 3 and 5",
        "The generators as printed, and the sizes of what they make",
        f"{_IN}.dp_swd.published_generators",
        (0.1, 0.1),
    ),
    Study(
        "dp-swd-table-4",
        DP_SWD,
        "Table 4, Proposition 2",
        "σ for ε = 10, by every bound",
        f"{_IN}.dp_swd.noise_table",
        (0.3, 0.5),
    ),
    Study(
        "triangle-wad-figure-1",
        TRIANGLE_WAD,
        "Figure 1 (a, b), section 5",
        "Records recovered from the messages",
        f"{_IN}.triangle_wad.record_recovery",
        (0.2, 2.0),
        needs=("mnist", "fashion_mnist", "cifar10"),
    ),
    Study(
        "triangle-wad-figure-1c",
        TRIANGLE_WAD,
        "Figure 1 (c)",
        "The gap that noise on the records leaves",
        f"{_IN}.triangle_wad.noisy_records",
        (0.2, 1.0),
    ),
    Study(
        "triangle-wad-figure-4",
        TRIANGLE_WAD,
        "Figures 3 and 4, Theorem 2",
        "How Gaussian the messages look, and what comes back of them",
        f"{_IN}.triangle_wad.message_normality",
        (0.1, 2.0),
        needs=("mnist", "fashion_mnist", "cifar10"),
    ),
    Study(
        "triangle-wad-figure-5",
        TRIANGLE_WAD,
        "Figure 5, section 6.2",
        "Contributions of five parties in four cases",
        f"{_IN}.triangle_wad.contribution_ranks",
        (2.0, 40.0),
        needs=("mnist", "fashion_mnist", "cifar10"),
        quick_needs=("mnist",),
    ),
    Study(
        "triangle-wad-figure-6",
        TRIANGLE_WAD,
        "Figure 6, section 6.4",
        "Words retrieved from messages about texts",
        f"{_IN}.triangle_wad.word_recovery",
        (0.5, 10.0),
        needs=("bbc", "glove"),
        quick_needs=("bbc", "glove"),
    ),
    Study(
        "triangle-wad-section-6-3",
        TRIANGLE_WAD,
        "Section 6.3",
        "Noisy images found by the server, and at home",
        f"{_IN}.triangle_wad.noisy_detection",
        (2.0, 20.0),
        needs=("mnist", "fashion_mnist", "cifar10"),
        quick_needs=("mnist", "fashion_mnist", "cifar10"),
    ),
    Study(
        "triangle-wad-table-1",
        TRIANGLE_WAD,
        "Table 1, equation 7",
        "Distances directly, by FedWad and by TriangleWad",
        f"{_IN}.triangle_wad.distance_table",
        (0.3, 15.0),
        needs=("mnist", "fashion_mnist", "cifar10"),
    ),
    Study(
        "triangle-wad-theorem-1",
        TRIANGLE_WAD,
        "Theorem 1",
        "The error against the moment of the defence data",
        f"{_IN}.triangle_wad.moment_bound",
        (0.1, 0.5),
    ),
    Study(
        "wdp-corollary-1",
        WDP,
        "Corollary 1, Table 2",
        "The accounted and the printed budget, attacked",
        f"{_IN}.wdp.wdp_attacked_budget",
        (0.3, 3.0),
    ),
    Study(
        "wdp-figure-1",
        WDP,
        "Figure 1",
        "Budgets of Laplace and Gaussian noise against the order",
        f"{_IN}.wdp.wdp_orders",
        (0.1, 0.1),
    ),
    Study(
        "wdp-figure-2",
        WDP,
        "Figure 2",
        "Composition over Weibull gradients, not clipped",
        f"{_IN}.wdp.wdp_composition",
        (0.2, 2.0),
    ),
    Study("wdp-figure-3", WDP, "Figure 3", "The accounted budget against β and δ", f"{_IN}.wdp.wdp_knobs", (0.1, 0.1)),
    Study(
        "wdp-figure-4",
        WDP,
        "Figure 4",
        "Composition over Weibull gradients, clipped",
        f"{_IN}.wdp.wdp_composition",
        (0.2, 2.0),
    ),
    Study(
        "wdp-lemma-1",
        WDP,
        "Lemma 1",
        "The raw absolute moment against quadrature",
        f"{_IN}.wdp.wdp_lemma_1",
        (0.1, 0.5),
    ),
    Study(
        "wdp-table-1",
        WDP,
        "Table 1, Propositions 7 and 8",
        "Budgets of DP, RDP and WDP for the basic mechanisms",
        f"{_IN}.wdp.wdp_basic_mechanisms",
        (0.1, 0.1),
    ),
    Study(
        "wdp-table-2",
        WDP,
        "Table 2",
        "One training run, every accountant's budget",
        f"{_IN}.wdp.wdp_training",
        (0.5, 10.0),
        "GPU",
        needs=("mnist", "fashion_mnist", "cifar10"),
    ),
    *PRODUCT_STUDIES,
)


def find_study(name: str) -> Study:
    """The study called `name`: of the list, or of another distribution, whose entry point is imported now.

    Another package adds one by an entry point of the group `privot_lab.studies` that names a `Study`.
    """
    for study in STUDIES:
        if study.name == name:
            return study
    for point in entry_points(group=GROUP, name=name):
        found = load(point)
        if not isinstance(found, Study) or found.name != name:
            raise UsageError(f"The entry point {brief(point.value)} names no study called {brief(name)}.")
        return found
    raise UsageError(f"There is no study {brief(name)}: use one of {', '.join(s.name for s in STUDIES)}.")
