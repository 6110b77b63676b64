"""The project's own client against the embedded server."""

from __future__ import annotations

import pytest
from embedded_server import CLUSTERING, CLUSTERS, KEY, TargetServer

from tasks.gpu.target import Generated, GenerateRequest, TargetClient, TargetRefused


def _request(number: int, deltas: tuple[float, ...], new: int = 6) -> GenerateRequest:
    return GenerateRequest(
        input_ids=(504, 3575, 282, number + 20),
        max_new_tokens=new,
        temperature=0.0,
        top_p=1.0,
        seed=1,
        stop_token_ids=(2,),
        rid=f"client-{number}",
        deltas=deltas,
        clustering=CLUSTERING,
    )


def test_answers_arrive_with_their_index_and_without_the_stop_token(target_server: TargetServer) -> None:
    # Given: individuals of which every second one ends at once.
    plain, ended = (0.0,) * CLUSTERS, (500.0,) + (0.0,) * (CLUSTERS - 1)
    requests = [_request(number, ended if number % 2 else plain) for number in range(20)]
    found: dict[int, Generated] = {}

    TargetClient(target_server.url, timeout_s=60, concurrency=8, api_key=KEY).generate_many(requests, found.__setitem__)

    assert sorted(found) == list(range(20))
    for number, answer in found.items():
        assert answer.prompt_tokens == 4
        assert answer.completion_tokens == len(answer.output_ids)
        if number % 2:
            assert (answer.finish, answer.output_ids, answer.text) == ("stop", (), "")


def test_a_refusal_carries_the_servers_reason(target_server: TargetServer) -> None:
    client = TargetClient(target_server.url, timeout_s=60, concurrency=4, api_key=KEY)
    with pytest.raises(TargetRefused, match="3 numbers, but the clustering has 6"):
        client.generate_many([_request(0, (0.0, 0.0, 0.0))], lambda *_: None)
