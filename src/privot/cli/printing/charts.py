"""Charts the command line draws."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from privot.accounting.comparison import AccountantComparison
from privot.guarantee import Standing
from privot.report.chart_files import check_ending, new_figure, save_figure

_LINES = {Standing.PROVEN: "-", Standing.ASYMPTOTIC: "--", Standing.UNPROVEN: ":"}


def draw_comparison(comparison: AccountantComparison, out: Path) -> None:
    """ε against σ, one line per accountant, dashed where it is no bound."""
    check_ending(out)
    figure, panels = new_figure(1, 1, (8.0, 5.0))
    axes = panels[0][0]
    proven = [e for c in comparison.curves if c.standing is Standing.PROVEN for e in c.epsilons if math.isfinite(e)]
    for number, curve in enumerate(comparison.curves):
        points = [(s, e) for s, e in zip(comparison.sigmas, curve.epsilons, strict=True) if math.isfinite(e) and e > 0]
        if points:
            label = f"{curve.name} ({curve.standing})"
            # the first are the widest, so that one that coincides with a later one still shows
            look = {"marker": "o", "markersize": 3, "linewidth": max(1.5, 3.5 - 0.7 * number), "label": label}
            axes.plot(*zip(*points, strict=True), _LINES[curve.standing], **look)
    axes.set(xscale="log", yscale="log", xlabel="σ, standard deviation of the noise")
    if proven:
        # what no theorem bounds may lie a hundred decades above all that does
        shown = [y for line in axes.lines for y in line.get_ydata()]
        axes.set_ylim(min(shown) / 3.0, min(3.0 * max(shown), 10.0 * max(proven)))
    axes.set_ylabel(f"ε at δ = {comparison.delta:g}, {comparison.adjacency}")
    axes.set_title(f"{comparison.steps} steps, sampling: {comparison.sampling}", fontsize=10)
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(fontsize=8)
    save_figure(figure, out)


def draw_slices(x: Any, y: Any, found: Any, slices: int, out: Path) -> None:
    """The three directions along which two data sets differ most, as histograms."""
    import numpy as np

    from privot.transport import draw_directions

    check_ending(out)
    directions = draw_directions(x.shape[1], slices, "orthogonal", found.details["seed"])
    worst = np.argsort(found.details["costs"])[::-1][:3]
    figure, panels = new_figure(1, len(worst), (4.2 * len(worst), 3.6))
    for which, axes in zip(worst, panels[0], strict=True):
        a, b = x @ directions[:, which], y @ directions[:, which]
        edges = np.histogram_bin_edges(np.concatenate([a, b]), 40)
        axes.hist(a, edges, density=True, alpha=0.55, label="A")
        axes.hist(b, edges, density=True, alpha=0.55, label="B")
        axes.set_title(f"slice {which}: W² = {found.details['costs'][which]:.3g}", fontsize=9)
        axes.legend(fontsize=8)
    figure.suptitle("Where A and B differ most (no privacy: do not publish)", fontsize=10)
    save_figure(figure, out)


def draw_transport(x: Any, y: Any, plan: Any, out: Path) -> None:
    """Two data sets in the plane of their largest variance, with lines where most of a record's mass goes."""
    import numpy as np

    check_ending(out)
    centre = np.concatenate([x, y]).mean(0)
    _, _, axes_of = np.linalg.svd(np.concatenate([x, y])[:2000] - centre, full_matrices=False)
    plane = axes_of[:2].T
    a, b = (x - centre) @ plane, (y - centre) @ plane
    if plane.shape[1] == 1:
        a, b = (np.column_stack([z, np.zeros(len(z))]) for z in (a, b))
    figure, panels = new_figure(1, 1, (7.0, 5.5))
    axes = panels[0][0]
    for i in range(min(200, len(a))):
        j = int(np.argmax(plan[i]))
        axes.plot([a[i, 0], b[j, 0]], [a[i, 1], b[j, 1]], color="0.75", linewidth=0.6, zorder=1)
    axes.scatter(a[:, 0], a[:, 1], s=9, label="A", zorder=2)
    axes.scatter(b[:, 0], b[:, 1], s=9, label="B", zorder=2)
    axes.set_title("Transport from A to B, first 200 records (no privacy: do not publish)", fontsize=10)
    axes.legend()
    save_figure(figure, out)


def draw_parties(distances: Any, names: list[str], order: list[int], tree: Any, what: str, out: Path) -> None:
    """The matrix of distances with similar parties side by side, the dendrogram behind that order, and a map."""
    from scipy.cluster.hierarchy import dendrogram

    from privot.federation.sketches.sketch_matrix import map_of

    check_ending(out)
    figure, panels = new_figure(1, 3, (16.0, 5.0))
    few = len(names) <= 40
    picture = panels[0][0].imshow(distances[order][:, order], cmap="viridis")
    figure.colorbar(picture, ax=panels[0][0], shrink=0.8)
    panels[0][0].set_title(f"{what} between {len(names)} parties")
    if few:
        panels[0][0].set_xticks(range(len(names)), [names[k] for k in order], rotation=90, fontsize=7)
        panels[0][0].set_yticks(range(len(names)), [names[k] for k in order], fontsize=7)
    dendrogram(tree, labels=names, no_labels=not few, ax=panels[0][1], color_threshold=0.0, above_threshold_color="0.3")
    panels[0][1].set(title="similar parties (average linkage)", ylabel=what)
    points = map_of(distances)
    panels[0][2].scatter(points[:, 0], points[:, 1], s=14)
    for name, point in zip(names, points, strict=True):
        if few:
            panels[0][2].annotate(name, point, fontsize=7, xytext=(3, 3), textcoords="offset points")
    panels[0][2].set(title="map (classical scaling)", aspect="equal")
    save_figure(figure, out)


def draw_scores(scores: Any, out: Path) -> None:
    """How scores of one's own records are spread, and all of them from the worst to the best."""
    import numpy as np

    check_ending(out)
    figure, panels = new_figure(1, 2, (11.0, 4.0))
    panels[0][0].hist(scores, 60)
    panels[0][0].set(xlabel="score (high is harmful)", ylabel="records")
    panels[0][1].plot(np.arange(1, len(scores) + 1), np.sort(scores)[::-1])
    panels[0][1].set(xlabel="rank, the worst first", ylabel="score (high is harmful)")
    panels[0][1].grid(True, alpha=0.25)
    figure.suptitle("Scores of one's own records (private: do not publish)", fontsize=10)
    save_figure(figure, out)


def draw_values(parties: list[dict[str, Any]], private: bool, out: Path) -> None:
    """Values of parties, the highest first, with what the noise leaves open."""
    check_ending(out)
    ranked = sorted(parties, key=lambda party: float(party["value"]))
    figure, panels = new_figure(1, 1, (7.5, 1.2 + 0.4 * len(ranked)))
    axes = panels[0][0]
    axes.barh([party["name"] for party in ranked], [party["value"] for party in ranked], color="0.7")
    for k, party in enumerate(ranked):
        if party["interval"] is not None:
            axes.plot(party["interval"], [k, k], color="black", linewidth=1.5)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_xlabel("value (high is useful): share of the validation side's spread explained")
    how = "lines: 95 % over the privacy noise" if private else "no privacy: do not publish"
    axes.set_title(f"Values of parties ({how})", fontsize=10)
    save_figure(figure, out)
