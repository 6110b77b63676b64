"""What a process has with its target server."""

from tasks.gpu.traffic import Traffic


def test_requests_are_in_flight_from_their_beginning_to_their_end() -> None:
    traffic = Traffic()
    with traffic.request(), traffic.request():
        assert traffic.in_flight == 2
    assert traffic.in_flight == 0


def test_a_request_that_fails_is_not_in_flight_any_more() -> None:
    traffic = Traffic()
    try:
        with traffic.request():
            raise ConnectionError
    except ConnectionError:
        assert traffic.in_flight == 0


def test_tokens_of_the_last_ten_seconds_count() -> None:
    now = [100.0]
    traffic = Traffic(lambda: now[0])
    traffic.answered(300)
    now[0] = 108.0
    traffic.answered(100)
    assert traffic.tokens_a_second() == 40
    now[0] = 111.0
    assert traffic.tokens_a_second() == 10
