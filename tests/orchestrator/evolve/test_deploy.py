"""deploy/: what goes to the server, complete for the winner."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from exported_run import CHECK, DELTAS, ENDS, write_run
from measured_book import CLUSTERING, EVOLVED, ONE_SENTENCE, book

from orchestrator.evolve.report import write_deploy
from orchestrator.runs.folder import OutputFolder
from orchestrator.settings.kconfig import load_settings
from tasks.records import Example
from workers.embedded.models import embedded_model
from workers.steering.serving import read_system

CONFIG = Path(__file__).parents[3] / "configs" / "embedded.config"
EXAMPLE = Example("q1", "How much?", "A {page}.", "2.6 %")


def test_a_server_gets_the_system_one_whole_request_and_how_it_is_started(tmp_path: Path) -> None:
    output, settings = OutputFolder(write_run(tmp_path, size=50, ends=ENDS)), load_settings(CONFIG)
    (tmp_path / "servers.json").write_text(json.dumps({"servers": [{"weights": "sha256:ab"}]}))
    write_deploy(output, "quiet-1", settings, book().system(EVOLVED), EXAMPLE)
    deploy = tmp_path / "deploy"
    # what the plugin of the same folder reads is there
    served = read_system(deploy / "system.json", deploy)
    assert served.params == {"clustering": CLUSTERING, "deltas": list(DELTAS.values()), "end": "sentence"}
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
    write_deploy(output, "quiet-1", settings, book().system(ONE_SENTENCE), EXAMPLE)
    served = read_system(deploy / "system.json", deploy)
    assert (served.params, served.system_prompt) == (None, prompt)
    assert not list(deploy.glob("*.npy")) and not (deploy / "processor.py").exists()
    # and where the plain model stays, nothing
    write_deploy(output, "quiet-1", settings, book().plain, EXAMPLE)
    assert not deploy.exists()
