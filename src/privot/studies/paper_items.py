"""Every definition, theorem, algorithm, table and figure of the papers: the command that runs it, and what came of it.

An item with a study gets its verdict from the study's results; the others are checked elsewhere (a command, a test) or
are not done yet, and say so.
"""

from __future__ import annotations

from dataclasses import dataclass

from privot.studies.study import Paper
from privot.studies.study_list import DP_SINKHORN, DP_SWD, TRIANGLE_WAD, WDP


@dataclass(frozen=True)
class PaperItem:
    """One item of a paper."""

    paper: Paper
    item: str
    what: str
    study: str = ""
    """The study that recomputes it."""
    command: str = ""
    verdict: str = "not done yet"


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
        "Remarks 1 and 2",
        "composition and subsampling",
        command=_ACCOUNT,
        verdict="corrected: sampler and accountant are one object",
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
    PaperItem(DP_SWD, "Table 1 (VisDA, Office-31)", "domain adaptation", verdict="cannot be run: the data are missing"),
    PaperItem(DP_SWD, "Table 2, Figures 4 and 5", "generative models of grey images", "dp-swd-table-2"),
    PaperItem(DP_SWD, "Figure 6, Table 5", "faces of 64 × 64"),
    PaperItem(
        DP_SWD,
        "Table 3",
        "generator for grey images",
        command="`privot synth --method sliced --set generator=…`",
        verdict="not done yet as published",
    ),
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
    PaperItem(WDP, "Theorems 1, 2, 3, Corollary 1", "the accountant", command=_CLAIMS, verdict=_REFUTED),
    PaperItem(WDP, "Lemma 1", "raw absolute moment", command=_CLAIMS, verdict=_HOLDS),
    PaperItem(WDP, "Figure 1", "budgets against the order", "wdp-figure-1"),
    PaperItem(WDP, "Figure 2", "composition without clipping", "wdp-figure-2"),
    PaperItem(WDP, "Figure 3", "budgets against β and δ", "wdp-figure-3"),
    PaperItem(WDP, "Figure 4", "composition with clipping", "wdp-figure-4"),
    PaperItem(WDP, "Table 2", "budgets of deep learning", "wdp-table-2"),
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
    PaperItem(DP_SINKHORN, "Table 3, Figure 3", "faces"),
    PaperItem(DP_SINKHORN, "Figure 4", "learning rate, ε and resampling fraction", "dp-sinkhorn-figure-4"),
    _definition(TRIANGLE_WAD, "Definitions 1, 2, 3, 5", "W_p, geodesics, interpolating measures", "`privot compare`"),
    _definition(TRIANGLE_WAD, "Definition 4", "differential privacy", "`privot account`"),
    PaperItem(TRIANGLE_WAD, "Property 1", "triangle inequality", command="`privot compare`", verdict=_HOLDS),
    PaperItem(
        TRIANGLE_WAD,
        "Algorithm 1",
        "TriangleWad",
        command="`privot compare --method triangle --allow-unproven`",
        verdict="corrected: the factor is 1 − t on W_p, not t^p; unproven, records come back (`privot audit`)",
    ),
    PaperItem(TRIANGLE_WAD, "Theorem 1", "error at most the moment of γ", "triangle-wad-theorem-1"),
    PaperItem(
        TRIANGLE_WAD,
        "Theorem 2, Remarks 1, 2, 3, Figures 1 (a, b), 3, 4",
        "what messages hide",
        "triangle-wad-figure-1",
    ),
    PaperItem(TRIANGLE_WAD, "Figure 1 (c)", "the gap that noise on the records leaves", "triangle-wad-figure-1c"),
    PaperItem(TRIANGLE_WAD, "Figure 2", "overview", verdict="a drawing: nothing to run"),
    PaperItem(TRIANGLE_WAD, "Table 1, equation 7", "direct, FedWad and TriangleWad", "triangle-wad-table-1"),
    PaperItem(
        TRIANGLE_WAD,
        "Figure 6",
        "words recovered from text",
        command="`privot audit`",
        verdict="measured (results/hardening, results/auditing); not a study yet",
    ),
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
)
