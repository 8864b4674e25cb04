"""Tokens of projected volumes."""

from datetime import UTC, datetime, timedelta

from holdfast_local.agent.container.tokens import Token, token_request

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_renewal_is_due_at_80_percent_of_life() -> None:
    """Would break: a trainer whose token has ended."""
    assert Token("t", NOW, NOW + timedelta(seconds=600)).renew_at() == NOW + timedelta(seconds=480)


def test_renewal_is_due_after_a_day_at_most() -> None:
    """Would break: tokens of a year that are never renewed."""
    assert Token("t", NOW, NOW + timedelta(days=365)).renew_at() == NOW + timedelta(hours=24)


def test_a_token_is_bound_to_the_pod() -> None:
    """Would break: a token that outlives its pod."""
    pod = {"metadata": {"name": "p", "uid": "u", "namespace": "n"}}
    spec = token_request(pod, {"audience": "holdfast", "expirationSeconds": 600, "path": "token"})["spec"]
    assert spec["boundObjectRef"] == {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    assert (spec["audiences"], spec["expirationSeconds"]) == (["holdfast"], 600)
    assert "audiences" not in token_request(pod, {"path": "token"})["spec"]
