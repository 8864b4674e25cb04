"""What a node of several is told, which commands are refused, and what a program gets."""

from collections.abc import Mapping

import pytest
from tests.support.trainer.pod_settings import pod_variables

from holdfast_protocol.member import MemberOrder
from holdfast_train.pod.launcher.member import Member, attempt_variables, read_member, why_refused

POD = pod_variables(
    {},
    HOLDFAST_NODES="4",
    HOLDFAST_RANK="2",
    HOLDFAST_POD_IP="10.0.0.3",
    HOLDFAST_POD_UID="uid",
    operator_url="https://holdfast:8443",
    HOLDFAST_NAMESPACE="ns",
    HOLDFAST_JOB="job",
    token_file="/token",
)


def test_member() -> None:
    found = read_member(POD)
    assert found[:4] == (4, 2, "10.0.0.3", "uid")
    assert found.target == ("https://holdfast:8443", "ns", "job", "/token", None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDFAST_NODES", "four"),
        ("HOLDFAST_NODES", "0"),
        ("HOLDFAST_RANK", "4"),
        ("HOLDFAST_RANK", "-1"),
        ("HOLDFAST_POD_IP", ""),
        ("HOLDFAST_SETTINGS", "{}"),
        ("HOLDFAST_JOB", ""),
    ],
)
def test_a_wrong_variable_is_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=name):
        read_member({**POD, name: value})


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("torchrun", "--standalone", "train.py"), "--standalone"),
        (("torchrun", "--nnodes=2", "train.py"), "--nnodes"),
        (("torchrun", "--nnodes", "1:4", "train.py"), "--nnodes"),
        (("torchrun", "--node_rank=0", "train.py"), "--node_rank"),
        (("torchrun", "--rdzv-endpoint=host:29400", "train.py"), "--rdzv-endpoint"),
        (("torchrun", "--rdzv_backend", "c10d", "train.py"), "--rdzv_backend"),
        (("torchrun", "--master-port=29500", "train.py"), "--master-port"),
        (("torchrun", "--max-restarts=3", "train.py"), "--max-restarts"),
        (("bash", "-c", "cd /app && torchrun --master_addr $A train.py"), "--master_addr"),
        (("torchrun", "--nproc-per-node=8", "train.py"), None),
        (("torchrun", "train.py", "--nodes=3", "--standalone-eval", "--masters"), None),
        (("torchrun", "train.py", "--master-weights", "fp32", "--master_dtype=bf16", "--rdzv-like"), None),
        (("python", "train.py"), None),
    ],
)
def test_options_that_say_where_the_nodes_meet(command: tuple[str, ...], option: str | None) -> None:
    why = why_refused(command, {})
    assert why is None if option is None else f" {option};" in (why or "")


@pytest.mark.parametrize("name", ["PET_STANDALONE", "PET_RDZV_ENDPOINT", "PET_MAX_RESTARTS"])
def test_variables_that_say_where_the_nodes_meet(name: str) -> None:
    assert name in (why_refused(["torchrun"], {name: "1"}) or "")


def variables(order: MemberOrder, **more: str) -> Mapping[str, str]:
    member = read_member(POD)
    assert isinstance(member, Member)
    return attempt_variables({**POD, "HOLDFAST_ATTEMPT": "3", "HOLDFAST_PREDECESSOR": "2", **more}, member, order)


# Breaks if a program has the number of the attempt that created its pod, or waits for a predecessor of another attempt.
def test_the_program_gets_the_attempt_and_the_place() -> None:
    found = variables(MemberOrder("start", 9, "10.0.0.1", 4711, None))
    assert (found["HOLDFAST_ATTEMPT"], found.get("HOLDFAST_PREDECESSOR")) == ("9", None)
    assert (found["PET_NNODES"], found["PET_NODE_RANK"], found["PET_RDZV_BACKEND"]) == ("4", "2", "static")
    for prefix in ("PET_", ""):
        assert (found[f"{prefix}MASTER_ADDR"], found[f"{prefix}MASTER_PORT"]) == ("10.0.0.1", "4711")
    assert variables(MemberOrder("start", 9, "10.0.0.1", 4711, 8))["HOLDFAST_PREDECESSOR"] == "8"


# Breaks if a program that starts several processes by itself takes its node for one rank.
def test_the_ranks_only_if_a_node_has_one() -> None:
    ranks = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    order = MemberOrder("start", 9, "10.0.0.1", 4711)
    assert ranks.items() <= variables(order).items()
    assert ranks.items() <= variables(order, PET_NPROC_PER_NODE="1").items()
    assert not ranks.keys() & variables(order, PET_NPROC_PER_NODE="8").keys()
    assert variables(order, PET_NPROC_PER_NODE="8")["GROUP_RANK"] == "2"
