"""A verdict follows from the recorded attempt and the error, and from nothing else."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import InvalidDuration, InvalidInput
from tenure.model.retry import ONE_ATTEMPT, GiveUp, Retry, RetryIn


@given(
    st.integers(1, 50),
    st.integers(1, 2000),
    st.integers(1, 100_000),
    st.sampled_from([1, 1.5, 2, 10]),
)
def test_waits_follow_the_formula(attempt: int, initial: int, maximum: int, multiplier: float) -> None:
    retry = Retry(None, f"{initial}ms", f"{maximum}ms", multiplier)
    verdict = retry.verdict(attempt, ValueError())
    wait = min(maximum / 1000, initial / 1000 * multiplier ** (attempt - 1))
    assert isinstance(verdict, RetryIn)
    assert abs(verdict.delay.total_seconds() - wait) < 1e-5
    assert retry.verdict(attempt, ValueError()) == verdict


def test_attempts_count_the_first_one() -> None:
    retry = Retry(attempts=3)
    assert [retry.verdict(attempt, ValueError()) for attempt in (1, 2, 3, 4)] == [
        RetryIn(timedelta(seconds=1)),
        RetryIn(timedelta(seconds=2)),
        GiveUp("attempt 3 of 3 was the last"),
        GiveUp("attempt 4 of 3 was the last"),
    ]
    assert isinstance(ONE_ATTEMPT.verdict(1, ValueError()), GiveUp)


def test_only_listed_errors_are_retried() -> None:
    retry = Retry(retry_on=LookupError, give_up_on=(KeyError,))
    assert isinstance(retry.verdict(1, IndexError()), RetryIn)
    assert retry.verdict(1, KeyError()) == GiveUp("KeyError is not retried")
    assert retry.verdict(1, ValueError()) == GiveUp("ValueError is not retried")
    assert isinstance(Retry().verdict(1, KeyboardInterrupt()), GiveUp)


@given(st.integers(1, 20))
def test_jitter_only_adds(attempt: int) -> None:
    verdict = Retry(None, "1s", "8s", jitter="500ms").verdict(attempt, ValueError())
    assert isinstance(verdict, RetryIn)
    least = timedelta(seconds=min(8, 2 ** (attempt - 1)))
    assert least <= verdict.delay <= least + timedelta(milliseconds=500)


def test_no_number_of_attempts_overflows() -> None:
    assert Retry(None).verdict(10**6, ValueError()) == RetryIn(timedelta(minutes=1))


def test_policies_compare_by_what_they_say() -> None:
    assert Retry(attempts=2) == Retry(attempts=2) != Retry(attempts=3)
    assert hash(Retry()) == hash(Retry())


@pytest.mark.parametrize(
    ("given_as", "error"),
    [
        ({"attempts": 0}, InvalidInput),
        ({"attempts": True}, InvalidInput),
        ({"multiplier": 0.5}, InvalidInput),
        ({"multiplier": float("nan")}, InvalidInput),
        ({"retry_on": ("ValueError",)}, InvalidInput),
        ({"give_up_on": int}, InvalidInput),
        ({"initial": "soon"}, InvalidDuration),
        ({"maximum": -1}, InvalidDuration),
        ({"jitter": "1"}, InvalidDuration),
    ],
)
def test_a_wrong_policy_is_an_error_where_it_is_written(
    given_as: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match="Retry"):
        Retry(**given_as)
