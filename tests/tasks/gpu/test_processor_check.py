"""The check of a model, as every generated file has it: by the files of a folder, and by the answers of a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from http_thread import http_server

from tasks.gpu.processor_check import (
    CannotAsk,
    differing_files,
    is_same_answer,
    model_hashes,
    server_of,
    verify,
)

CONFIG = {"hidden_size": 576, "torch_dtype": "float32", "transformers_version": "5.0"}
TOKENIZER = {"model": {"vocab": {"a": 0}}, "truncation": None}
ANSWERS = [{"prompt": [i, 7], "text": f"Answer {i}, and more", "tokens": 8} for i in range(20)]


def folder_of(path: Path, config: dict[str, Any] = CONFIG, tokenizer: dict[str, Any] = TOKENIZER) -> str:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    return str(path)


def check_of(folder: str) -> dict[str, Any]:
    return {"name": "small", **model_hashes(folder), "stops": [2], "answers": ANSWERS, "min_new_tokens": 0}


def test_copies_of_a_model_have_the_same_hashes(tmp_path: Path) -> None:
    check = check_of(folder_of(tmp_path / "a"))
    resaved = {"transformers_version": "6.0", "torch_dtype": "bfloat16", "_name_or_path": "/b", "hidden_size": 576}
    copy = folder_of(tmp_path / "b", resaved, {**TOKENIZER, "truncation": {"max_length": 8}})
    assert differing_files(check, copy) == []
    assert differing_files(check, folder_of(tmp_path / "c", {**CONFIG, "hidden_size": 960})) == ["config"]
    other = folder_of(tmp_path / "d", {"hidden_size": 1}, {"model": {"vocab": {"b": 0}}})
    assert differing_files(check, other) == ["config", "tokenizer"]
    # what is not on this machine is not compared
    assert differing_files(check, "some/model") == []
    assert model_hashes("some/model") == {"config": "", "tokenizer": ""}


def test_a_tokenizer_without_tokenizer_json(tmp_path: Path) -> None:
    for name, files in {"sentencepiece": ["tokenizer.model"], "pairs": ["vocab.json", "merges.txt"]}.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).write_text('{"a": 0}')
        first = model_hashes(str(tmp_path / name))["tokenizer"]
        (tmp_path / name / files[-1]).write_text('{"a": 1}')
        assert len(first) == 64 and model_hashes(str(tmp_path / name))["tokenizer"] not in (first, "")


@pytest.mark.parametrize(
    ("expected", "text", "same"),
    [
        ("The total is 4 million.", "The total is 4", True),
        ("The total is 4 million.", " The total is 4 million.\n", True),
        ("The total is 4 million.", "The total is 5", False),
        ("Yes.", "Yes. The total", False),
        ("It costs 5 €", "It costs 5 \ufffd", True),
        ("Yes.", "", False),
        ("", "", True),
        ("", "Yes.", False),
    ],
)
def test_an_answer_is_the_same_as_far_as_it_was_asked_for(expected: str, text: str, same: bool) -> None:
    assert is_same_answer(expected, text) is same


Routes = dict[str, Callable[[Any], Any]]


@pytest.fixture
def serve() -> Iterator[Callable[[Routes], str]]:
    """Starts servers of routes, each a function from a body to a reply; answers the URL."""
    servers = ExitStack()

    def start(routes: Routes) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(None)

            def do_POST(self) -> None:
                self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def answer(self, body: Any) -> None:
                status = 200 if self.path in routes else 404
                if self.headers["Authorization"] != "Bearer k":
                    status = 401
                reply = json.dumps(routes[self.path](body) if status == 200 else {"error": "no"}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

        return servers.enter_context(http_server(Handler))

    with servers:
        yield start


def sglang(folder: str, wrong: int = 0) -> Routes:
    """A server that knows the answers, but for the first `wrong` ones, when it is steered."""

    def generate(body: Any) -> Any:
        assert body["sampling_params"] == {"temperature": 0, "max_new_tokens": 8, "stop_token_ids": [2]}
        number = body["input_ids"][0]
        right = number >= wrong and body.get("custom_logit_processor") == "p"
        return {"text": f"Answer {number}," if right else "Something else"}

    return {"/model_info": lambda _: {"model_path": folder}, "/generate": generate}


def openai(name: str) -> Routes:
    def complete(body: Any) -> Any:
        assert (body["model"], body["max_tokens"], body["stop_token_ids"]) == (name, 8, [2])
        return {"choices": [{"text": f" Answer {body['prompt'][0]},"}]}

    return {"/v1/models": lambda _: {"data": [{"id": name, "root": "/models/x"}]}, "/v1/completions": complete}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_API_KEY", "k")
    monkeypatch.setenv("no_proxy", "*")


STEERED = {"custom_logit_processor": "p"}


def test_a_server_of_each_protocol_is_accepted(tmp_path: Path, serve: Callable[[Routes], str]) -> None:
    folder = folder_of(tmp_path / "a")
    url = serve(sglang(folder))
    files = "its configuration and tokenizer are the same, and "
    said = "accepted: here has small: {}20 of 20 answers are the same"
    assert verify(check_of(folder), "here", *server_of(url, STEERED)) == (0, said.format(files))
    url = serve(openai("x"))
    assert verify(check_of(folder), "here", *server_of(f"{url}/v1/", {})) == (0, said.format(""))


def test_the_least_number_of_tokens_is_sent_by_each_protocols_name(
    tmp_path: Path, serve: Callable[[Routes], str]
) -> None:
    # Given servers that keep what they are asked, and a check whose answers had at least so many tokens
    asked: list[Any] = []

    def answer(body: Any) -> Any:
        asked.append(body.get("sampling_params", body))
        return {"text": "", "choices": [{"text": ""}]}

    servers = (
        serve({**sglang(""), "/generate": answer}),
        serve({**openai("x"), "/v1/completions": answer}),
    )
    check = check_of(folder_of(tmp_path / "a"))
    for least, sent in ((5, 5), (14, 8), (0, None)):  # no more than is asked for: 8 tokens
        for name, url in zip(("min_new_tokens", "min_tokens"), servers, strict=True):
            asked.clear()
            verify({**check, "min_new_tokens": least}, "here", *server_of(url, {}))
            # Then each request has it, and where it is 0 none has
            assert {body.get(name) for body in asked} == {sent} and len(asked) == 20
            assert all((name in body) == bool(least) for body in asked)


def test_a_quarter_of_the_answers_may_be_others(tmp_path: Path, serve: Callable[[Routes], str]) -> None:
    check = check_of(folder_of(tmp_path / "a"))
    for wrong, status, word in ((5, 0, "accepted: here has small: 15 of 20"), (6, 1, "this file: 14 of 20")):
        found, line = verify(check, "here", *server_of(serve(sglang("", wrong)), STEERED))
        assert found == status and word in line


def test_other_files_are_refused_without_a_question(tmp_path: Path, serve: Callable[[Routes], str]) -> None:
    check, other = check_of(folder_of(tmp_path / "a")), folder_of(tmp_path / "b", {"hidden_size": 1})
    routes = {"/get_model_info": lambda _: {"model_path": other}}
    line = "refused: here has not small: its config is not the same"
    assert verify(check, "here", *server_of(serve(routes), {})) == (1, line)


def test_a_server_that_does_not_steer_is_refused(tmp_path: Path, serve: Callable[[Routes], str]) -> None:
    status, line = verify(check_of(folder_of(tmp_path / "a")), "here", *server_of(serve(sglang("")), {}))
    assert status == 1 and "or does not steer it with this file: 0 of 20" in line


def test_what_cannot_be_asked_says_why(
    tmp_path: Path, serve: Callable[[Routes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = check_of(folder_of(tmp_path / "a"))
    with pytest.raises(CannotAsk, match="holds no answers"):
        verify({**check, "answers": []}, "here", *server_of(serve(sglang("")), {}))
    with pytest.raises(CannotAsk, match="neither the routes of SGLang nor those of OpenAI"):
        server_of(serve({}), {})
    with pytest.raises(CannotAsk, match="Connection refused"):
        server_of("http://127.0.0.1:9", {})
    with pytest.raises(CannotAsk, match="unknown url type"):
        server_of("here", {})
    # a program that answers everything, in a way of its own
    with pytest.raises(CannotAsk, match="replies without 'data': "):
        server_of(serve({"/model_info": lambda _: [], "/v1/models": lambda _: {"object": "error"}}), {})
    with pytest.raises(CannotAsk, match="replies without 0: "):
        server_of(serve({"/v1/models": lambda _: {"data": []}}), {})
    for reply in ({"error": "no"}, [1], "text"):
        ask, _ = server_of(
            serve({"/model_info": lambda _: {"model_path": ""}, "/generate": lambda _, reply=reply: reply}), {}
        )
        with pytest.raises(CannotAsk, match="replies without 'text': "):
            verify(check, "here", ask, "")
    monkeypatch.setenv("SERVER_API_KEY", "wrong")
    with pytest.raises(CannotAsk, match="HTTP 401; SERVER_API_KEY holds the key"):
        server_of(serve(sglang("")), {})
