"""What a finished run leaves: `report.json` with its companions, the closing report, and `deploy/` for a server."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from orchestrator.console import command_line, format_count
from orchestrator.evolve.records import History
from orchestrator.evolve.resume import read_changes
from orchestrator.evolve.systems import PLAIN, Book, System
from orchestrator.export.targets import SYSTEM_FILE, TARGETS, files_beside, read_steering, system_text
from orchestrator.report.conclusion import report_of
from orchestrator.report.format import format_cost, format_duration, format_evaluations
from orchestrator.report.model import ReportFile, final_report, front_file
from orchestrator.report.statistics import Comparison
from orchestrator.runs.folder import OutputFolder
from orchestrator.settings.options import Settings
from orchestrator.settings.run import endpoint_of
from tasks.cpu.plots import COMPARISON_PLOTS, EVOLUTION_PLOTS
from tasks.openai.endpoint import is_priced, join_providers
from tasks.openai.limits import spending_of
from tasks.plan import Evaluations
from tasks.records import PROCESSOR_FILE, Example
from tasks.store.store import Store

DEPLOY = "deploy"
CALLS = "{requests:,.0f}, {prompt:,.0f} tokens in ({cached:,.0f} cached), {completion:,.0f} out"
README = """\
# {name}: what goes to the server

Found for {model} by the run {run}.  `system.json` says what is served, with the hashes of the model and its tokenizer.

In this folder, with SGLang:

    PYTHONPATH=. WHETSTONE_SYSTEM=system.json python -m sglang.launch_server --model-path {model} --host 127.0.0.1
    curl http://127.0.0.1:30000/v1/chat/completions -H 'Content-Type: application/json' -d @request.json

Clients change nothing: the server adds the system prompt where a client sends none{steers}
"""
STEERS = """, and steers.
`python processor.py` says how a server without the plugin is steered, `orchestrator export` writes other engines'."""
NO_STEERING = """.
Any other server answers so too: nothing is steered, and `request.json` has the system prompt."""


def write_report(
    output: OutputFolder, store: Store, run_id: str, settings: Settings, book: Book, comparisons: Sequence[Comparison]
) -> ReportFile:
    """Write what a finished run has shown, and what goes to the server."""
    report = report_of(run_id, book, settings.goal, settings.margin, settings.seed, whole=settings.whole)
    output.write_json("report.json", asdict(report))
    output.write_json("front.json", asdict(front_file(report)))
    output.write_json("answers.json", [asdict(comparison) for comparison in comparisons])
    examples = store.examples(run_id)
    example = (examples.get("validation") or examples["training"])[0]
    write_deploy(output, run_id, settings, book.system(book.winner), example)
    return report


def write_deploy(output: OutputFolder, run_id: str, settings: Settings, winner: System, example: Example) -> None:
    """Write the winner's files in place of earlier ones, none for the plain model; the request asks the example."""
    shutil.rmtree(output.path / DEPLOY, ignore_errors=True)
    if winner.name == PLAIN:
        return
    steering = read_steering(output.path, winner.name)
    for name, content in files_beside(steering).items():
        output.write(f"{DEPLOY}/{name}", content)
    output.write(f"{DEPLOY}/{SYSTEM_FILE}", system_text(steering))
    output.write(f"{DEPLOY}/system_prompt.txt", winner.system_prompt)
    output.write_json(f"{DEPLOY}/request.json", steering.request(example.context, example.question))
    if winner.deltas:
        output.write(f"{DEPLOY}/{PROCESSOR_FILE}", TARGETS["sglang"].render(steering, "processor"))
    about = STEERS if winner.deltas else NO_STEERING
    text = README.format(name=winner.name, model=steering.asked["model"], run=run_id, steers=about)
    output.write(f"{DEPLOY}/README.md", text)


def build_report(
    settings: Settings,
    output: OutputFolder,
    store: Store,
    report: ReportFile,
    history: History,
    comparisons: Sequence[Comparison],
    evaluations: Evaluations,
) -> str:
    """The closing report.  `evaluations` counts those of the whole run; the search time is that of the generations."""
    usage, run, folder = Counter(store.usage(report.run)), report.run, output.path
    cost = usage["cost_usd"] if is_priced(endpoint_of(settings)) else None
    rows = [
        ("reflected", join_providers(store.providers(run, "reflector"))),
        ("judged", join_providers(store.providers(run, "judge"))),
        ("evaluations", format_evaluations(evaluations)),
        ("generated", "{target:,.0f} tokens".format_map(usage)),
        ("calls", CALLS.format_map(usage)),
        ("cost", format_cost(cost, settings.budget_usd, spending_of(store.redis, run).unconfirmed)),
    ]
    unusable = {
        "{} skipped": _count(history, "skip_reason", "mutations"),
        "{} kept the first parent's scratchpad": _count(history, "merge_fallback", "merges"),
    }
    if said := ", ".join(text.format(count) for text, count in unusable.items() if count):
        rows.append(("unusable", f"{said}: no reply of the reflector was usable"))
    if settings.target_max_new_tokens < report.cap:
        doubled = f"doubled from {settings.target_max_new_tokens:,} to {report.cap:,} tokens"
        rows.append(("limit", f"{doubled}: too many of the plain model's answers reached it"))
    for change in read_changes(output):
        rows.append(("changed", f"{', '.join(change.options)}, from generation {change.generation} on"))
    names = (
        *((("what goes to the server", DEPLOY),) if report.winner != PLAIN else ()),
        ("the front, to choose another system", "front.json"),
        ("all figures", "report.json"),
        *((plot.title, plot.file) for plot in (*COMPARISON_PLOTS, *EVOLUTION_PLOTS)),
        *((("prompts", output.prompts.name),) if output.prompts.exists() else ()),  # not every search has a reflector
    )
    commands = (
        ("a page of all of it", command_line("report", folder)),
        ("the answers, before and after", command_line("compare", folder, "--answers", "all")),
        ("another system of the front", f"{command_line('export', folder)} --to sglang-server --system NAME"),
        ("more generations", command_line("evolve", "--config", output.config, "--set", f"NGEN={settings.ngen + 2}")),
    )
    seconds = format_duration(sum(line["seconds"]["wall"] for line in history))
    tables = {
        f"Run {run}: {format_count(len(history), 'generations')}, search time {seconds}": rows,
        "Files": [(title, str(folder / name)) for title, name in names],
        "Next": commands,
    }
    return final_report(report, comparisons, tables)


def _count(history: History, reason: str, units: str) -> str:
    """How many evaluations have this reason, in words; "" for none."""
    count = sum(reason in one for line in history for one in (*line["population"], *line["offspring"]))
    return format_count(count, units) if count else ""
