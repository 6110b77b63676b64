"""The plot of the evolution tree: descent and fitness of all individuals, and the path to the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from tasks.cpu.plots import style
from tasks.cpu.plots.tree_layout import Edge, Layout, Node, column, lay_out

FITNESS = LinearSegmentedColormap.from_list("fitness", ["#f3ecd2", "#a9d3b5", "#4ba3b3", "#1f5f99", "#1b2a6b"])
MAX_PIXELS = 5_000_000  # 20 MB as RGBA: the process must stay under 200 MB
MUTATION = "#8a4fbf"


@dataclass(frozen=True)
class Scale:
    """Sizes that follow from how much there is to draw. Lengths in inches, text in points, nodes in points."""

    column: float
    row: float
    node: float
    text: float
    labels: str  # "full", "fitness" or "none"
    dpi: float


def tree_png(tree: Mapping[str, Any]) -> bytes:
    """Draw the evolution tree.

    Args:
        tree: the content of `evolution_tree.json`: `nodes` and `edges`.
    Returns: a PNG, the same bytes for the same tree, of at most about `MAX_PIXELS` pixels.
    """
    layout = lay_out(tree)
    scale = _scale(layout)
    width = max(8.5, scale.column * (layout.columns + 0.6) + 1.3)
    height = max(3.4, scale.row * (layout.rows + 0.2) + 1.9)
    figure = style.new_figure(width, height)
    figure.set_dpi(min(scale.dpi, (MAX_PIXELS / (width * height)) ** 0.5))
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_title("Evolution tree", loc="left", fontsize=12.5, fontweight="bold", color=style.INK, pad=26)
    if not layout.nodes:
        style.show_empty(axes, "no individual yet")
        return style.to_png(figure)
    axes.set_xlim(-0.6, layout.columns - 0.4)
    axes.set_ylim(layout.rows - 0.4, -0.6)
    colours = Normalize(*_fitness_range(layout))
    _draw_generations(axes, layout, scale)
    _draw_edges(axes, layout, scale)
    _draw_nodes(axes, layout, scale, colours)
    _draw_labels(axes, layout, scale, colours)
    _draw_legend(figure, axes, layout, colours)
    return style.to_png(figure)


def _scale(layout: Layout) -> Scale:
    """Three sizes by the number of nodes: names and fitness, fitness only, colours only."""
    crowd = max(layout.columns / 1.6, layout.rows)
    if crowd <= 11:
        return Scale(column=1.05, row=0.92, node=30.0, text=7.5, labels="full", dpi=style.DPI)
    if layout.columns <= 36 and layout.rows <= 14:
        return Scale(column=0.62, row=0.5, node=20.0, text=5.6, labels="fitness", dpi=style.DPI)
    return Scale(column=0.4, row=0.4, node=11.0, text=6.0, labels="none", dpi=110)


def _fitness_range(layout: Layout) -> tuple[float, float]:
    fitness = [node.fitness for node in layout.nodes.values() if node.fitness is not None]
    low, high = (min(fitness), max(fitness)) if fitness else (0.0, 1.0)
    return (low, high) if high - low > 1e-6 else (low - 0.05, high + 0.05)


def _draw_generations(axes: Axes, layout: Layout, scale: Scale) -> None:
    """A light strip behind each population, the generation's number above it, and titles of the columns."""
    first = min(node.generation for node in layout.nodes.values())
    for generation in sorted({node.generation for node in layout.nodes.values()}):
        x = column(generation - first, "pop")
        strip = Rectangle((x - 0.46, -0.55), 0.92, layout.rows + 0.1, facecolor="#f1f4f8", edgecolor="none", zorder=0)
        axes.add_patch(strip)
        name = f"generation {generation}" if scale.labels != "none" else f"{generation}"
        axes.annotate(
            name,
            (x, -0.55),
            xytext=(0, 13 if scale.labels != "none" else 5),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            fontweight="bold",
            color=style.INK,
            annotation_clip=False,
        )
        if scale.labels == "none":
            continue
        present = {node.stage for node in layout.nodes.values() if node.generation == generation}
        for stage, label in (("pop", "population"), ("pre", "children"), ("mut", "mutated")):
            if stage in present:
                axes.annotate(
                    label,
                    (column(generation - first, stage), -0.55),
                    xytext=(0, 3),
                    textcoords="offset points",
                    ha="center",
                    fontsize=min(scale.text, 7.5),
                    color=style.MUTED,
                    annotation_clip=False,
                )


def _draw_edges(axes: Axes, layout: Layout, scale: Scale) -> None:
    on_path = set(zip(layout.path, layout.path[1:], strict=False))
    thin = 1.0 if scale.labels == "full" else 0.7
    looks: dict[str, dict[str, Any]] = {
        "parent": {"edgecolor": "#9aa6b4", "linewidth": thin, "alpha": 0.8 if scale.labels == "full" else 0.55},
        "mutation": {"edgecolor": MUTATION, "linewidth": 1.4 * thin, "linestyle": (0, (2.2, 1.4))},
        "next": {"edgecolor": "#c9d1da", "linewidth": thin},
    }
    for kind, look in looks.items():
        plain = [edge for edge in layout.edges if edge.kind == kind and (edge.source, edge.to) not in on_path]
        axes.add_collection(PatchCollection(_curves(layout, plain), facecolor="none", zorder=1, **look))
    strong = [edge for edge in layout.edges if (edge.source, edge.to) in on_path]
    under: dict[str, Any] = {"edgecolor": style.RECORD, "linewidth": 2.4 if scale.labels != "none" else 1.9}
    for edges, dashes in (
        ([edge for edge in strong if edge.kind != "mutation"], "solid"),
        ([edge for edge in strong if edge.kind == "mutation"], (0, (2.2, 1.0))),
    ):
        axes.add_collection(
            PatchCollection(_curves(layout, edges), facecolor="none", zorder=2, linestyle=dashes, **under)
        )


def _curves(layout: Layout, edges: Iterable[Edge]) -> list[PathPatch]:
    return [PathPatch(_curve(layout.nodes[edge.source], layout.nodes[edge.to])) for edge in edges]


def _curve(source: Node, to: Node) -> Path:
    """An S from column to column; a longer edge, of an elite, bends at its start and then stays in its target's row."""
    bend = min(to.x, source.x + 1.0)
    middle = (source.x + bend) / 2
    points = [(source.x, source.row), (middle, source.row), (middle, to.row), (bend, to.row), (to.x, to.row)]
    return Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4, Path.LINETO])


def _draw_nodes(axes: Axes, layout: Layout, scale: Scale, colours: Normalize) -> None:
    """Squares are individuals of a population, circles are children. One collection for each style."""
    thick = 1.0 if scale.labels != "none" else 0.75
    looks: dict[tuple[str, str, float], list[Node]] = {}
    for node in layout.nodes.values():
        edge, width = ("#8a95a3", 0.8)
        if node.is_elite:
            edge, width = style.INK, 2.0 * thick
        if node.id == layout.best:
            edge, width = style.RECORD, 2.6 * thick
        looks.setdefault(("s" if node.stage == "pop" else "o", edge, width), []).append(node)
    for (marker, edge, width), nodes in looks.items():
        axes.scatter(
            [node.x for node in nodes],
            [node.row for node in nodes],
            s=(scale.node * (0.92 if marker == "s" else 1.0)) ** 2,
            c=[style.PAPER if node.fitness is None else FITNESS(colours(node.fitness)) for node in nodes],
            marker=marker,
            edgecolors=edge,
            linewidths=width,
            zorder=3,
        )


def _draw_labels(axes: Axes, layout: Layout, scale: Scale, colours: Normalize) -> None:
    if scale.labels == "none":
        return
    for node in layout.nodes.values():
        is_dark = node.fitness is not None and float(colours(node.fitness)) > 0.5
        text = "–" if node.fitness is None else f"{node.fitness:.3f}".replace("0.", ".", 1)
        axes.text(
            node.x, node.row, text, ha="center", va="center_baseline", fontsize=scale.text, zorder=4,
            color=style.PAPER if is_dark else style.INK,
        )  # fmt: skip
        if scale.labels == "full":
            _name_below(axes, node, scale)


def _name_below(axes: Axes, node: Node, scale: Scale) -> None:
    name = node.id.split("_", 1)[-1].removesuffix("_pre").removesuffix("_mut")
    if node.stage == "mut" and node.target is not None:
        name = f"cluster {node.target}"
    axes.annotate(
        name,
        (node.x, node.row),
        xytext=(0, -scale.node / 2 - 9),
        textcoords="offset points",
        ha="center",
        fontsize=scale.text - 0.8,
        color=MUTATION if node.stage == "mut" else style.MUTED,
        zorder=4,
    )


def _draw_legend(figure: Figure, axes: Axes, layout: Layout, colours: Normalize) -> None:
    marks = [
        Line2D([], [], color="#9aa6b4", linewidth=1.2, label="parent"),
        Line2D([], [], color=MUTATION, linewidth=1.6, linestyle=(0, (2.2, 1.4)), label="mutation"),
        Line2D([], [], color=style.RECORD, linewidth=2.4, label="way to the best"),
        Line2D([], [], linestyle="", marker="s", ms=9, mfc="#dfe6ee", mec=style.INK, mew=2.0, label="elite"),
        Line2D([], [], linestyle="", marker="o", ms=9, mfc="#dfe6ee", mec="#8a95a3", label="child"),
    ]
    if layout.best is not None:
        best = layout.nodes[layout.best]
        label = f"best: {best.id} ({best.fitness:.4f})"
        marks.append(
            Line2D([], [], linestyle="", marker="o", ms=9, mfc="#1b2a6b", mec=style.RECORD, mew=2.4, label=label)
        )
    figure.legend(
        handles=marks, loc="outside lower center", ncols=6, frameon=False, fontsize=8.5, labelcolor=style.INK,
        handlelength=1.8, columnspacing=1.6,
    )  # fmt: skip
    bar = figure.colorbar(ScalarMappable(norm=colours, cmap=FITNESS), ax=axes, fraction=0.02, pad=0.01, aspect=18)
    bar.set_label("fitness", fontsize=9, color=style.INK)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=style.MUTED, labelsize=8, length=2)
