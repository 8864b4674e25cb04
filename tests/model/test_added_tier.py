"""One more tier in the grid does not make a job expensive, and never late: a small part of tests.model.added_tier."""

from datetime import timedelta

from tests.model import added_tier

from holdfast.api.objects import TrainingJob
from holdfast.api.scalars import format_time
from holdfast_cli.simulate.durations import Durations
from holdfast_cli.simulate.machines import Spell
from holdfast_cli.simulate.replay import Node, Schedule, replay
from holdfast_cli.simulate.world import BEGIN
from holdfast_research.economy import Outcome

SEEDS = range(1, 7)
USUAL = ("slow cheap Spot (T4)", "half as fast expensive Spot", "very slow cheap Spot")
OTHERS = ("half as fast dedicated", "very fast very expensive dedicated")
NOISE = 0.03  # of so few jobs


# Breaks if slack is ignored when a tier is chosen: a slow tier uses it up, and dedicated nodes make up for that.
def test_one_more_spot_tier_does_not_make_jobs_expensive():
    found = added_tier.measure(added_tier.drawn, SEEDS, tiers=USUAL, loads=(0.3, 0.85))
    ratios = {(name, load): added_tier.ratio(found, name, load) for name in USUAL for load in (0.3, 0.85)}
    assert max(ratios.values()) <= added_tier.LIMIT + NOISE, ratios
    assert ratios["slow cheap Spot (T4)", 0.3] < 0.9, "where there is time, it saves money"
    assert added_tier.late(found) == 0


# Breaks if a job with time to wait takes expensive Spot.
def test_expensive_spot_is_left_alone_where_there_is_time():
    found = added_tier.measure(added_tier.drawn, SEEDS, tiers=("expensive Spot",), loads=(0.3,))
    assert added_tier.ratio(found, "expensive Spot", 0.3) <= added_tier.LIMIT + NOISE
    assert added_tier.late(found) == 0


# Breaks if slack is counted on another dedicated tier than the one that the job would really use.
def test_one_more_dedicated_tier_does_not_make_jobs_expensive():
    found = added_tier.measure(added_tier.drawn, SEEDS, tiers=OTHERS, loads=(0.5, 0.92))
    ratios = {(name, load): added_tier.ratio(found, name, load) for name in OTHERS for load in (0.5, 0.92)}
    assert max(ratios.values()) <= added_tier.LIMIT + NOISE, ratios
    assert added_tier.late(found) == 0


PRICES = {"spot": "1.02", "slow-spot": "0.19", "dedicated": "3.06"}
DEADLINE = timedelta(days=3.5)  # the steps take 2.8 days on the fast tiers


def cost(*tiers: str) -> float:
    """What a job pays that knows no pace beforehand, where the fast Spot tier is out for the first three hours."""
    grid = [
        {
            "name": name,
            "kind": "Dedicated" if name == "dedicated" else "Spot",
            "accelerator": "nvidia.com/gpu",
            "acquireTimeout": "2m",
            "pricePerNodeHour": PRICES[name],
            "nodeSelector": {"tier": name},
        }
        for name in tiers
    ]
    spec = {
        "trainer": {"image": "example/train", "command": ["train"]},
        "capacity": {"policy": "Deadline", "deadline": format_time(BEGIN + DEADLINE), "tiers": grid},
        "checkpoint": {"storage": {"volumeClaim": {"name": "claim", "path": "job"}}, "gracePeriod": "1m"},
        "goal": {"steps": 20_000},
    }
    job = TrainingJob.parse({"metadata": {"name": "job", "namespace": "team", "uid": "u"}, "spec": spec})
    late = Spell(timedelta(hours=3))
    nodes = [Node(name, f"{name}-0", *([(late,)] if name == "spot" else [])) for name in tiers]
    times = {name: Durations(pace=timedelta(seconds=30 if name == "slow-spot" else 12)) for name in tiers}
    world = replay(job, Schedule(nodes, every=50, limit=timedelta(days=30)), times)
    assert world.now - BEGIN < DEADLINE
    return float(world.status.ledger.spent)


# Breaks if a job that begins on the slow tier assumes that the fast Spot tier is as slow, and never tries it.
def test_a_slow_tier_whose_pace_nobody_stated_does_not_make_the_job_expensive():
    assert cost("spot", "slow-spot", "dedicated") <= cost("spot", "dedicated") * added_tier.LIMIT


# Breaks if a name has a comma: --tiers separates names with commas.
def test_each_tier_can_be_named_on_the_command_line():
    assert not [name for name in added_tier.TIERS if "," in name]


def test_the_program_says_which_tier_makes_jobs_expensive(capsys, monkeypatch):
    cheap, expensive = Outcome(cost=1.0), Outcome(cost=1.5)
    monkeypatch.setattr(added_tier, "measure", lambda *_args, **_given: {("", 0.5): [cheap], ("CPU", 0.5): [expensive]})
    assert added_tier.main(["--markets", "1", "--tiers", "CPU"]) == 1
    assert "1 jobs for each load; highest 1.500; late: 0" in capsys.readouterr().out
