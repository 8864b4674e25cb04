"""The frame of live pages, and the actions that a page offers."""

import re
from typing import Any

import pytest
from tests.support.manifests.observed_jobs import running_job

from holdfast.api.profile import Tier
from holdfast_cli.pages.frame import Frame, actions, framed
from holdfast_cli.pages.page import Fragment, Page
from holdfast_model.pages.template import Markup

PAGE = Page("Jobs", (Fragment("head", Markup("<h1>Jobs</h1>")), Fragment("table", Markup())))


def possible(html: str) -> set[str]:
    """The actions whose button can be pressed."""
    return set(re.findall(r'data-opens="ask-(\w+)">', html))


@pytest.mark.parametrize(
    ("status", "spec", "expected"),
    [({}, {}, {"checkpoint", "move", "suspend"}), ({"phase": "Starting"}, {}, {"move", "suspend"}),
     ({"phase": "Suspended"}, {"suspend": True}, {"resume"}), ({"phase": "Completed", "current": None}, {}, set()),
     ({"phase": "Failed", "current": None}, {}, set())],
)  # fmt: skip
def test_only_what_is_possible_can_be_asked(status: dict[str, Any], spec: dict[str, Any], expected: set[str]) -> None:
    assert possible(actions(running_job(status, **spec), (), ())) == expected


def test_a_move_offers_tiers_and_with_several_nodes_the_nodes() -> None:
    one, tiers = running_job(), [Tier(name="spot", kind="Spot"), Tier(name="cpu", kind="CPU")]
    assert '<option value="cpu">' in actions(one, tiers, ["n1"])
    assert 'name="node"' not in actions(one, tiers, ["n1"])
    four = running_job(trainer={"image": "x", "command": ["y"], "nodes": 4})
    assert '<option value="n1">' in actions(four, tiers, ["n1"])
    assert '<option value="n1">' not in actions(running_job({"current": None}, trainer={
        "image": "x", "command": ["y"], "nodes": 4}), tiers, ["n1"])  # fmt: skip


def test_every_action_asks_before_it_is_done() -> None:
    html = actions(running_job(), (), ())
    assert html.count("<dialog") == html.count('method="post"') == html.count("data-closes") == 3
    assert " open" not in re.sub(r'"[^"]*"', "", html)


def test_the_frame_has_a_skip_link_first_and_marks_the_page() -> None:
    html = framed(PAGE, Frame("/jobs", "all", stamp="s")).fragments[0].html
    assert html.startswith('<a class="skip" href="#head">')
    assert '<a href="/jobs" aria-current="page">' in html
    assert '<a href="/jobs" aria-current="true">' in framed(PAGE, Frame("/jobs/demo/a", "all")).fragments[0].html
