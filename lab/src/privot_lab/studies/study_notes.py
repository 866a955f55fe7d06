"""What a page says beneath a result that differs from the paper: what was done there that is not done here."""

from __future__ import annotations

NOTES: dict[str, str] = {
    "dp-sinkhorn-table-1": """**Where ours is below the paper.** Known differences;
none was tried alone, so which of them makes the gap is not known:

- *Noise.* The paper states three noises (∆σ in the equation, 2∆σ in Algorithm 1, rows in Theorem 4.1), and which of
  them stands behind the printed rows cannot be told; they differ by factors of 2 and √n
  ([Theorem 4.1](#dp-sinkhorn-theorem-4-1)). Ours is the one that is proven for what is clipped, the whole matrix.
- *Neighbours.* The paper counts Poisson samples (add-remove). The study counts replace-one with samples of a fixed
  size, which needs more noise for the same ε; the row of `add-remove` is in
  [results](../results/synthesis-images.md#sinkhorn-dp-sinkhorn).
- *Length.* The published run took 29,626 s and millions of updates; ours as many as `steps` says below.
- *Choices.* The paper found p = 0.4 by a search, and does not say on which images; privot takes the printed p and m.
  Its own learning rate was kept after a run on the test sets ([results](../results/synthesis-images.md)).""",
    "dp-sinkhorn-table-2": """**Where ours is below the paper.** In the row with noise at the parameters the paper tuned
the clipping bound ∆ for that variant alone, and does not say on which records or whether that was charged; privot takes
its public default. Whether the clip makes the gap was not tried. The other rows share one set of
settings, as the paper's do, and fewer steps: those that `options` state below.""",
    "dp-sinkhorn-table-3": """**Where ours is below the paper.** CelebA has 162,770 faces for training; 10,000 are
at hand, of which 8,000 train. At the same ε and the same number of updates a sample of a fixed size is a twenty times
larger share of them, which needs more noise. The paper's generator is a residual one of twelve layers (BigGAN) with
λ = 5; privot's is another. Neither was tried alone. Its `embedding`, which releases once, is above the paper's
figures on the same faces.""",
    "dp-swd-table-2": """The exact law stands beside both bounds: the paper has no such row. Its σ are those of a bound
whose failure is charged once, though directions are drawn at every step ([Table 4](#dp-swd-table-4)); here every draw
is charged.""",
    "dp-swd-figure-6": """CelebA is at hand with 10,000 faces of 32 × 32, in place of 162,770 of 64 × 64, so FIDs cannot
be compared with the printed ones. The generator of 64 × 64 × 3 images is built in [Table 5](#dp-swd-table-3), and the
noise of 8,192 dimensions and 2,000 directions is computed at the paper's own numbers.""",
    "privot-colour": """The cell without public images at ε = 10 was run again, by the same study, when a mean of all
records became the rule there (commit 1d7cda5, alone on the GPU; the face encoder is of 3fea6acb, all others are of
fbd00e0). What seeds 1 and 2 gave is in [results](../results/synthesis-images.md#colour-images). **Gender is a miss with
an encoder of objects alone**, which sees too little of a face
([what was tried](../notebook/synthesis-images.md#what-an-encoder-sees-at-more-pixels)); with an encoder that was
trained on other people's faces it is reached.""",
    "triangle-wad-figure-5": """*exact Shapley* and *truncated Monte Carlo* (DataSV) value the accuracy of a ridge
classifier of the parties' pooled records; *MR*, *OR* and the three kinds of *GTG* rebuild models of coalitions from the
updates of one federated training (softmax regression), as their papers do: *GTG-Tib* is *GTG* with orders that nobody
leads by turns, *GTG-Ti* leaves out no round besides. The paper's figure is of CIFAR-10 with a network that it
does not name, and prints no numbers. The noise of sketches is new in every run: over six runs of ten seeds each the
party with most wrong labels came last in 10, 9, 9, 8, 8 and 6 of ten, 50 of 60, and by values of the records
themselves, without noise, in 15 of 16 other seeds: the next party has 15 % of wrong labels where this one has 20 %.""",
    "wdp-table-2": """The two ε of a row are of different kinds and cannot be compared: that of DP bounds what an
attacker learns, that of WDP rests on refuted theorems ([Corollary 1](#wdp-corollary-1)).""",
}
"""Markdown by study."""
