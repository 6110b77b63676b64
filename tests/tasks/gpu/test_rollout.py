"""Candidates of a ticket: what is asked of the target, and what is kept of its answers."""

from __future__ import annotations

from typing import Any

from guided_job import guided, job_in
from scripted_server import ScriptedHost, reply_of, server

from tasks.guide.jobs import ask_job, lengths_job, rollout_job
from tasks.guide.ticket import DecodeCell
from tasks.guide.work import ask_itself, prompt_lengths, roll_out
from tasks.store.store import Store

ASKED = ("Judge tickets.", "<|im_end|> is text here.")
SAMPLING = {"temperature": 0.2, "top_p": 0.9, "max_new_tokens": 64, "seed": 3}
CELL = DecodeCell(0.8, 0.95, 64, stop=("\n\n",))


def test_each_seed_is_one_candidate_in_the_order_of_the_seeds_and_the_target_criticises_itself(store: Store) -> None:
    def answer(n: int, body: dict[str, Any]) -> tuple[int, Any]:
        seed = body["sampling_params"]["sampling_seed"]
        reason = {"type": "stop", "matched": "\n\n"} if seed == 4 else {"type": "length", "length": 2}
        return 200, reply_of([5, 6], reason) | {"text": f"seed {seed}"}

    with server(answer) as (url, seen):
        host: Any = ScriptedHost(url)
        result = roll_out(job_in(store, guided(), rollout_job(guided(), ASKED, CELL, (3, 4), "(a|b)", "t-1")), host)
        lengths = prompt_lengths(job_in(store, guided(), lengths_job(guided(), [ASKED], "lengths")), host)
        keyed = ask_job(guided(), "target", "critique", ASKED, {"type": "object"}, SAMPLING, "critique-t-1-0")
        critique = ask_itself(job_in(store, guided(), keyed), host)
    assert {str(identity) for _, identity in host.served} == {"{'version': '1'}"}
    assert result["answers"] == [
        {"text": "seed 3", "tokens": 2, "finish": "length"},
        {"text": "seed 4", "tokens": 2, "finish": "stop_string"},
    ]
    assert [result["prompt_tokens"]] == lengths["tokens"] == [len(seen[0]["input_ids"])]
    sampling = seen[0]["sampling_params"]
    assert (sampling["regex"], sampling["stop"], sampling["top_p"]) == ("(a|b)", ["\n\n"], 0.95)
    # The control token that the ticket writes is text: only the template ends turns, of system and user.
    assert seen[0]["input_ids"].count(2) == 2
    assert [critique[name] for name in ("text", "finish", "by", "tokens")] == ["seed 3", "length", "embedded", 2]
    assert seen[2]["sampling_params"]["json_schema"] == '{"type": "object"}'
