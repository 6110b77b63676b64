"""What is written reads back; what changed is named; what workers get is what was set."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from orchestrator.settings import Settings, changed_options, load_settings, make_run, write_config
from orchestrator.settings.fields import read_value
from orchestrator.settings.kconfig import Kconfig
from orchestrator.settings.options import Option, options
from tasks.models import Run

NUMBERS = (int, float, int | None, float | None)
OTHERS = {
    "TRACKERS": "mlflow, tensorboard",
    "CALLBACKS": "my_callbacks:Printer",
    "JUDGE": "my_judges:contains",
    "REDIS_URL": "redis://elsewhere:1/2",
    "SGLANG_URL": "http://elsewhere:1",
    "OPENAI_BASE_URL": "http://elsewhere:2/v1",
    "SGLANG_API_KEY_ENV": "ANOTHER_KEY",
    "OPENAI_API_KEY_ENV": "ANOTHER_KEY",
    "EMBEDDED_FAULTS": "*:500:1",
}
"""Values of options that do not take any text."""


def another(option: Option, value: Any) -> Any:
    """A value of the same option that differs from `value`; for a check of one option at a time."""
    if get_origin(option.kind) is Literal:
        return next(word for word in get_args(option.kind) if word != value)
    if option.kind is bool:
        return not value
    if option.kind in (int | None, float | None):
        return 1 if value is None else None
    if option.kind in (int, float):
        return option.kind(next(one for one in (option.rule.high, option.rule.high / 2) if one != value))
    if option.kind is str:
        return OTHERS.get(option.name, value + ' "x" \\ \n')
    return Path(__file__)  # a file that exists


def test_written_settings_read_back_equal_and_complete(sound: Any, tmp_path: Path) -> None:
    settings = load_settings(sound.path)

    write_config(settings, tmp_path / "config")

    assert load_settings(tmp_path / "config") == settings
    written = (tmp_path / "config").read_text()
    assert all(re.search(rf"^(# )?CONFIG_{option.name}(=| is not set)", written, re.MULTILINE) for option in options())
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("config")] == ["config"]


def test_each_option_is_written_as_it_is_and_named_when_it_changes(shared_sound: Any, tmp_path: Path) -> None:
    settings = load_settings(shared_sound.path)
    others = {option.field: another(option, getattr(settings, option.field)) for option in options()}

    write_config(dataclasses.replace(settings, **others), tmp_path / "config")

    kconfig = Kconfig()
    kconfig.load_config(str(tmp_path / "config"))
    for option in options():
        read = read_value(option.annotation, option.rule, kconfig.syms[option.name].str_value)
        assert read == others[option.field]
        assert changed_options(settings, dataclasses.replace(settings, **{option.field: read})) == [option.name]


@pytest.mark.parametrize("number", ["0.1", "0.30000000000000004", "1e-09", "0.7", "1", "0.0"])
def test_floats_are_written_exactly(sound: Any, tmp_path: Path, number: str) -> None:
    settings = load_settings(sound.path, [f"CXPB={number}"])

    write_config(settings, tmp_path / "config")

    assert load_settings(tmp_path / "config").cxpb == float(number)


def test_a_run_holds_each_setting_in_its_place_and_survives_json(shared_sound: Any) -> None:
    # given settings in which no two numbers are alike
    settings = load_settings(shared_sound.path)
    numbers = {o.field: number for number, o in enumerate(options(), 1000) if o.kind in NUMBERS}
    words = {o.field: o.name for o in options() if o.kind is str}
    marked = dataclasses.replace(settings, **numbers, **words, judge_forgiving=False, embedded_endpoint="openai")

    # when they become a run
    run = make_run(marked, "run-1")

    # then every part of it came from the option of its name
    assert Run.from_json(run.to_json()) == run
    assert (run.id, run.seed) == ("run-1", marked.seed)
    for part, prefix in ((run.target.sampling, "target"), (run.judge, "judge"), (run.reflector, "reflector")):
        named = {"name": "judge", "steered_min_new_tokens": "steered_min_new_tokens"}
        assert dataclasses.asdict(part) == {
            field.name: getattr(marked, named.get(field.name, f"{prefix}_{field.name}"))
            for field in dataclasses.fields(part)
        }
    assert dataclasses.asdict(run.objective) == {
        name: getattr(marked, name) for name in dataclasses.asdict(run.objective)
    }
    assert {name: value for name, value in dataclasses.asdict(run.endpoint).items() if name != "budget_usd"} == {
        field.name: getattr(marked, f"openai_{field.name}")
        for field in dataclasses.fields(run.endpoint)
        if field.name != "budget_usd"
    }
    assert run.endpoint.budget_usd == marked.budget_usd


def test_a_run_holds_the_target_and_the_clusters(shared_sound: Any) -> None:
    s = load_settings(shared_sound.path, ["SGLANG_ARGS=--x 1", "TARGET_SYSTEM_PROMPT=one\\ntwo", "CLUSTER_SEED=5"])
    run = make_run(s, "run-2")

    target, clusters = run.target, run.clusters
    assert (target.model, target.engine, target.lifecycle, target.url) == ("embedded", "embedded", "resident", "")
    assert (target.command, target.args) == ("python -m sglang.launch_server", "--x 1")
    assert (target.device, target.dtype, target.concurrency) == ("cpu", "auto", 32)
    assert (target.ready_timeout_s, target.request_timeout_s) == (600, 600)
    assert (target.system_prompt, target.prompt_template) == ("one\ntwo", "Context:\n{context}\n\nQuestion:\n{query}")
    # Workers may have another working directory.
    assert clusters.folder == str(Path("outputs/clusters").resolve())
    assert (clusters.embedder, clusters.device) == ("embedded", "cpu")
    assert (clusters.components, clusters.count, clusters.seed, clusters.batch_size) == (50, 10, 5, 256)
    assert run.evaluation_cache is True


def test_settings_have_as_many_fields_as_kconfig_has_options() -> None:
    assert len(dataclasses.fields(Settings)) == len(Kconfig().unique_defined_syms)
