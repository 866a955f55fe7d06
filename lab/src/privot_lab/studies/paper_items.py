"""Every definition, theorem, algorithm, table and figure of the papers: the command that runs it, and what came of it.

An item with a study gets its verdict from the study's results; the others are checked elsewhere (a command, a test), or
cannot be run, and say which data is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from privot_lab.studies.product_list import PRODUCT, PRODUCT_STUDIES
from privot_lab.studies.study import Paper
from privot_lab.studies.study_list import DP_SINKHORN, DP_SWD, DP_SWD_FIRST, TRIANGLE_WAD, WDP


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


def _by(paper: Paper, command: str, *rows: tuple[str, str, str]) -> tuple[PaperItem, ...]:
    """Items that one command runs: name, what it is, verdict."""
    return tuple(PaperItem(paper, item, what, command=command, verdict=verdict) for item, what, verdict in rows)


_TERMS = "--delta 1e-5 --adjacency replace-one"
_GAUSSIAN = f"`privot account embedding --sigma 5 {_TERMS}`"
_CURVES = f"`privot account compare {_TERMS}`"
_STEPS = (
    f"`privot account projection --dim 784 --slices 200 --records 10000 --batch 128 --epochs 100 --epsilon 10 {_TERMS}`"
)
_CLAIMS = "`privot study claims`"
_EXACT = "`privot compare A B --method exact`"
_DP_SWD = f"`privot compare A B --method dp-swd --clip 1 --epsilon 10 {_TERMS}`"
_IMAGES = "--epsilon 10 --delta 1e-5 --shape 28,28 --range 0,255 --out DIR"
_FEATURES = (
    "`privot adapt SOURCE TARGET --method sliced --set network=features --epsilon 10 --delta 1e-3 --range 0,6 "
    "--out DIR`"
)
_SLICED = f"`privot synth DATA --method sliced --adjacency replace-one {_IMAGES}`"
_SINKHORN = f"`privot synth DATA --method sinkhorn --adjacency replace-one {_IMAGES}`"
_HOLDS, _REFUTED = "holds (tested)", "refuted (counterexample computed)"
_TRIANGLE = "`privot compare A B --method triangle --allow-unproven`"
_DRAWN = "drawn: every run writes grid.png of its own samples; papers' pictures are judged by eye only"
_DRAWING = "a drawing: nothing to run"

_SWD_ITEMS = (
    _definition(DP_SWD, "Definition 1", "neighbouring data sets: one record replaced", _GAUSSIAN),
    _definition(DP_SWD, "Definition 2", "(ε, δ)-DP", _GAUSSIAN),
    _definition(DP_SWD, "Definition 3", "Rényi DP", _CURVES),
    _definition(DP_SWD, "Remark 1", "an algorithm's outputs as a distribution", _GAUSSIAN),
    PaperItem(DP_SWD, "Proposition 1", "from Rényi DP to DP", command=_CURVES, verdict=_HOLDS),
    PaperItem(DP_SWD, "Remark 2", "Rényi DP of the Gaussian mechanism", command=_GAUSSIAN, verdict=_HOLDS),
    _definition(DP_SWD, "Equations 1 and 2", "optimal plan and W_q", "`privot compare A B --method exact --p 1`"),
    _definition(
        DP_SWD, "Equations 3 and 4", "Radon transform and sliced W_q", "`privot compare A B --method sliced --p 1`"
    ),
    PaperItem(
        DP_SWD,
        "Algorithm 1",
        "private and smoothed SWD",
        command=f"{_DP_SWD}, `private_sliced` in Python",
        verdict="corrected: records are clipped to a public bound, σ by the exact law; debiased, with an interval",
    ),
    PaperItem(DP_SWD, "Lemma 1, Figure 7", "law of one squared projection", "dp-swd-figure-7"),
    PaperItem(DP_SWD, "Remark 3", "its mean and variance", "dp-swd-figure-7"),
    PaperItem(DP_SWD, "Remark 4", "a difference that is not of length 1", "dp-swd-figure-7"),
    PaperItem(DP_SWD, "Lemma 2, equations 5, 6, 9 and 10", "the Bernstein bound", "dp-swd-figure-1"),
    PaperItem(DP_SWD, "CLT bound (section 3.1), Figure 1", "the bound without rigour", "dp-swd-figure-1"),
    PaperItem(DP_SWD, "Proposition 2", "(ε, δ) of projections with noise", "dp-swd-table-4"),
    PaperItem(
        DP_SWD,
        "Section 3.1, Section 4: tracking the privacy loss",
        "subsampling and composition over mini-batches",
        command=_STEPS,
        verdict="corrected: sampler and accountant are one object; as published, unproven: "
        "`--bound published --frame independent`",
    ),
    PaperItem(DP_SWD, "Property 1", "0 for equal laws only", "dp-swd-figure-2"),
    PaperItem(DP_SWD, "Property 2", "symmetry, triangle inequality", "dp-swd-figure-2"),
    PaperItem(DP_SWD, "Figure 2, section 6.1", "SWD and DP-SWD of two Gaussians", "dp-swd-figure-2"),
    PaperItem(
        DP_SWD,
        "Algorithm 2, equation 7",
        "private adaptation",
        command=f"`privot adapt SOURCE TARGET --method sliced {_IMAGES}`; "
        "as published `--method published --allow-unproven`",
        verdict="corrected: the published gradient passes through private records",
    ),
    _definition(DP_SWD, "Equation 8", "a generator by DP-SWD", _SLICED),
    PaperItem(DP_SWD, "Table 1 (digits), section 6.2", "domain adaptation", "dp-swd-table-1"),
    PaperItem(
        DP_SWD,
        "Table 1 (VisDA)",
        "domain adaptation",
        command=_FEATURES,
        verdict="cannot be run: VisDA-2017 is missing; with ResNet features of it (also `.mat`) the command runs",
    ),
    PaperItem(
        DP_SWD,
        "Table 1 (Office-31)",
        "domain adaptation",
        command=_FEATURES,
        verdict="cannot be run: Office-31 is missing; Office-Caltech in its place: `privot study run privot-office`",
    ),
    PaperItem(DP_SWD, "Figure 3 (digits)", "accuracy against ε", "dp-swd-figure-3"),
    PaperItem(
        DP_SWD,
        "Figure 3 (its other data)",
        "accuracy against ε",
        command=_FEATURES,
        verdict="cannot be run: VisDA-2017 and Office-31 are missing; with features of them the command runs",
    ),
    PaperItem(DP_SWD, "Table 2, section 6.3", "generative models of grey images", "dp-swd-table-2"),
    *_by(
        DP_SWD,
        _SLICED,
        ("Figure 4", "generated MNIST", _DRAWN),
        ("Figure 5", "generated Fashion-MNIST", _DRAWN),
    ),
    PaperItem(
        DP_SWD,
        "Table 2 (GS-WGAN, DP-CGAN, DP-MERF)",
        "rows of other papers",
        command="`privot study run dp-swd-table-2`",
        verdict="cannot be run: the programs of those papers are missing; DP-MERF's place has `embedding`",
    ),
    PaperItem(DP_SWD, "Figure 6", "faces; 32 × 32 in place of 64 × 64", "dp-swd-figure-6"),
    PaperItem(
        DP_SWD,
        "Section 8.5.2",
        "networks of adaptation",
        command=f"`privot adapt SOURCE TARGET --method sliced --set network=digits {_IMAGES}`",
        verdict="as described for digits and Office-31 (`--set network=features`); VisDA's has 100 units in place of "
        "50",
    ),
    PaperItem(DP_SWD, "Table 3, section 8.5.3", "generator of grey images", "dp-swd-table-3"),
    PaperItem(DP_SWD, "Table 4", "σ of every experiment", "dp-swd-table-4"),
    PaperItem(DP_SWD, "Table 5", "generator of faces", "dp-swd-table-3"),
)

_SWD_FIRST_ITEMS = (
    PaperItem(
        DP_SWD_FIRST,
        "Definitions 1 to 3, Remarks 1 and 2, Proposition 1",
        "as in the final version",
        command=_CURVES,
        verdict="used as defined",
    ),
    _definition(
        DP_SWD_FIRST, "Equations 1 to 4", "W_q and its sliced version", "`privot compare A B --method sliced --p 1`"
    ),
    PaperItem(
        DP_SWD_FIRST,
        "Algorithm 1",
        "as in the final version",
        command=_DP_SWD,
        verdict="corrected, as in the final version",
    ),
    PaperItem(
        DP_SWD_FIRST,
        "Algorithm 2, equations 7 and 8",
        "as in the final version",
        command=f"`privot adapt SOURCE TARGET --method sliced {_IMAGES}`",
        verdict="corrected, as in the final version",
    ),
    PaperItem(DP_SWD_FIRST, "Lemma 1", "law of one squared projection", "dp-swd-figure-7"),
    PaperItem(DP_SWD_FIRST, "Lemma 2, equations 5 and 6, CLT bound, Figure 1", "the same bounds", "dp-swd-figure-1"),
    PaperItem(DP_SWD_FIRST, "Proposition 2", "the same number", "dp-swd-table-4"),
    PaperItem(DP_SWD_FIRST, "Properties 1 and 2, Figure 2", "stated for q, used with q = 1", "dp-swd-figure-2"),
    PaperItem(DP_SWD_FIRST, "Figure 3", "the same curves", "dp-swd-figure-3"),
    PaperItem(DP_SWD_FIRST, "Table 1 (digits)", "the same accuracies", "dp-swd-table-1"),
    PaperItem(
        DP_SWD_FIRST,
        "Table 1 (VisDA, Office-31)",
        "the same accuracies",
        command=_FEATURES,
        verdict="cannot be run: VisDA-2017 and Office-31 are missing; with features of them the command runs",
    ),
    PaperItem(DP_SWD_FIRST, "Table 2, Figures 4 and 5", "the same accuracies", "dp-swd-table-2"),
    PaperItem(DP_SWD_FIRST, "Figure 6", "the same FIDs", "dp-swd-figure-6"),
)

_WDP_ITEMS = (
    _definition(WDP, "Definition 1, equation 1", "W_μ", "`privot compare A B --method exact --p 1`"),
    _definition(WDP, "Definition 2, equations 2 and 3", "Kantorovich–Rubinstein distance", _CLAIMS),
    _definition(WDP, "Definition 3, equation 4", "(μ, ε)-WDP", _CLAIMS),
    _definition(WDP, "Definition 4, equation 5", "Kantorovich DP, (1, ε)-WDP by duality", _CLAIMS),
    _definition(WDP, "Definition 5, equation 9", "generalised (μ, ε)-WDP", _CLAIMS),
    *_by(
        WDP,
        _CLAIMS,
        ("Proposition 1, equation 6", "symmetry", _HOLDS),
        ("Proposition 2, equation 7", "triangle inequality", _HOLDS),
        ("Proposition 3", "non-negativity", _HOLDS),
        ("Proposition 4", "monotonicity", _HOLDS),
        ("Proposition 5", "parallel composition", "holds under add-remove; counterexample for replace-one"),
        (
            "Proposition 6",
            "sequential composition",
            "holds for independent releases; counterexample for adaptive ones",
        ),
    ),
    PaperItem(WDP, "Proposition 7", "Laplace mechanism", "wdp-table-1"),
    PaperItem(WDP, "Proposition 8", "Gaussian mechanism", "wdp-table-1"),
    PaperItem(WDP, "Table 1", "budgets of DP, RDP and WDP for both", "wdp-table-1"),
    *_by(
        WDP,
        _CLAIMS,
        ("Proposition 9", "from DP to WDP", _REFUTED),
        ("Proposition 10", "from RDP to WDP", _REFUTED),
        ("Proposition 11", "from WDP to RDP and DP", _REFUTED),
        ("Proposition 12, equation 8", "post-processing", "refuted; holds for 1-Lipschitz maps"),
        ("Proposition 13", "group privacy", _HOLDS),
        ("Theorem 1, equation 10", "advanced composition", _REFUTED),
        ("Theorem 2, equation 11", "loss of a sampled step", _REFUTED),
        ("Theorem 3, equation 15", "tail bound", _REFUTED),
    ),
    PaperItem(WDP, "Lemma 1, equations 12 to 14", "raw absolute moment", "wdp-lemma-1"),
    PaperItem(WDP, "Corollary 1, equation 16", "the accountant, attacked", "wdp-corollary-1"),
    PaperItem(WDP, "Figure 1, Basic Mechanisms", "budgets against the order", "wdp-figure-1"),
    PaperItem(WDP, "Figure 2, Composition", "composition without clipping", "wdp-figure-2"),
    PaperItem(WDP, "Figure 3, Effect of β and δ", "budgets against β and δ", "wdp-figure-3"),
    PaperItem(WDP, "Figure 4", "composition with clipping", "wdp-figure-4"),
    PaperItem(WDP, "Table 2 (budgets), attacked", "the printed ε of MNIST", "wdp-corollary-1"),
    PaperItem(
        WDP, "Table 2 (MNIST, Fashion-MNIST, CIFAR-10), Deep Learning", "budgets of deep learning", "wdp-table-2"
    ),
    PaperItem(WDP, "Table 2, Deep Learning: convergence in 16 epochs", "accuracy by epoch", "wdp-table-2"),
    PaperItem(
        WDP,
        "Table 2 (SVHN)",
        "budgets of deep learning",
        command="`privot study run wdp-table-2`",
        verdict="cannot be run: SVHN is missing",
    ),
    *_by(
        WDP,
        _CLAIMS,
        ("Relations to Other DP Frameworks", "from WDP to zCDP", _REFUTED),
        (
            "Advantages from Metric Property",
            "what follows of a metric",
            "the metric holds (Propositions 1 to 3); the compositions said to follow do not (6, Theorem 1)",
        ),
    ),
    _definition(WDP, "Definition 6", "(ε, δ)-DP", _GAUSSIAN),
    _definition(WDP, "Definition 7", "privacy loss", _CURVES),
    _definition(WDP, "Definition 8", "sensitivity in the norm p", _GAUSSIAN),
    _definition(WDP, "Definition 9", "Rényi DP", _CURVES),
    _definition(WDP, "Definition 10", "strong Bayesian DP", "`privot study run wdp-table-2`"),
    _definition(WDP, "Definition 11", "Bayesian DP", "`privot study run wdp-table-2`"),
)


def _with(setting: str) -> str:
    """DP-Sinkhorn with one setting changed."""
    return f"{_SINKHORN[:-1]} --set {setting}`"


_SINKHORN_ITEMS = (
    _definition(DP_SINKHORN, "Equation 1", "entropic transport", "`privot compare A B --method sinkhorn --reg 0.05`"),
    _definition(
        DP_SINKHORN, "Definition 3.1, equation 2", "Sinkhorn divergence", "`privot compare A B --method sinkhorn`"
    ),
    _definition(DP_SINKHORN, "Definition 3.2, equation 3", "Rényi DP", _CURVES),
    _definition(DP_SINKHORN, "Definition 4.1, equation 4", "empirical loss", _with("debias=none")),
    _definition(DP_SINKHORN, "Definition 4.2, equation 5", "debiased loss", _with("p=1")),
    _definition(DP_SINKHORN, "Definition 4.3, equation 6", "semi-debiased loss", _with("p=0.4")),
    PaperItem(
        DP_SINKHORN,
        "Algorithm 1",
        "training by sanitised gradients",
        command=_SINKHORN,
        verdict="corrected: one noise in place of three, and nothing un-noised is logged",
    ),
    PaperItem(DP_SINKHORN, "Figure 1", "flow diagram", verdict=_DRAWING),
    PaperItem(DP_SINKHORN, "Theorem 4.1, section 4.3", "Rényi DP of one update", "dp-sinkhorn-theorem-4-1"),
    _definition(
        DP_SINKHORN,
        "Section 4.4: cost function",
        "squared L2 and m times L1, classes in the cost",
        _with("mixture=1"),
    ),
    PaperItem(DP_SINKHORN, "Table 1, section 5.2", "grey images at ε = 10", "dp-sinkhorn-table-1"),
    PaperItem(
        DP_SINKHORN,
        "Table 1 (G-PATE, DP-CGAN, DataLens, GS-WGAN)",
        "rows of other papers",
        command="`privot study run dp-sinkhorn-table-1`",
        verdict="cannot be run: the programs of those papers are missing; DP-MERF's place has `embedding`",
    ),
    *_by(DP_SINKHORN, _SINKHORN, ("Figure 2", "generated grey images", _DRAWN)),
    PaperItem(DP_SINKHORN, "Table 2, Ablations", "loss, debiasing, place of the noise", "dp-sinkhorn-table-2"),
    PaperItem(DP_SINKHORN, "Table 3, section 5.3", "faces, DP-MERF beside", "dp-sinkhorn-table-3"),
    *_by(DP_SINKHORN, _SINKHORN, ("Figure 3", "generated faces", _DRAWN)),
    PaperItem(DP_SINKHORN, "Figure 4 (a), Robustness", "learning rate and optimiser", "dp-sinkhorn-figure-4"),
    PaperItem(DP_SINKHORN, "Figure 4 (b), Privacy Utility Trade-off", "accuracy against ε", "dp-sinkhorn-figure-4"),
    PaperItem(DP_SINKHORN, "Figure 4 (c)", "bias and variance against p", "dp-sinkhorn-figure-4"),
    PaperItem(
        DP_SINKHORN,
        "Table 3 (DataLens), Figures 2 and 3 (other methods), Figure 4 (GS-WGAN)",
        "rows, images and curves of other papers",
        command="`privot study run dp-sinkhorn-table-3`",
        verdict="cannot be run: the programs of those papers are missing; DP-MERF's place has `embedding`",
    ),
)

_TRIANGLE_ITEMS = (
    _definition(TRIANGLE_WAD, "Definition 1, equation 1", "W_p", _EXACT),
    PaperItem(
        TRIANGLE_WAD,
        "Property 1, equation 2",
        "triangle inequality",
        command=_EXACT,
        verdict=_HOLDS,
    ),
    _definition(TRIANGLE_WAD, "Definition 2, equation 3", "geodesics, interpolating measure", _TRIANGLE),
    _definition(TRIANGLE_WAD, "Definition 3", "local and global interpolating measures", _TRIANGLE),
    _definition(
        TRIANGLE_WAD, "Equation 4", "FedWad's sum of four", "`privot compare A B --method fedwad --allow-unproven`"
    ),
    PaperItem(
        TRIANGLE_WAD,
        "Figure 1 (a, b), equation 5, section 3.1",
        "the identically distributional attack",
        "triangle-wad-figure-1",
    ),
    *_by(
        TRIANGLE_WAD,
        "`privot audit protocol A B --open --out DIR`",
        (
            "Figure 1 (a, b), Figure 3, Figure 4: pictures",
            "records, messages and what comes back",
            "drawn, with histograms and a check of normality, for any two data sets that nothing must protect",
        ),
    ),
    _definition(TRIANGLE_WAD, "Definition 4, equation 6", "differential privacy", _GAUSSIAN),
    PaperItem(
        TRIANGLE_WAD, "Figure 1 (c), section 3.2", "the gap that noise on the records leaves", "triangle-wad-figure-1c"
    ),
    PaperItem(TRIANGLE_WAD, "Figure 2", "overview", verdict=_DRAWING),
    PaperItem(TRIANGLE_WAD, "Equation 7", "t^p W_p(μ, ν) = W_p(η_μ, η_ν)", "triangle-wad-table-1"),
    PaperItem(TRIANGLE_WAD, "Theorem 1", "error at most the moment of γ", "triangle-wad-theorem-1"),
    _definition(TRIANGLE_WAD, "Definition 5", "direct and federated distance", _TRIANGLE),
    PaperItem(TRIANGLE_WAD, "Definition 5: W* ≤ W(η_μ, η_ν)/t^p ≃ W†", "which is larger", "triangle-wad-table-1"),
    PaperItem(
        TRIANGLE_WAD,
        "Algorithm 1, section 4.2",
        "TriangleWad",
        command=_TRIANGLE,
        verdict="corrected: the factor is 1 − t on W_p, not t^p (`--set factor=published`); step 7 is "
        "`--set federated=yes`; "
        "defence data of each side's own `--set secret=yes --set defence=random`; unproven, records come back",
    ),
    *_by(
        TRIANGLE_WAD,
        _TRIANGLE,
        ("Remark 1", "no iterations", "holds: one round; precise for constant defence data only"),
        ("Remark 2", "sides of different sizes", "holds (tested for any sizes)"),
    ),
    PaperItem(TRIANGLE_WAD, "Remark 3", "private defence data", "triangle-wad-figure-1"),
    _definition(
        TRIANGLE_WAD,
        "Equation 8, section 4.3",
        "distance of labelled records (OTDD)",
        "`privot compare A B --method exact --labels --classes 10`",
    ),
    _definition(TRIANGLE_WAD, "Equation 9", "calibrated gradients (Lava)", "`privot points A --validation V`"),
    PaperItem(TRIANGLE_WAD, "Section 5: complexity, three plans", "time against FedWad", "triangle-wad-table-1"),
    PaperItem(TRIANGLE_WAD, "Section 5: privacy (1), (2), (3)", "messages inverted", "triangle-wad-figure-1"),
    PaperItem(TRIANGLE_WAD, "Theorem 2", "messages stay Gaussian", "triangle-wad-figure-4"),
    PaperItem(TRIANGLE_WAD, "Figure 3", "two different noises", "triangle-wad-figure-4"),
    PaperItem(TRIANGLE_WAD, "Figure 4, section 6.1", "how Gaussian messages look", "triangle-wad-figure-4"),
    PaperItem(TRIANGLE_WAD, "Table 1, section 6.1", "direct, FedWad and TriangleWad", "triangle-wad-table-1"),
    PaperItem(TRIANGLE_WAD, "Figure 5, section 6.2", "contributions of five parties", "triangle-wad-figure-5"),
    PaperItem(
        TRIANGLE_WAD,
        "Section 6.2 (CIFAR-100)",
        "named among the data sets, without a result",
        command="`privot study run triangle-wad-figure-5`",
        verdict="cannot be run: CIFAR-100 is missing",
    ),
    PaperItem(TRIANGLE_WAD, "Section 6.3", "detection of noisy features", "triangle-wad-section-6-3"),
    PaperItem(TRIANGLE_WAD, "Figure 6, section 6.4", "words recovered from texts", "triangle-wad-figure-6"),
)

ITEMS: tuple[PaperItem, ...] = (
    *_SWD_ITEMS,
    *_SWD_FIRST_ITEMS,
    *_WDP_ITEMS,
    *_SINKHORN_ITEMS,
    *_TRIANGLE_ITEMS,
    *(PaperItem(PRODUCT, study.item, study.title, study.name) for study in PRODUCT_STUDIES),
)
