"""What a process has with its target server."""

from tasks.gpu.server_stats import ServerStats


def test_requests_are_in_flight_from_their_beginning_to_their_end() -> None:
    traffic = ServerStats()
    with traffic.request(), traffic.request():
        assert traffic.in_flight == 2
    assert traffic.in_flight == 0


def test_a_request_that_fails_is_not_in_flight_any_more() -> None:
    traffic = ServerStats()
    try:
        with traffic.request():
            raise ConnectionError
    except ConnectionError:
        assert traffic.in_flight == 0


def test_tokens_of_the_last_ten_seconds_count() -> None:
    now = [100.0]
    traffic = ServerStats(lambda: now[0])
    traffic.answered("a", 300)
    now[0] = 108.0
    traffic.answered("a", 100)
    assert traffic.tokens_a_second() == 40
    now[0] = 111.0
    assert traffic.tokens_a_second() == 10


def test_an_answer_speaks_for_its_server_for_a_while_and_until_one_fails() -> None:
    now = [0.0]
    traffic = ServerStats(lambda: now[0])
    assert not traffic.was_alive("a", 20)
    traffic.answered("a", 1)
    now[0] = 19.0
    assert traffic.was_alive("a", 20) and not traffic.was_alive("b", 20)
    traffic.doubt("a")
    assert not traffic.was_alive("a", 20)
    traffic.alive("a")
    now[0] = 40.0
    assert not traffic.was_alive("a", 20)
