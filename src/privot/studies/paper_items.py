"""Every definition, theorem, algorithm, table and figure of the papers: the command that runs it, and what came of it.

An item with a study gets its verdict from the study's results; the others are checked elsewhere (a command, a test), or
cannot be run, and say which data is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from privot.studies.product_list import PRODUCT, PRODUCT_STUDIES
from privot.studies.study import Paper
from privot.studies.study_list import DP_SINKHORN, DP_SWD, DP_SWD_FIRST, TRIANGLE_WAD, WDP


@dataclass(frozen=True)
class PaperItem:
    """One item of a paper."""

    paper: Paper
    item: str
    what: str
    study: str = ""
    """The study that recomputes it."""
    command: str = ""
    """What runs it where no study does, in backquotes; "" where there is nothing to run."""
    verdict: str = ""


def _definition(paper: Paper, item: str, what: str, command: str) -> PaperItem:
    return PaperItem(paper, item, what, command=command, verdict="used as defined")


_ACCOUNT = "`privot account projection`"
_CLAIMS = "`privot account claims`"
_HOLDS, _REFUTED = "holds (tested)", "refuted (counterexample computed)"

ITEMS: tuple[PaperItem, ...] = (
    _definition(DP_SWD, "Definitions 1, 2, 3", "neighbours, (ε, δ)-DP, Rényi DP", "`privot account`"),
    PaperItem(DP_SWD, "Proposition 1", "from Rényi DP to DP", command="`privot account`", verdict=_HOLDS),
    PaperItem(
        DP_SWD,
        "Remark 1",
        "an algorithm's outputs as a distribution",
        command="`privot account`",
        verdict="used as defined",
    ),
    PaperItem(
        DP_SWD,
        "Remark 2",
        "Rényi DP of the Gaussian mechanism",
        command="`privot account embedding`",
        verdict=_HOLDS,
    ),
    PaperItem(
        DP_SWD,
        "section 3.1",
        "subsampling and composition over mini-batches",
        command=_ACCOUNT,
        verdict="corrected: sampler and accountant are one object; as published `--bound published`, unproven",
    ),
    PaperItem(
        DP_SWD,
        "Algorithm 1",
        "private and smoothed SWD",
        command="`privot compare --method dp-swd`, `private_sliced` in Python",
        verdict="corrected: records are clipped to a public bound, σ by the exact law; debiased, with an interval",
    ),
    PaperItem(DP_SWD, "Lemma 1, Figure 7, Remarks 3 and 4", "law of one squared projection", "dp-swd-figure-7"),
    PaperItem(DP_SWD, "Lemma 2, CLT bound, Figure 1", "squared sensitivity", "dp-swd-figure-1"),
    PaperItem(DP_SWD, "Proposition 2, Table 4", "σ for (ε, δ)", "dp-swd-table-4"),
    PaperItem(DP_SWD, "Properties 1 and 2, Figure 2", "DP-SWD as a distance", "dp-swd-figure-2"),
    PaperItem(
        DP_SWD,
        "Algorithm 2",
        "private adaptation",
        command="`privot adapt --method sliced`; as published `--method published --allow-unproven`",
        verdict="corrected: the published gradient passes through private records",
    ),
    PaperItem(DP_SWD, "Table 1 (digits)", "domain adaptation", "dp-swd-table-1"),
    PaperItem(DP_SWD, "Figure 3", "accuracy against ε", "dp-swd-figure-3"),
    PaperItem(
        DP_SWD,
        "Table 1 (VisDA)",
        "domain adaptation",
        command="`privot adapt --method sliced --network features`",
        verdict="cannot be run: VisDA-2017 is missing; with features of it the command runs",
    ),
    PaperItem(
        DP_SWD,
        "Table 1 (Office-31)",
        "domain adaptation",
        command="`privot adapt --method sliced --network features`",
        verdict="cannot be run: Office-31 is missing; Office-Caltech in its place is in results/stand-in",
    ),
    PaperItem(DP_SWD, "Table 2, Figures 4 and 5", "generative models of grey images", "dp-swd-table-2"),
    PaperItem(DP_SWD, "Figure 6", "faces; 32 × 32 in place of 64 × 64", "dp-swd-figure-6"),
    PaperItem(DP_SWD, "Tables 3 and 5", "generators of grey images and of faces", "dp-swd-table-3"),
    PaperItem(
        DP_SWD_FIRST,
        "Definitions 1 to 3, Remarks 1 and 2, Proposition 1",
        "as in the final version",
        command="`privot account`",
        verdict="used as defined",
    ),
    PaperItem(
        DP_SWD_FIRST,
        "Algorithm 1",
        "as in the final version",
        command="`privot compare --method dp-swd`",
        verdict="corrected, as in the final version",
    ),
    PaperItem(
        DP_SWD_FIRST,
        "Algorithm 2",
        "as in the final version",
        command="`privot adapt --method sliced`",
        verdict="corrected, as in the final version",
    ),
    PaperItem(DP_SWD_FIRST, "Lemma 1", "law of one squared projection", "dp-swd-figure-7"),
    PaperItem(DP_SWD_FIRST, "Lemma 2, CLT bound, Figure 1", "the same bounds", "dp-swd-figure-1"),
    PaperItem(DP_SWD_FIRST, "Proposition 2", "the same number", "dp-swd-table-4"),
    PaperItem(DP_SWD_FIRST, "Properties 1 and 2, Figure 2", "stated for q, used with q = 1", "dp-swd-figure-2"),
    PaperItem(DP_SWD_FIRST, "Figure 3", "the same curves", "dp-swd-figure-3"),
    PaperItem(DP_SWD_FIRST, "Table 1 (digits)", "the same accuracies", "dp-swd-table-1"),
    PaperItem(
        DP_SWD_FIRST,
        "Table 1 (VisDA, Office-31)",
        "the same accuracies",
        command="`privot adapt --method sliced --network features`",
        verdict="cannot be run: VisDA-2017 and Office-31 are missing",
    ),
    PaperItem(DP_SWD_FIRST, "Table 2, Figures 4 and 5", "the same accuracies", "dp-swd-table-2"),
    PaperItem(DP_SWD_FIRST, "Figure 6", "the same FIDs", "dp-swd-figure-6"),
    _definition(WDP, "Definitions 1 to 5", "W_μ, (μ, ε)-WDP and its general form", "`privot account`"),
    *(
        PaperItem(WDP, f"Proposition {n}", what, command=_CLAIMS, verdict=verdict)
        for n, what, verdict in (
            (1, "symmetry", _HOLDS),
            (2, "triangle inequality", _HOLDS),
            (3, "non-negativity", _HOLDS),
            (4, "monotonicity", _HOLDS),
            (5, "parallel composition", "holds under add-remove; counterexample for replace-one"),
            (6, "sequential composition", "holds for independent releases; counterexample for adaptive ones"),
        )
    ),
    PaperItem(WDP, "Propositions 7 and 8, Table 1", "Laplace and Gaussian mechanism", "wdp-table-1"),
    *(
        PaperItem(WDP, f"Proposition {n}", what, command=_CLAIMS, verdict=verdict)
        for n, what, verdict in (
            (9, "from DP to WDP", _REFUTED),
            (10, "from RDP to WDP", _REFUTED),
            (11, "from WDP to RDP, DP and zCDP", _REFUTED),
            (12, "post-processing", "refuted; holds for 1-Lipschitz maps"),
            (13, "group privacy", _HOLDS),
        )
    ),
    PaperItem(WDP, "Theorems 1, 2, 3", "the accountant", command=_CLAIMS, verdict=_REFUTED),
    PaperItem(WDP, "Corollary 1, Table 2 (budgets)", "the accountant, attacked", "wdp-corollary-1"),
    PaperItem(WDP, "Lemma 1", "raw absolute moment", "wdp-lemma-1"),
    PaperItem(WDP, "Figure 1", "budgets against the order", "wdp-figure-1"),
    PaperItem(WDP, "Figure 2", "composition without clipping", "wdp-figure-2"),
    PaperItem(WDP, "Figure 3", "budgets against β and δ", "wdp-figure-3"),
    PaperItem(WDP, "Figure 4", "composition with clipping", "wdp-figure-4"),
    PaperItem(WDP, "Table 2 (MNIST, Fashion-MNIST, CIFAR-10)", "budgets of deep learning", "wdp-table-2"),
    PaperItem(
        WDP,
        "Table 2 (SVHN)",
        "budgets of deep learning",
        command="`privot study run wdp-table-2`",
        verdict="cannot be run: SVHN is missing",
    ),
    _definition(
        WDP, "Definitions 6 to 11", "DP, privacy loss, sensitivity, RDP, strong and Bayesian DP", "`privot account`"
    ),
    _definition(DP_SINKHORN, "Definition 3.1", "Sinkhorn divergence", "`privot compare --method sinkhorn`"),
    _definition(DP_SINKHORN, "Definition 3.2", "Rényi DP", "`privot account`"),
    _definition(
        DP_SINKHORN,
        "Definitions 4.1, 4.2, 4.3",
        "empirical, debiased, semi-debiased loss",
        "`privot synth --method sinkhorn`",
    ),
    PaperItem(
        DP_SINKHORN,
        "Algorithm 1, Figure 1",
        "training by sanitised gradients",
        command="`privot synth --method sinkhorn`",
        verdict="corrected: one noise in place of three, and nothing un-noised is logged",
    ),
    PaperItem(DP_SINKHORN, "Theorem 4.1", "Rényi DP of one update", "dp-sinkhorn-theorem-4-1"),
    PaperItem(DP_SINKHORN, "Table 1, Figure 2", "grey images at ε = 10", "dp-sinkhorn-table-1"),
    PaperItem(DP_SINKHORN, "Table 2", "ablation", "dp-sinkhorn-table-2"),
    PaperItem(DP_SINKHORN, "Table 3, Figure 3", "faces", "dp-sinkhorn-table-3"),
    PaperItem(DP_SINKHORN, "Figure 4", "learning rate, ε and resampling fraction", "dp-sinkhorn-figure-4"),
    _definition(TRIANGLE_WAD, "Definitions 1, 2, 3, 5", "W_p, geodesics, interpolating measures", "`privot compare`"),
    _definition(TRIANGLE_WAD, "Definition 4", "differential privacy", "`privot account`"),
    PaperItem(TRIANGLE_WAD, "Property 1", "triangle inequality", command="`privot compare`", verdict=_HOLDS),
    PaperItem(
        TRIANGLE_WAD,
        "Algorithm 1",
        "TriangleWad",
        command="`privot compare --method triangle --allow-unproven`",
        verdict="corrected: the factor is 1 − t on W_p, not t^p (`--factor published`); unproven, records come back",
    ),
    PaperItem(TRIANGLE_WAD, "Theorem 1", "error at most the moment of γ", "triangle-wad-theorem-1"),
    PaperItem(
        TRIANGLE_WAD,
        "Figure 1 (a, b), equation 5, Remark 3, section 5",
        "records recovered from messages",
        "triangle-wad-figure-1",
    ),
    PaperItem(TRIANGLE_WAD, "Theorem 2, Figures 3 and 4", "how Gaussian messages look", "triangle-wad-figure-4"),
    PaperItem(
        TRIANGLE_WAD,
        "Remarks 1 and 2",
        "no iterations; sides of different sizes",
        command="`privot compare --method triangle --allow-unproven`",
        verdict="holds (tested for any sizes); precise for constant defence data only",
    ),
    PaperItem(
        TRIANGLE_WAD,
        "Equations 8 and 9",
        "distance of labelled records, calibrated gradients",
        command="`privot compare --method exact --labels`, `privot points`",
        verdict="used as defined (OTDD, Lava)",
    ),
    PaperItem(TRIANGLE_WAD, "Figure 1 (c)", "the gap that noise on the records leaves", "triangle-wad-figure-1c"),
    PaperItem(TRIANGLE_WAD, "Figure 2", "overview", verdict="a drawing: nothing to run"),
    PaperItem(TRIANGLE_WAD, "Table 1, equation 7", "direct, FedWad and TriangleWad", "triangle-wad-table-1"),
    PaperItem(TRIANGLE_WAD, "Figure 6, section 6.4", "words recovered from texts", "triangle-wad-figure-6"),
    PaperItem(
        TRIANGLE_WAD,
        "Figure 5",
        "contributions of five parties",
        "triangle-wad-figure-5",
    ),
    PaperItem(
        TRIANGLE_WAD,
        "Section 6.3",
        "detection of noisy features",
        "triangle-wad-section-6-3",
    ),
    *(PaperItem(PRODUCT, study.item, study.title, study.name) for study in PRODUCT_STUDIES),
)
