"""The plot of the evolution tree: descent and fitness of all individuals, and the path to the best.

Time runs to the right in columns: each generation has one for its population, one for the children before mutation
(`_pre`), and one for those after it (`_mut`).  A child is in the row of its position in the next population, so that
only the edges from parents cross.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from tasks.cpu.plots import style

FITNESS = LinearSegmentedColormap.from_list("fitness", ["#f3ecd2", "#a9d3b5", "#4ba3b3", "#1f5f99", "#1b2a6b"])
MAX_PIXELS = 5_000_000  # 20 MB as RGBA: the process must stay under 200 MB
MUTATION, PARENT, CHILD = "#8a4fbf", "#9aa6b4", "#8a95a3"
STAGES = {"pop": "population", "pre": "children", "mut": "mutated"}
GAP = 0.35  # of a column, before each population


class Node(NamedTuple):
    """A node and its position: `x` in columns from the left, `row` from the top."""

    id: str
    generation: int
    stage: str
    x: float
    row: float
    fitness: float
    is_elite: bool
    target: str | None


class Edge(NamedTuple):
    source: str
    to: str
    kind: str  # parent, mutation or next


@dataclass(frozen=True)
class Layout:
    nodes: dict[str, Node]
    edges: tuple[Edge, ...]
    best: str  # the first node that reached the highest fitness
    path: frozenset[tuple[str, str]]  # the edges from a root to `best`
    columns: float
    rows: float


class Scale(NamedTuple):
    """Sizes that follow from how much there is to draw. Lengths in inches, text in points, nodes in points."""

    column: float
    row: float
    node: float
    text: float
    labels: str  # "full", "fitness" or "none"
    dpi: float


def tree_png(tree: Mapping[str, Any]) -> bytes:
    """The tree, `nodes` and `edges`, as a PNG of at most about `MAX_PIXELS` pixels."""
    layout = lay_out(tree)
    scale = _scale(layout)
    width = max(8.5, scale.column * (layout.columns + 0.6) + 1.3)
    height = max(3.4, scale.row * (layout.rows + 0.2) + 1.9)
    figure = style.new_figure(width, height)
    figure.set_dpi(min(scale.dpi, (MAX_PIXELS / (width * height)) ** 0.5))
    axes = figure.add_subplot()
    axes.set_axis_off()
    style.set_title(axes, "Evolution tree", 26)
    axes.set_xlim(-0.6, layout.columns - 0.4)
    axes.set_ylim(layout.rows - 0.4, -0.6)
    fitness = [node.fitness for node in layout.nodes.values()]
    low, high = min(fitness), max(fitness)
    colours = Normalize(low, high) if high - low > 1e-6 else Normalize(low - 0.05, high + 0.05)
    _draw_generations(axes, layout, scale)
    _draw_edges(axes, layout, scale)
    _draw_nodes(axes, layout, scale, colours)
    if scale.labels != "none":
        _draw_labels(axes, layout, scale, colours)
    _draw_legend(figure, axes, layout, colours)
    return style.to_png(figure)


def lay_out(tree: Mapping[str, Any]) -> Layout:
    """Place the nodes.  Their names are g{g}_pop{i}, g{g}_child{j}_pre and g{g}_child{j}_mut."""
    raw = {node["id"]: node for node in tree["nodes"]}
    edges = tuple(Edge(edge["from"], edge["to"], edge["kind"]) for edge in tree["edges"])
    rows, first = _rows(raw, edges), min(node["generation"] for node in raw.values())
    nodes = {}
    for name, node in raw.items():
        generation, stage = node["generation"], node["stage"]
        x = (generation - first) * (len(STAGES) + GAP) + list(STAGES).index(stage)
        nodes[name] = Node(name, generation, stage, x, rows[name], node["fitness"], node["elite"], node.get("target"))
    # The earliest node of the highest fitness, so not an elite's copy in a later population.
    best = min(nodes.values(), key=lambda node: (-node.fitness, node.x, node.row, node.id))
    size = max(node.x for node in nodes.values()) + 1, max(rows.values()) + 1
    return Layout(nodes, edges, best.id, _path_to(best, nodes, edges), *size)


def _rows(raw: Mapping[str, Mapping[str, Any]], edges: tuple[Edge, ...]) -> dict[str, float]:
    """A population is in its order; a child in the row of its next position, or of the expected one."""
    follows = {edge.source: edge.to for edge in edges if edge.kind in ("mutation", "next")}
    index = {name: int(re.findall(r"\d+", name)[1]) for name in raw}
    size = max((index[name] + 1 for name, node in raw.items() if node["stage"] == "pop"), default=1)
    children = max((index[name] + 1 for name, node in raw.items() if node["stage"] != "pop"), default=0)
    elites = max(size - children, 0)
    rows: dict[str, float] = {}
    for name in raw:
        end = name
        while end in follows and raw[end]["stage"] != "pop":
            end = follows[end]
        rows[name] = float(index[end] if raw[end]["stage"] == "pop" else elites + index[name])
    return rows


def _path_to(best: Node, nodes: Mapping[str, Node], edges: tuple[Edge, ...]) -> frozenset[tuple[str, str]]:
    """From a node without ancestors to `best`, through the fitter of two parents."""
    path, at = set(), best
    while parents := [nodes[edge.source] for edge in edges if edge.to == at.id]:
        parent = min(parents, key=lambda node: (-node.fitness, node.row))
        path.add((parent.id, at.id))
        at = parent
    return frozenset(path)


def _scale(layout: Layout) -> Scale:
    """Three sizes by the number of nodes: names and fitness, fitness only, colours only."""
    if max(layout.columns / 1.6, layout.rows) <= 11:
        return Scale(column=1.05, row=0.92, node=30.0, text=7.5, labels="full", dpi=style.DPI)
    if layout.columns <= 36 and layout.rows <= 14:
        return Scale(column=0.62, row=0.5, node=20.0, text=5.6, labels="fitness", dpi=style.DPI)
    return Scale(column=0.4, row=0.4, node=11.0, text=6.0, labels="none", dpi=110)


def _draw_generations(axes: Axes, layout: Layout, scale: Scale) -> None:
    """A light strip behind each population, the generation's number above it, and titles of the columns."""
    head: dict[str, Any] = {"fontsize": 9, "fontweight": "bold", "color": style.INK, "annotation_clip": False}
    title: dict[str, Any] = {"fontsize": min(scale.text, 7.5), "color": style.MUTED, "annotation_clip": False}
    generations: dict[int, dict[str, float]] = {}
    for node in layout.nodes.values():
        generations.setdefault(node.generation, {})[node.stage] = node.x
    for generation, columns in sorted(generations.items()):
        x = columns["pop"]
        strip = Rectangle((x - 0.46, -0.55), 0.92, layout.rows + 0.1, facecolor="#f1f4f8", edgecolor="none", zorder=0)
        axes.add_patch(strip)
        if scale.labels == "none":
            style.annotate(axes, f"{generation}", (x, -0.55), (0, 5), **head)
            continue
        style.annotate(axes, f"generation {generation}", (x, -0.55), (0, 13), **head)
        for stage, label in STAGES.items():
            if stage in columns:
                style.annotate(axes, label, (columns[stage], -0.55), (0, 3), **title)


def _draw_edges(axes: Axes, layout: Layout, scale: Scale) -> None:
    thin, strong = (1.0, 2.4) if scale.labels == "full" else (0.7, 2.4 if scale.labels == "fitness" else 1.9)

    def draw(kinds: Container[str], is_on_path: bool, **look: Any) -> None:
        edges = [edge for edge in layout.edges if edge.kind in kinds and (edge[:2] in layout.path) == is_on_path]
        patches = [PathPatch(_curve(layout.nodes[edge.source], layout.nodes[edge.to])) for edge in edges]
        axes.add_collection(PatchCollection(patches, facecolor="none", zorder=1 + is_on_path, **look))

    draw(["parent"], False, edgecolor=PARENT, linewidth=thin, alpha=0.8 if scale.labels == "full" else 0.55)
    draw(["mutation"], False, edgecolor=MUTATION, linewidth=1.4 * thin, linestyle=(0, (2.2, 1.4)))
    draw(["next"], False, edgecolor="#c9d1da", linewidth=thin)
    draw(["parent", "next"], True, edgecolor=style.RECORD, linewidth=strong, linestyle="solid")
    draw(["mutation"], True, edgecolor=style.RECORD, linewidth=strong, linestyle=(0, (2.2, 1.0)))


def _curve(source: Node, to: Node) -> Path:
    """An S from column to column; a longer edge, of an elite, bends at its start and then stays in its target's row."""
    bend = min(to.x, source.x + 1.0)
    middle = (source.x + bend) / 2
    points = [(source.x, source.row), (middle, source.row), (middle, to.row), (bend, to.row), (to.x, to.row)]
    return Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4, Path.LINETO])


def _draw_nodes(axes: Axes, layout: Layout, scale: Scale, colours: Normalize) -> None:
    """Squares are individuals of a population, circles are children. One collection for each style."""
    thick = 0.75 if scale.labels == "none" else 1.0
    looks: dict[tuple[str, str, float], list[Node]] = {}
    for node in layout.nodes.values():
        edge, width = (style.INK, 2.0 * thick) if node.is_elite else (CHILD, 0.8)
        if node.id == layout.best:
            edge, width = style.RECORD, 2.6 * thick
        looks.setdefault(("s" if node.stage == "pop" else "o", edge, width), []).append(node)
    for (marker, edge, width), nodes in looks.items():
        axes.scatter(
            [node.x for node in nodes], [node.row for node in nodes], zorder=3,
            s=(scale.node * (0.92 if marker == "s" else 1.0)) ** 2, c=[FITNESS(colours(one.fitness)) for one in nodes],
            marker=marker, edgecolors=edge, linewidths=width,
        )  # fmt: skip


def _draw_labels(axes: Axes, layout: Layout, scale: Scale, colours: Normalize) -> None:
    for node in layout.nodes.values():
        axes.text(
            node.x, node.row, f"{node.fitness:.3f}".replace("0.", ".", 1), fontsize=scale.text, zorder=4,
            ha="center", va="center_baseline", color=style.PAPER if colours(node.fitness) > 0.5 else style.INK,
        )  # fmt: skip
        if scale.labels == "full":
            is_mutated = node.stage == "mut"
            name = node.id.split("_")[1] if not is_mutated or node.target is None else f"cluster {node.target}"
            look = {"color": MUTATION if is_mutated else style.MUTED, "fontsize": scale.text - 0.8, "zorder": 4}
            style.annotate(axes, name, (node.x, node.row), (0, -scale.node / 2 - 9), **look)


def _draw_legend(figure: Figure, axes: Axes, layout: Layout, colours: Normalize) -> None:
    grey: dict[str, Any] = {"linestyle": "", "ms": 9, "mfc": "#dfe6ee"}
    best = f"best: {layout.best} ({layout.nodes[layout.best].fitness:.4f})"
    marks = [
        Line2D([], [], color=PARENT, linewidth=1.2, label="parent"),
        Line2D([], [], color=MUTATION, linewidth=1.6, linestyle=(0, (2.2, 1.4)), label="mutation"),
        Line2D([], [], color=style.RECORD, linewidth=2.4, label="way to the best"),
        Line2D([], [], marker="s", mec=style.INK, mew=2.0, label="elite", **grey),
        Line2D([], [], marker="o", mec=CHILD, label="child", **grey),
        Line2D([], [], marker="o", mec=style.RECORD, mew=2.4, label=best, **{**grey, "mfc": "#1b2a6b"}),
    ]
    style.legend_below(figure, axes, 6, handles=marks, fontsize=8.5, columnspacing=1.6)
    bar = figure.colorbar(ScalarMappable(norm=colours, cmap=FITNESS), ax=axes, fraction=0.02, pad=0.01, aspect=18)
    bar.set_label("fitness", fontsize=9, color=style.INK)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=style.MUTED, labelsize=8, length=2)
