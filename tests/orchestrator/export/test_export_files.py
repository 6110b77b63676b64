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
from exported_run import BEST, CHECK, DELTAS, ENDS, HASH, labels_of, rendered, write_run
from measured_book import EVOLVED, ONE_SENTENCE, book

from orchestrator.evolve.report import write_deploy
from orchestrator.export.targets import default_file, read_steering
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.settings.kconfig import load_settings
from tasks.records import Example
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
    # and it imports its engine and the standard library only
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names} == ENGINES[target]


def test_the_winner_is_exported_with_its_prompt_and_the_labels_of_its_arm(tmp_path: Path) -> None:
    steering = read_steering(write_run(tmp_path))
    assert (steering.system, steering.deltas, steering.check) == (book().system(EVOLVED), DELTAS, CHECK)
    assert np.array_equal(steering.labels, labels_of()) and steering.is_shown
    # and the file is the one that a worker makes of the same deltas
    files = rendered("sglang", tmp_path), (tmp_path / "processor_best.py").read_text()
    assert files[0].split('"""', 2)[2] == files[1].split('"""', 2)[2]
    # and of a run at work it is the best individual so far
    replace(book(), winner="").write(OutputFolder(tmp_path))
    assert read_steering(tmp_path).system.name == BEST


@pytest.mark.parametrize("name", [f"clusters/{HASH}.labels", f"clusters/{HASH}.ends", "model.json", "systems.json"])
def test_a_damaged_or_missing_file_is_refused_with_its_name(tmp_path: Path, name: str) -> None:
    file = write_run(tmp_path, ends=ENDS) / name
    for damage in (lambda: file.write_bytes(file.read_bytes()[:-9]), file.unlink):
        damage()
        with pytest.raises(OutputError, match=file.name):
            read_steering(tmp_path)


def test_a_server_gets_the_system_and_one_whole_request(tmp_path: Path) -> None:
    run, settings = write_run(tmp_path, size=50, ends=ENDS), load_settings(Path("configs/embedded.config"))
    example = Example("q1", "How much?", "A {page}.", "2.6 %")
    (run / "servers.json").write_text(json.dumps({"servers": [{"weights": "sha256:ab"}]}))

    def deploy(name: str) -> Path:
        write_deploy(OutputFolder(run), "quiet-1", settings, book().system(name), example)
        return run / "deploy"

    folder = deploy(EVOLVED)
    # what the plugin of the same folder reads is there
    served = read_system(folder / "system.json", folder)
    assert served.params == {"clustering": HASH, "deltas": list(DELTAS.values()), "end": "sentence"}
    prompt = (folder / "system_prompt.txt").read_text()
    assert served.system_prompt == prompt == f"Answer in {ONE_SENTENCE}." and served.model == asdict(CHECK)
    assert json.loads((folder / "system.json").read_text())["model"] == {**asdict(CHECK), "weights": "sha256:ab"}
    assert (folder / "whetstone_steering" / "plugin.py").exists()
    # and so is the file for a server without it, as a worker makes it of the same deltas
    code = [file.read_text().split('"""', 2)[2] for file in (folder / "processor.py", run / "processor_best.py")]
    assert code[0] == code[1]
    request = json.loads((folder / "request.json").read_text())
    assert request["messages"][0] == {"role": "system", "content": prompt}
    assert "A {page}." in request["messages"][1]["content"] and "How much?" in request["messages"][1]["content"]
    assert request["max_tokens"] == 128 and request["temperature"] == settings.target_temperature
    # and a prompt alone is served by the same plugin, without labels and without a processor
    served = read_system(deploy(ONE_SENTENCE) / "system.json", folder)
    assert (served.params, served.system_prompt) == (None, prompt)
    assert not list(folder.glob("*.npy")) and not (folder / "processor.py").exists()
    # and where the plain model stays, nothing
    assert not deploy("plain").exists()
