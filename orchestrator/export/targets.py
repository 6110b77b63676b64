"""What a system is exported to: the file of each engine, and the command that uses it (`orchestrator export`).

Each engine has a processor file; a SGLang server that is to answer all requests as the system does needs the system,
its labels, and the plugin (docs/serve.md).  All of it is made from the run's folder: labels and sentence ends of each
clustering are in `clusters/`, the model is in `model.json`.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.evolve.resume import MODEL, read_model
from orchestrator.evolve.systems import System
from orchestrator.export.engines import LLAMA_CPP, TRANSFORMERS, VLLM
from orchestrator.farm.connection import embedded_model
from orchestrator.results import RunResults
from orchestrator.runs.folder import OutputError
from orchestrator.settings.options import EMBEDDED
from tasks.common.text import fill
from tasks.gpu import model_files
from tasks.gpu.model_files import reference
from tasks.gpu.processor import SGLANG, ModelCheck, Parts, render_file
from workers import steering as plugin

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SYSTEM_FILE = "system.json"


@dataclass(frozen=True, eq=False)
class ExportedSteering:
    """A system with the cluster of each token [V], and the words that describe each cluster; none without deltas.

    `ends` [V] says which tokens end a sentence where the delta of cluster 0 acts after those only, and is else None.
    asked: how the run has asked the model ("model", "template", "temperature", "max_tokens").  weights: those of the
    run's last server, "" where not known.  is_shown: the run has shown that it loses less than the margin of correct
    answers.
    """

    system: System
    check: ModelCheck
    asked: Mapping[str, Any]
    labels: NDArray[np.unsignedinteger[Any]]
    ends: NDArray[np.uint8] | None = None
    descriptions: tuple[Mapping[str, Any], ...] = ()
    weights: str = ""
    is_shown: bool = False

    @property
    def deltas(self) -> dict[str, float]:
        """By cluster: "0", "1", ..."""
        return {str(cluster): delta for cluster, delta in enumerate(self.system.deltas)}

    def request(self, context: str = "CONTEXT", query: str = "QUESTION") -> dict[str, Any]:
        """The body of a chat completion, as the run has asked it."""
        question = {"role": "user", "content": fill(self.asked["template"], {"context": context, "query": query})}
        system = [{"role": "system", "content": self.system.system_prompt}] if self.system.system_prompt else []
        sampling = {name: self.asked[name] for name in ("temperature", "max_tokens")}
        return {"model": self.asked["model"], "messages": [*system, question], **sampling}

    @property
    def said(self) -> str:
        """What a request of this system consists of, in words."""
        first = self.system.deltas[0] if self.system.deltas else 0.0
        where = "everywhere" if self.ends is None else "after a token that ends a sentence only"
        end = f"{first:+.4g} is added to the end of a turn {where}" if first else "the end of a turn is left as it is"
        prompt = "has the system prompt" if self.system.system_prompt else "has no system prompt"
        steered = f"is steered by the deltas of this file: {end}" if self.system.deltas else "is not steered"
        asked = "Put your own texts in place of CONTEXT and QUESTION."
        return f"One complete request. It {prompt} and {steered}. {asked}"


def read_steering(folder: Path, system: str = "", node: str = "") -> ExportedSteering:
    """One of a run's systems, or an individual of its search; without a name the winner, and before there is one the
    best individual so far.
    """
    import numpy as np

    results = RunResults.open(folder)
    if results.kind != "evolve":
        raise OutputError(f"{folder} holds a run of {results.kind!a}, which finds no system; export a run of 'evolve'")
    chosen = _chosen(results, system, node)
    try:
        check = read_model(results.output)
    except FileNotFoundError:
        raise OutputError(f"{folder} has no {MODEL}: its run has asked no server yet") from None
    values = results.values
    asked = {
        "model": str(embedded_model()) if values["target_model"] == EMBEDDED else values["target_model"],
        "temperature": values["target_temperature"],
        "template": values["target_prompt_template"],
        "max_tokens": results.book.cap or values["target_max_new_tokens"],
    }
    weights = str(results.servers[-1].get("weights", "")) if results.servers else ""
    is_shown = chosen.name in results.book.passed
    if not chosen.deltas:
        return ExportedSteering(chosen, check, asked, np.zeros(0, np.uint8), weights=weights, is_shown=is_shown)
    file = folder / "clusters" / f"{chosen.clustering}.labels"
    ends = _read_labels(file.with_suffix(".ends")) if values["whole"] else None
    clusters = next((arm.clusters for arm in results.arms if arm.clustering == chosen.clustering), ())
    words = tuple(map(asdict, clusters))
    return ExportedSteering(chosen, check, asked, _read_labels(file), ends, words, weights, is_shown)


def _chosen(results: RunResults, system: str, node: str) -> System:
    name = system or results.book.winner
    if name and not node:
        for one in results.book.systems:
            if one.name == name:
                return one
        near = get_close_matches(name, [one.name for one in results.book.systems], n=1)
        meant = "".join(f"; did you mean {one!a}?" for one in near)
        raise OutputError(f"{results.folder} has no system {name!a}; systems.json has the names{meant}")
    found = [one for one in results.individuals if node in ("", one.node)]
    if not found:
        problem = f"has no individual {node!a}; individuals.jsonl has the names" if node else "is not finished"
        raise OutputError(f"{results.folder} {problem}")
    best = max(found, key=lambda one: one.fitness)
    return best.system(next(arm for arm in results.book.arms if arm.name == best.arm))


def _read_labels(path: Path) -> NDArray[Any]:
    from tasks.gpu.cluster import unpack_labels

    try:
        return unpack_labels(path.read_bytes())
    except (OSError, ValueError, zlib.error) as error:
        raise OutputError(f"{path} cannot be read: {error}") from None


def system_text(steering: ExportedSteering) -> str:
    """The content of the file that `WHETSTONE_SYSTEM` names; `deltas` are empty for a system prompt alone."""
    system = steering.system
    values = {
        "name": system.name,
        "kind": system.kind,
        "system_prompt": system.system_prompt,
        "deltas": system.deltas,
        "clustering": system.clustering,
        "end": "any" if steering.ends is None else "sentence",
        "model": {**asdict(steering.check), "weights": steering.weights},
        "about": steering.said,
        "request": steering.request(),
    }
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def files_beside(steering: ExportedSteering) -> Mapping[str, bytes]:
    """The other files of the same folder, by their paths in it: labels, sentence ends, and the plugin."""
    arrays = {".npy": steering.labels if steering.system.deltas else None, ".ends.npy": steering.ends}
    labels = {f"{steering.system.clustering}{end}": _npy(one) for end, one in arrays.items() if one is not None}
    sources = (*sorted(Path(plugin.__file__).parent.glob("*.py")), Path(model_files.__file__))
    code = {f"{plugin.NAME}/{path.name}": path.read_bytes() for path in sources}
    metadata = plugin.distribution_metadata()
    return {**labels, **code, **{name: text.encode() for name, text in metadata.items()}}


def _npy(values: NDArray[np.generic]) -> bytes:
    import numpy as np

    out = io.BytesIO()
    np.save(out, values, allow_pickle=False)
    return out.getvalue()


@dataclass(frozen=True)
class ExportTarget:
    """An engine: the command that uses its file, with {folder}, {module}, {file} and {model}; the parts of a processor.

    usage: one complete request; `request_text` fills it.  An engine without a processor takes `system.json` and the
    files beside it.
    """

    command: str
    usage: str
    parts: Parts | None = None

    @property
    def file_name(self) -> str:
        return self.parts.file_name if self.parts else SYSTEM_FILE

    def request_text(self, one: ExportedSteering, module: str) -> str:
        """One request with all that the system consists of: a command, or a program."""
        request = one.request()
        own = {"custom_logit_processor": reference(module), "custom_params": {}} if self.parts is SGLANG else {}
        heat = request["temperature"]
        return self.usage.format(
            body=json.dumps(request | own, indent=2),
            sampling=f"do_sample=True, temperature={heat}" if heat else "do_sample=False",
            messages=ascii(request["messages"]),
            max_tokens=request["max_tokens"],
            temperature=heat,
            module=module,
            model=ascii(request["model"]),
        )

    def render(self, one: ExportedSteering, module: str) -> str:
        """The text of the file, which is imported as `module`."""
        if self.parts is None:
            return system_text(one)
        request = self.request_text(one, module).replace("\\", r"\\").replace('"""', r"\"\"\"")
        parts = replace(self.parts, usage=f"{self.parts.usage}\n\n{one.said}\n\n{request}")
        return render_file(parts, one.deltas, one.labels, one.system.clustering, one.descriptions, one.check, one.ends)

    def beside(self, one: ExportedSteering) -> Mapping[str, bytes]:
        return {} if self.parts else files_beside(one)

    def check_name(self, file: Path) -> None:
        """Refuse a name that Python cannot import."""
        if self.parts and (file.suffix != ".py" or not file.stem.isidentifier()):
            raise OutputError(f"--output: {file} must be named as a Python module, such as {self.file_name}")

    def command_for(self, file: Path, model: str) -> str:
        whole = file.resolve()
        folder, path, model = (shlex.quote(str(one)) for one in (whole.parent, whole, model))
        return self.command.format(folder=folder, module=file.stem, file=path, model=model)


SERVER = "python -m sglang.launch_server --model-path {model} --host 127.0.0.1"
CURL = """\
curl http://127.0.0.1:{port}/v1/chat/completions -H 'Content-Type: application/json' -d @- <<'END'
{{body}}
END"""
TRANSFORMERS_PROGRAM = """\
from transformers import AutoModelForCausalLM, AutoTokenizer, LogitsProcessorList
from {module} import DeltaProcessor, check_model

name = {model}
check_model(name)
tokenizer, model = AutoTokenizer.from_pretrained(name), AutoModelForCausalLM.from_pretrained(name)
messages = {messages}
prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True, return_tensors="pt")
steering = LogitsProcessorList([DeltaProcessor()])
answer = model.generate(**prompt, max_new_tokens={max_tokens}, {sampling}, logits_processor=steering)
print(tokenizer.decode(answer[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True))"""
LLAMA_PROGRAM = """\
from llama_cpp import Llama, LogitsProcessorList
from {module} import DeltaProcessor

messages = {messages}
steering = LogitsProcessorList([DeltaProcessor()])
sampling = dict(max_tokens={max_tokens}, temperature={temperature}, logits_processor=steering)
answer = Llama("MODEL.gguf", n_ctx=0).create_chat_completion(messages, **sampling)
print(answer["choices"][0]["message"]["content"])"""
PROGRAM = "PYTHONPATH={folder} python PROGRAM.py"
TARGETS: Mapping[str, ExportTarget] = {
    "sglang": ExportTarget(
        f"PYTHONPATH={{folder}} {SERVER} --enable-custom-logit-processor --disable-overlap-schedule",
        CURL.format(port=30000),
        SGLANG,
    ),
    "vllm": ExportTarget(
        "PYTHONPATH={folder} vllm serve {model} --logits-processors {module}:DeltaProcessor",
        CURL.format(port=8000),
        VLLM,
    ),
    "transformers": ExportTarget(PROGRAM, TRANSFORMERS_PROGRAM, TRANSFORMERS),
    "llama-cpp": ExportTarget(PROGRAM, LLAMA_PROGRAM, LLAMA_CPP),
    "sglang-server": ExportTarget(f"PYTHONPATH={{folder}} WHETSTONE_SYSTEM={{file}} {SERVER}", CURL.format(port=30000)),
}


def default_file(folder: Path, target: str, name: str) -> Path:
    """Where the file of a system or individual goes without --output: a folder of its own in the run's."""
    file = Path(TARGETS[target].file_name)
    stem = re.sub(r"[^A-Za-z0-9]+", "_", f"{file.stem}_{name}".strip("_"))
    return folder / "exports" / f"{stem}{file.suffix}"
