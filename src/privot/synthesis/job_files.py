"""The files that a synthesis keeps in its job's folder, and which of them are made from which release."""

from __future__ import annotations

CHOICE = "choice"
"""The part of a job that pays for selecting the warp of samples."""
LABELS = "labels"
"""The part of a job that pays for a labeller, after that."""
LESSON = "lesson.safetensors"
"""What the labeller learned from samples before it was paid for."""
BEFORE: dict[str, tuple[str, ...]] = {
    CHOICE: ("checkpoint.safetensors",),
    LABELS: ("checkpoint.safetensors", f"{CHOICE}.npz", LESSON),
}
"""The files that a part needs besides the first release: they stay when the part is paid for again."""
MADE = (
    "checkpoint.safetensors",
    f"{CHOICE}.npz",
    LESSON,
    f"{LABELS}.npz",
    "generator.safetensors",
    "labeller-encoder.pt2",
    "config.json",
    "guarantee.json",
    "spent.json",
    "evaluation.json",
    "audit.json",
    "synthetic.*",
    "grid.png",
    "figures.json",
    "report-private.html",
    "report.html",
)
"""Everything that is made from a release."""
