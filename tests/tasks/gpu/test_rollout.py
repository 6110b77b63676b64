"""Candidates of a ticket: what is asked of the target, and what is kept of its answers."""

from __future__ import annotations

from typing import Any

from guided_job import TARGET, guided, job_in
from scripted_server import ScriptedHost, reply_of, server

from tasks.guide.jobs import ask_job, lengths_job, rollout_job
from tasks.guide.ticket import DecodeCell
from tasks.guide.work import ask_itself, prompt_lengths, roll_out
from tasks.store.store import Store

ASKED = ("Judge tickets.", "<|im_end|> is text here.")
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
CELL = DecodeCell(0.8, 0.95, 64, stop=("\n\n",))


def test_each_seed_is_one_candidate_in_the_order_of_the_seeds(store: Store) -> None:
    def answer(n: int, body: dict[str, Any]) -> tuple[int, Any]:
        seed = body["sampling_params"]["sampling_seed"]
        reason = {"type": "stop", "matched": "\n\n"} if seed == 4 else {"type": "length", "length": 2}
        return 200, reply_of([5, 6], reason) | {"text": f"seed {seed}"}

    with server(answer) as (url, seen):
        host: Any = ScriptedHost(url)
        result = roll_out(job_in(store, guided(), rollout_job(guided(), ASKED, CELL, (3, 4), "(a|b)", "t-1")), host)
    assert {str(identity) for _, identity in host.served} == {"{'version': '1'}"}
    assert result["answers"] == [
        {"text": "seed 3", "tokens": 2, "finish": "length"},
        {"text": "seed 4", "tokens": 2, "finish": "stop_string"},
    ]
    assert result["prompt_tokens"] == len(seen[0]["input_ids"])
    sampling = seen[0]["sampling_params"]
    assert (sampling["regex"], sampling["stop"], sampling["top_p"]) == ("(a|b)", ["\n\n"], 0.95)
    # The control token that the ticket writes is text: only the template ends turns, of system and user.
    assert seen[0]["input_ids"].count(2) == 2


def test_prompts_are_counted_before_anything_is_asked(store: Store) -> None:
    running = guided(target=TARGET.__class__(**{**TARGET.__dict__, "url": "http://127.0.0.1:9"}))
    prompts = [ASKED, ("Judge tickets.", "word " * 600)]
    with server(lambda *_: (500, {})) as (url, seen):
        host: Any = ScriptedHost(url)
        reported = prompt_lengths(job_in(store, running, lengths_job(running, prompts, "lengths")), host)
        configured = prompt_lengths(job_in(store, guided(), lengths_job(guided(), prompts, "lengths")), host)
    assert seen == []
    assert (reported["context"], configured["context"]) == (512, 8192)
    assert reported["tokens"] == configured["tokens"] and 600 < reported["tokens"][1] < 640


def test_the_target_criticises_itself_under_the_schema(store: Store) -> None:
    sampling = {"temperature": 0.2, "top_p": 0.9, "max_new_tokens": 64, "seed": 3}
    keyed = ask_job(guided(), "target", "critique", ASKED, SCHEMA, sampling, "critique-t-1-0")
    reply = reply_of([5, 6], {"type": "length", "length": 2}) | {"text": '{"ok": tr'}
    with server(lambda *_: (200, reply)) as (url, seen):
        host: Any = ScriptedHost(url)
        result = ask_itself(job_in(store, guided(), keyed), host)
    assert (result["text"], result["finish"], result["by"], result["tokens"]) == ('{"ok": tr', "length", "embedded", 2)
    assert result["usage"] == {"prompt": len(seen[0]["input_ids"]), "cached": 0, "completion": 2, "cost_usd": 0.0}
    assert seen[0]["sampling_params"]["json_schema"].startswith('{"type": "object"')
