"""Jobs of a study under Holdfast's own policies, in the virtual cluster and beside the small economy."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from holdfast.core.capacity.deadline import deadline
from holdfast_cli.simulate.traces import Trace
from holdfast_research import trial
from holdfast_research.economy import Market, Outcome, Setting, playback
from holdfast_research.economy import run as run_rule
from holdfast_research.synthetic import comb, siren, sniper, weather, zones

HOUR = 3600.0
SETTING = Setting(work=24 * HOUR, deadline=32 * HOUR, changeover=1200.0)
UP = Trace("up", 600, b"\1" * 1000)


def run(setting: Setting = SETTING, *markets: Trace | Market, policy: str = "deadline") -> Outcome:
    spots = (Decimal(1),) * len(markets)
    return trial.run(replace(setting, spot_prices=spots), markets, trial.OWN[policy])


# Breaks if starts, work or their prices differ from what the economy bills.
@pytest.mark.parametrize("policy", trial.OWN)
def test_where_there_is_nothing_to_choose_the_world_costs_what_the_economy_does(policy: str) -> None:
    outcome = run(SETTING, UP, policy=policy)
    assert (outcome.cost, outcome.moves, outcome.interruptions) == (pytest.approx(24 + 1 / 3, abs=1e-4), 1, 0)


def test_interruptions_cost_the_work_that_the_setting_says() -> None:
    lossy = replace(SETTING, lost=600.0)
    trace = comb(400, 12, 3)
    mild, hard = run(SETTING, trace), run(lossy, trace)
    assert mild.interruptions and hard.cost > mild.cost
    assert not (mild.missed or hard.missed)


# Breaks if the code that ships differs from the rule alone: the economy shares no code with either.
@pytest.mark.parametrize(("billed", "within"), [(False, 0.02), (True, 0.03)])
def test_deadline_costs_in_the_world_what_its_rule_costs_in_the_economy(billed: bool, within: float) -> None:
    setting = replace(SETTING, billed_probe=billed)
    traces = [weather(seed, 400) for seed in range(8)]
    world = sum(run(setting, trace).cost for trace in traces)
    economy = sum(run_rule(deadline, [playback(trace)], setting).cost for trace in traces)
    assert world == pytest.approx(economy, rel=within)


# Breaks if the ledger forgets a node or counts it twice: the world has its own bill.
@pytest.mark.parametrize("billed", [False, True])
@pytest.mark.parametrize("policy", trial.OWN)
def test_the_ledger_is_what_the_nodes_cost(policy: str, billed: bool) -> None:
    setting = replace(SETTING, billed_probe=billed, lost=600.0)
    made = trial.world(setting, [weather(3, 400)], trial.OWN[policy])
    status = made.run(timedelta(days=9))
    had = [one for one in made.bill if not one.idle]
    assert float(status.ledger.spent) == pytest.approx(float(sum(one.cost for one in had)), abs=1e-4 * len(had))
    for tier in status.ledger.by_tier:
        hours = sum((one.until - one.since).total_seconds() for one in had if one.tier == tier.tier) / HOUR
        assert float(tier.node_hours) == pytest.approx(hours, abs=1e-5 * len(had))
    assert billed or not [one for one in made.bill if one.idle], "nodes that stand are nobody's to pay for"


# Breaks if a market can make a job late: it dies after every start, looks dependable until the job comes, or flaps.
@pytest.mark.parametrize("lost", [0.0, 600.0])
@pytest.mark.parametrize(
    "market",
    [
        lambda: sniper(0, 1), lambda: sniper(0, 9), lambda: sniper(600, 2), lambda: siren(0, 1), lambda: siren(2, 1),
        lambda: siren(3, 20), lambda: comb(400, 1, 1), lambda: comb(400, 2, 1), lambda: comb(400, 5, 9),
    ],
)  # fmt: skip
@pytest.mark.parametrize("load", [0.7, 0.93])
def test_hostile_markets_make_no_job_late(market: Callable[[], Trace | Market], lost: float, load: float) -> None:
    for billed in (False, True):
        setting = replace(SETTING, work=6 * HOUR, deadline=6 * HOUR / load // 1, lost=lost, billed_probe=billed)
        outcome = run(setting, market())
        assert not outcome.missed, f"late by {outcome.late:.0f} s"


def test_zones_are_used_together() -> None:
    several = zones(1, 400, 3)
    outcome = run(SETTING, *several)
    three = replace(SETTING, spot_prices=(Decimal(1),) * 3)
    assert outcome.cost == pytest.approx(run_rule(deadline, list(map(playback, several)), three).cost, rel=0.05)
    assert {"spot-0", "spot-1", "spot-2"} < outcome.hours.keys()


# Breaks if an outage of all zones seems young because one of them was not observed, or was asked again just now.
@pytest.mark.parametrize("billed", [False, True])
def test_a_job_does_not_wait_for_ever_where_every_zone_is_out(billed: bool) -> None:
    zone = bytes([1] * 12 + [0] * 60 + [1] * 300)
    setting = replace(SETTING, deadline=27 * HOUR, billed_probe=billed)
    outcome = run(setting, *[Trace(f"zone-{number}", 600, zone) for number in range(3)])
    waited = outcome.finished / HOUR - sum(outcome.hours.values())
    assert waited < 0.75, f"the job had no node for {waited:.1f} h"
    assert not outcome.missed


# Breaks if the zones are asked in turn for ever: when the third one is refused, the first refusal is forgotten.
@pytest.mark.parametrize("count", [2, 3, 7])
def test_dedicated_is_taken_if_every_zone_is_out(count: int) -> None:
    setting = replace(SETTING, work=2 * HOUR, deadline=4 * HOUR, billed_probe=True)
    outcome = run(setting, *[Trace(f"out-{n}", 600, bytes(1000)) for n in range(count)], policy="cheapest")
    assert outcome.hours == {"dedicated": pytest.approx(2 + 1 / 3, abs=0.01)}
    assert outcome.finished <= 2 * HOUR + 1200 + count * 600 + 10


def test_the_same_again_is_the_same() -> None:
    assert run(SETTING, weather(5, 400)) == run(SETTING, weather(5, 400))


def test_a_setting_that_the_cluster_cannot_have_is_refused() -> None:
    for setting in (replace(SETTING, changeover=lambda _move: 1.0), replace(SETTING, spot_speeds=(2.0,))):
        with pytest.raises(ValueError, match="a changeover is one number, and all tiers are of one speed"):
            run(setting, UP)
