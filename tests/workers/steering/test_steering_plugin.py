"""The plugin in stand-ins for SGLang's classes: a chat completion from its request to the logits of each step.

SGLang itself needs a GPU (tests/gpu).  The names of its classes and methods are those of 0.5.16 to 0.5.23.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from exported_run import DELTAS, DIGIT, ENDS, HASH, POINT, STOP, WORD, biases_of, write_run
from measured_book import ONE_SENTENCE

from orchestrator.export.targets import files_beside, read_steering, system_text
from tasks.gpu.model_files import model_hashes
from workers.steering.request import LABELS_VARIABLE, is_cluster_bias
from workers.steering.serving import CHAT, SYSTEM_VARIABLE

TOKENS, WIDTH = 50, 64
END = 2  # the only token of cluster 0
PROMPT = f"Answer in {ONE_SENTENCE}."


class HookType:
    BEFORE = AROUND = AFTER = "hook"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What `orchestrator export --to sglang-server` writes."""
    steering = read_steering(write_run(tmp_path / "run", size=TOKENS, ends=ENDS))
    for name, content in {**files_beside(steering), "system.json": system_text(steering)}.items():
        path = tmp_path / "deploy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path / "deploy"


@pytest.fixture
def hooks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the exported plugin registers in a server that is started as the export says, by the hooked name."""
    found: dict[str, Any] = {}
    registry = SimpleNamespace(register=lambda name, hook, kind: found.setdefault(name, hook))
    modules = {
        "sglang.srt.plugins.hook_registry": {"HookRegistry": registry, "HookType": HookType},
        "sglang.srt.entrypoints.openai.protocol": {"ChatCompletionMessageGenericParam": SimpleNamespace},
    }
    for name, members in modules.items():
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            monkeypatch.setitem(sys.modules, ".".join(parts[:depth]), ModuleType(parts[depth - 1]))
        vars(sys.modules[name]).update(members)
    monkeypatch.delenv(LABELS_VARIABLE, raising=False)
    monkeypatch.setenv(SYSTEM_VARIABLE, str(folder / "system.json"))
    monkeypatch.syspath_prepend(str(folder))
    importlib.import_module("whetstone_steering.plugin").register()
    yield found
    for name in [name for name in sys.modules if name.partition(".")[0] == "whetstone_steering"]:
        del sys.modules[name]


def registered(hooks: dict[str, Any]) -> dict[str, Any]:
    """The hooks of the plugin when it is loaded once more."""
    hooks.clear()
    sys.modules["whetstone_steering.plugin"].register()
    return hooks


def chat(*roles: str, **given: Any) -> Any:
    """A ChatCompletionRequest."""
    fields = dict.fromkeys(
        ("custom_params", "custom_logit_processor", "input_ids", "regex", "ebnf", "response_format", "tools",
         "max_tokens", "max_completion_tokens")
    )  # fmt: skip
    messages = [SimpleNamespace(role=role, content=role) for role in roles or ("user",)]
    return SimpleNamespace(**{**fields, "messages": messages, **given})


def converted(hooks: dict[str, Any], request: Any) -> Any:
    """The request as SGLang then renders it."""
    hooks[f"{CHAT}._convert_to_internal_request"](None, request, None)
    return request


class Server:
    """One batch in SGLang's scheduler, for requests that the tokenizer manager has let through."""

    def __init__(self, hooks: dict[str, Any], requests: list[Any]) -> None:
        self._hooks = hooks
        self.reqs = [self._scheduled(request) for request in requests]
        self._runner = SimpleNamespace(req_to_token_pool=SimpleNamespace(req_to_token=torch.zeros(9, 4)))
        self._places = torch.tensor([8, 3, 5])[: len(requests)]
        self.info = SimpleNamespace(device="cpu")
        self._hook("SamplingBatchInfo.adjusted_from_schedule_batch")(None, self.info, self, WIDTH)

    def _hook(self, name: str) -> Any:
        [hook] = [hook for path, hook in self._hooks.items() if path.endswith(name)]
        return hook

    def _scheduled(self, request: Any) -> Any:
        sampling = {"custom_params": request.custom_params}
        body = SimpleNamespace(custom_logit_processor=request.custom_logit_processor, sampling_params=sampling)
        arguments, config = SimpleNamespace(speculative_algorithm=None), SimpleNamespace(vocab_size=WIDTH)
        manager = SimpleNamespace(server_args=arguments, model_config=config)

        def refuse_processors(manager: Any, body: Any, input_ids: list[int]) -> None:
            assert body.custom_logit_processor is None  # the server is not started with the option for them

        self._hook("_validate_one_request")(refuse_processors, manager, body, [1])
        scheduled = SimpleNamespace(**vars(body) | {"sampling_params": SimpleNamespace(**sampling), "output_ids": []})
        self._hook("Req.__init__")(None, scheduled)
        assert scheduled.custom_logit_processor is None
        return scheduled

    def step(self, *tokens: int, decodes: bool = True) -> torch.Tensor:
        """What is added to the logits [requests, WIDTH] of the step that then chooses these tokens."""
        logits = torch.zeros(len(tokens), WIDTH)

        def sample(runner: Any, output: Any, batch: Any) -> torch.Tensor:
            self._hook("Sampler._preprocess_logits")(None, output.next_token_logits, batch.sampling_info)
            return torch.tensor(tokens)

        mode = SimpleNamespace(is_decode=lambda: decodes)
        batch = SimpleNamespace(sampling_info=self.info, req_pool_indices=self._places, forward_mode=mode)
        self._hook("ModelRunner.sample")(sample, self._runner, SimpleNamespace(next_token_logits=logits), batch)
        return logits


def test_a_chat_completion_without_any_parameters_is_steered(hooks: dict[str, Any]) -> None:
    # Given two clients that know nothing of steering, and one that wants none
    requests = [converted(hooks, request) for request in (chat(), chat(custom_params={}), chat("system", "user"))]
    server = Server(hooks, requests)
    # When each answer grows by these tokens, whose end of a turn is raised where a sentence has ended?
    answers = [(WORD, STOP, DIGIT, POINT), (STOP,) * 4, (POINT, WORD, STOP, WORD)]
    raised: list[list[float]] = [[], [], []]
    for number, tokens in enumerate([*zip(*answers, strict=True), (WORD,) * 3]):
        added = server.step(*tokens, decodes=number > 0)
        for row, found in zip(added, raised, strict=True):
            found.append(float(row[END]))
        # Then all other tokens have their deltas in every step, and an answer without steering has none
        expected = torch.zeros(WIDTH)
        expected[:TOKENS] = torch.from_numpy(biases_of(DELTAS, TOKENS))
        expected[END] = 0
        added[:, END] = 0
        assert torch.equal(added, torch.stack([expected, torch.zeros(WIDTH), expected]))
    high = DELTAS["0"]
    assert raised == [[0, 0, high, 0, 0], [0] * 5, [0, high, 0, high, 0]]


def test_the_system_prompt_is_for_clients_that_bring_none(hooks: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    def messages(request: Any) -> list[tuple[str, str]]:
        return [(one.role, one.content) for one in request.messages]

    request, prompted = converted(hooks, chat()), [("system", PROMPT), ("user", "user")]
    assert messages(request) == prompted
    assert is_cluster_bias(request.custom_logit_processor) and request.custom_params["clustering"] == HASH
    for own in ("system", "developer"):
        assert messages(converted(hooks, chat(own, "user"))) == [(own, own), ("user", "user")]
    # A system that is a prompt alone is served without steering
    (folder / "system.json").write_text(system_text(read_steering(tmp_path / "run", ONE_SENTENCE)))
    request = converted(registered(hooks), chat())
    assert messages(request) == prompted
    assert (request.custom_logit_processor, request.custom_params) == (None, None)


def test_requests_with_a_grammar_or_tools_and_those_that_choose_for_themselves_are_left_alone(
    hooks: dict[str, Any],
) -> None:
    json_answer = SimpleNamespace(type="json_object")
    alone: list[dict[str, Any]] = [
        {"regex": "a"}, {"ebnf": "a"}, {"response_format": json_answer}, {"tools": ["t"]}, {"input_ids": [1]},
        {"custom_params": {}}, {"custom_logit_processor": "x"},
    ]  # fmt: skip
    for fields in alone:
        before, request = vars(chat(**fields)), converted(hooks, chat(**fields))
        assert {**vars(request), "messages": len(request.messages)} == {**before, "messages": 1}
    request = converted(hooks, chat(response_format=SimpleNamespace(type="text"), tools=[]))
    assert is_cluster_bias(request.custom_logit_processor)


@pytest.mark.parametrize("damage", [{"deltas": [1.0]}, {"end": "never"}, {"clustering": "f" * 16}, {"model": {}}])
def test_a_server_with_a_damaged_system_does_not_start(
    hooks: dict[str, Any], folder: Path, damage: dict[str, Any]
) -> None:
    path = folder / "system.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    with pytest.raises(SystemExit, match=rf"{path} is no system: \w+: \S"):
        registered(hooks)


def test_a_server_of_another_model_does_not_start(hooks: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    def start_with(model: Path) -> None:
        made(None, SimpleNamespace(server_args=SimpleNamespace(model_path=str(model))), "arguments")

    made_for, other = tmp_path / "made for", tmp_path / "other"
    for number, model in enumerate((made_for, other)):
        model.mkdir()
        (model / "config.json").write_text(json.dumps({"hidden_size": 64 + number}))
    path = folder / "system.json"
    check = {"name": "ours", **model_hashes(str(made_for))}
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": check}))
    [made] = [hook for name, hook in registered(hooks).items() if name.endswith("TokenizerManager.__init__")]
    start_with(made_for)
    with pytest.raises(SystemExit, match=f"{other} is not ours, .* config"):
        start_with(other)
