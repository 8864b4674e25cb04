"""The settings of a job, from its manifest to what the program in its pod reads."""

from dataclasses import replace

import pytest
from tests.support.decisions.snapshots import CONFIG, attempt, job, tier
from tests.support.trainer.pod_settings import settings_of

from holdfast.core.observe.config import OperatorConfig
from holdfast.core.pod_manifest import build_pod
from holdfast_protocol.settings import Every, Keep, Settings, Spike, Stall


def told(config=CONFIG, **changes) -> Settings:
    pod = build_pod(job(**changes), attempt(3, tier=tier()), config, 7200.4)
    (trainer,) = pod["spec"]["containers"]
    (init,) = pod["spec"]["initContainers"]
    assert settings_of(init) == settings_of(trainer)
    return settings_of(trainer)


def test_of_a_job_that_sets_little() -> None:
    assert told() == Settings(
        grace=100.0,
        operator_url="https://holdfast.test:8443",
        token_file="/holdfast/token/token",
        ca_file="/holdfast/ca/ca.crt",
        checkpoint_uri="s3://runs/vision/vit",
        checkpoint_region="us-east-1",
        every=Every(seconds=600.0, mean_time_between_interruptions=7200.0),
        keep=Keep(3, logs=True),
        non_finite="Rollback",
        slow_window=300.0,
        stall=Stall(),
    )


STORAGE = {"s3": {"bucket": "runs", "prefix": "p", "endpoint": "https://s3.test", "credentialsSecret": "keys"}}
GANG = {"image": "registry.example/train:1", "command": ["x"], "nodes": 4}
KEEP = {"last": 2, "every": "24h", "logs": False, "best": {"count": 3, "metric": "eval/accuracy", "mode": "Max"}}


def test_checkpoints() -> None:
    rest = {"every": "auto", "maxLostWork": "1d1h", "keep": KEEP, "uploadRate": "0.3G", "peers": True}
    config = replace(CONFIG, gates=frozenset({"PeerCopies"}))
    found = told(
        config, checkpoint={"storage": STORAGE, "resume": {"from": "file:///a", "only": ["m"]}, **rest}, trainer=GANG
    )
    assert found.every == Every(max_lost_work=90000.0, mean_time_between_interruptions=7200.0)
    assert found.keep == Keep(2, 86400.0, 3, "eval/accuracy", "Max")
    assert (found.upload_rate, found.peers, found.resume, found.resume_only) == (300_000_000, True, "file:///a", ("m",))
    assert (found.checkpoint_endpoint, found.keys_folder) == ("https://s3.test", "/holdfast/keys")
    assert told(checkpoint={"storage": STORAGE, "every": "500 steps"}).every.steps == 500


def test_a_folder() -> None:
    given = {"storage": STORAGE, "folder": "/outputs", "pattern": "run-*"}
    found = told(checkpoint=given)
    assert (found.folder, found.folder_pattern) == ("/outputs", "run-*")
    assert (found.folder_exclude, found.folder_put_back) == ((), "All")
    found = told(checkpoint={**given, "exclude": ["*.log", "wandb"], "putBack": "Newest"})
    assert (found.folder_exclude, found.folder_put_back) == (("*.log", "wandb"), "Newest")


# Breaks if copies are sent to other nodes although no administrator has turned that on.
def test_gates() -> None:
    peers = {"checkpoint": {"storage": STORAGE, "peers": True}, "trainer": GANG}
    assert (told(**peers).peers, told(**peers).gates) == (False, ())
    config = replace(CONFIG, gates=frozenset({"PeerCopies", "NcclRas"}))
    assert (told(config, **peers).peers, told(config, **peers).gates) == (True, ("NcclRas", "PeerCopies"))


# Breaks if a job that the API takes has settings that its pods refuse.
@pytest.mark.parametrize(("rate", "told_rate"), [("1M", 10**6), ("1000000.5", 10**6), ("16Ei", 2**53 - 1)])
def test_any_rate_that_a_job_may_have(rate: str, told_rate: int) -> None:
    assert told(checkpoint={"storage": STORAGE, "uploadRate": rate}).upload_rate == told_rate


def test_the_longest_texts_that_a_job_may_have() -> None:
    """Breaks as above, or if the variable is too long for Linux, which takes 128 KiB."""
    storage = {"s3": {"bucket": "b" * 63, "prefix": "p" * 512, "endpoint": f"https://{'e' * 504}"}}
    resume = {"from": f"file:///{'a' * 1016}", "only": [f"m{n:062}" for n in range(16)]}
    data = [{"from": f"s3://data/{'p' * 589}", "to": f"/{n}{'d' * 510}"} for n in range(8)]
    patterns = ["\N{GRINNING FACE}" * 250 + "{step}"] * 8
    pod = build_pod(
        job(
            checkpoint={
                "storage": storage, "resume": resume, "folder": f"/{'f' * 511}", "pattern": "*" * 256,
                "exclude": ["*" * 256] * 64,
            },
            trainer={"image": "registry.example/train:1", "command": ["x"], "data": data},
            progress={"patterns": patterns},
        ),
        attempt(3, tier=tier()), CONFIG, 7200.0,
    )  # fmt: skip
    (container,) = pod["spec"]["containers"]
    assert settings_of(container).patterns == tuple(patterns)
    (text,) = [one["value"] for one in container["env"] if one["name"] == "HOLDFAST_SETTINGS"]
    assert len(text) < 64 * 1024


def test_a_volume() -> None:
    found = told(checkpoint={"storage": {"volumeClaim": {"name": "disk", "path": "runs/vit"}}})
    assert (found.checkpoint_uri, found.checkpoint_region) == ("file:///holdfast/checkpoints/runs/vit", None)


# Breaks if a hang is looked for in another way than the job wants, or ranks compare themselves although it does not.
@pytest.mark.parametrize(
    ("failure", "stall", "window"),
    [
        ({"stallTimeout": "20m"}, Stall(1200.0), 300.0),
        ({"stallTimeout": "Off"}, None, 300.0),
        ({"slowRanks": {"action": "Tell", "window": "90s"}}, Stall(), 90.0),
        ({"slowRanks": {"action": "Ignore"}}, Stall(), None),
    ],
)
def test_failures(failure, stall, window) -> None:
    found = told(failure=failure)
    assert (found.stall, found.slow_window) == (stall, window)
    assert told(failure={"spike": {"steps": 3}}).spike == Spike(10, 3, 200)


# Breaks if Kubernetes changes a value on its way to the pod: it puts variables in for $(NAME), and makes $ of $$.
def test_patterns_reach_the_launcher_as_they_are() -> None:
    given = ("tqdm", "$(HOME) {step}", "$$(HOME) $$ {step}", 'a "b" \\$(HOME) {step}')
    pod = build_pod(job(progress={"patterns": list(given)}), attempt(3, tier=tier()), CONFIG, 7200.0)
    (container,) = pod["spec"]["containers"]
    assert settings_of(container).patterns == given
    (text,) = [one["value"] for one in container["env"] if one["name"] == "HOLDFAST_SETTINGS"]
    assert "$" not in text


def test_without_an_operator_url_nothing_is_reported() -> None:
    assert told(config=OperatorConfig(progress_url=None)).operator_url is None


def test_a_job_may_have_no_process_that_waits() -> None:
    assert told(trainer=GANG).warm_start
    assert not told(trainer={**GANG, "warmStart": False}).warm_start
