"""What an export reads of a run's folder, the files that it makes of it, and deploy/, which goes to the server."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from exported_run import BEST, CHECK, DELTAS, ENDS, HASH, NODE, OTHER, WORDS, labels_of, rendered, write_run
from measured_book import EVOLVED, ONE_SENTENCE, VECTOR, book

from orchestrator.evolve.report import write_deploy
from orchestrator.export.targets import default_file, read_steering
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.settings.kconfig import load_settings
from tasks.records import Example
from workers.embedded.models import embedded_model
from workers.steering.serving import read_system

ENGINES = {
    "sglang": {"torch", "sglang.srt.sampling.custom_logit_processor", "sglang.srt.runtime_context", "huggingface_hub"},
    "vllm": {"torch", "huggingface_hub"},
    "transformers": {"torch", "transformers", "huggingface_hub"},
    "llama-cpp": {"numpy", "huggingface_hub"},
}


@pytest.mark.parametrize("target", sorted(ENGINES))
def test_each_file_explains_itself_where_its_engine_is_not_installed(tmp_path: Path, target: str) -> None:
    file = default_file(write_run(tmp_path), target, "")
    file.parent.mkdir()
    tree = ast.parse(text := rendered(target, tmp_path))
    file.write_text(text)
    # when it is run with Python alone, then it prints its head, and names its module
    told = subprocess.run([sys.executable, "-I", "-S", str(file)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith(ast.get_docstring(tree, clean=False) or "?") and file.stem in told.stdout
    # and what it does not understand is never a success
    refused = subprocess.run([sys.executable, str(file), "--what"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    # and it imports its engine and the standard library only
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names} == ENGINES[target]


def test_the_winner_is_exported_with_its_prompt_and_the_labels_of_its_arm(tmp_path: Path) -> None:
    steering = read_steering(write_run(tmp_path))
    assert (steering.system, steering.deltas, steering.check) == (book().system(EVOLVED), DELTAS, CHECK)
    assert np.array_equal(steering.labels, labels_of())
    assert [one["description"] for one in steering.descriptions] == [one["description"] for one in WORDS]
    assert steering.is_shown
    # and the file is the one that a worker makes of the same deltas, also with the ends of sentences
    for run in (tmp_path, write_run(tmp_path / "whole", ends=ENDS)):
        made, worker_s = (
            text.split('"""', 2)[2] for text in (rendered("sglang", run), (run / "processor_best.py").read_text())
        )
        assert made == worker_s


def test_any_system_and_any_individual_can_be_exported(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    other = replace(book().system(VECTOR), deltas=(0.0, 1.0, 0.0, 0.0, 0.0))
    book(other).write(OutputFolder(run))
    steering = read_steering(run, VECTOR)
    assert (steering.system, steering.is_shown) == (other, False)
    steering = read_steering(run, node=NODE)
    assert (steering.deltas, steering.system.name, steering.is_shown) == (OTHER, NODE, False)
    assert steering.system.system_prompt == f"Answer in {ONE_SENTENCE}."
    # and of a run at work it is the best individual so far
    replace(book(), winner="").write(OutputFolder(run))
    assert read_steering(run).system.name == BEST


@pytest.mark.parametrize("name", [f"clusters/{HASH}.labels", f"clusters/{HASH}.ends", "model.json", "systems.json"])
def test_a_damaged_or_missing_file_is_refused_with_its_name(tmp_path: Path, name: str) -> None:
    file = write_run(tmp_path, ends=ENDS) / name
    for damage in (lambda: file.write_bytes(file.read_bytes()[:-9]), file.unlink):
        damage()
        with pytest.raises(OutputError, match=file.name):
            read_steering(tmp_path)


def test_a_server_gets_the_system_one_whole_request_and_how_it_is_started(tmp_path: Path) -> None:
    output, settings = (
        OutputFolder(write_run(tmp_path, size=50, ends=ENDS)),
        load_settings(Path("configs/embedded.config")),
    )
    example = Example("q1", "How much?", "A {page}.", "2.6 %")
    (tmp_path / "servers.json").write_text(json.dumps({"servers": [{"weights": "sha256:ab"}]}))
    write_deploy(output, "quiet-1", settings, book().system(EVOLVED), example)
    deploy = tmp_path / "deploy"
    # what the plugin of the same folder reads is there
    served = read_system(deploy / "system.json", deploy)
    assert served.params == {"clustering": HASH, "deltas": list(DELTAS.values()), "end": "sentence"}
    prompt = (deploy / "system_prompt.txt").read_text()
    assert served.system_prompt == prompt == f"Answer in {ONE_SENTENCE}." and served.model == asdict(CHECK)
    assert (deploy / "whetstone_steering" / "plugin.py").exists()
    # and so is the file for a server without it, as a worker makes it of the same deltas
    code = [(tmp_path / name).read_text().split('"""', 2)[2] for name in ("deploy/processor.py", "processor_best.py")]
    assert code[0] == code[1]
    system, request = (json.loads((deploy / name).read_text()) for name in ("system.json", "request.json"))
    assert [system[name] for name in ("name", "kind")] == [EVOLVED, "evolved"]
    assert system["model"] == {**asdict(CHECK), "weights": "sha256:ab"}
    assert request["messages"][0] == {"role": "system", "content": prompt}
    assert "A {page}." in request["messages"][1]["content"] and "How much?" in request["messages"][1]["content"]
    assert request["max_tokens"] == 128 and request["temperature"] == settings.target_temperature
    # and the embedded model is named by its folder, with which SGLang starts
    [started] = [line for line in (deploy / "README.md").read_text().splitlines() if "sglang.launch_server" in line]
    assert "WHETSTONE_SYSTEM=system.json" in started and f"--model-path {embedded_model()} " in started
    # and a prompt alone is served by the same plugin, without labels and without a processor
    write_deploy(output, "quiet-1", settings, book().system(ONE_SENTENCE), example)
    served = read_system(deploy / "system.json", deploy)
    assert (served.params, served.system_prompt) == (None, prompt)
    assert not list(deploy.glob("*.npy")) and not (deploy / "processor.py").exists()
    # and where the plain model stays, nothing
    write_deploy(output, "quiet-1", settings, book().plain, example)
    assert not deploy.exists()
