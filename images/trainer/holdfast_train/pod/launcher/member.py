"""What one node of several is told by its environment, and what the program gets for one attempt. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast_protocol import settings, variables
from holdfast_protocol.member import MemberOrder

from .connection import Target

# Options of torchrun that say where the nodes meet or how many there are, also inside a command for a shell.
_REFUSED = re.compile(
    r"(?:^|\s)(--(?:standalone|nnodes|node[-_]rank|max[-_]restarts|rdzv[-_](?:backend|conf|endpoint|id)|master[-_](?:addr|port)))(?=[=\s]|$)"
)
_REFUSED_VARIABLES = (variables.STANDALONE, "PET_RDZV_ENDPOINT", "PET_MAX_RESTARTS")


class Member(NamedTuple):
    """One node: its `rank` among `nodes`, its pod, and the endpoint that it asks."""

    nodes: int
    rank: int
    address: str
    pod_uid: str
    target: Target


def read_member(environment: Mapping[str, str]) -> Member:
    """The member that the operator's variables describe. ValueError names the variable that is missing or wrong."""

    def required(name: str) -> str:
        if not environment.get(name):
            raise ValueError(f"{name} is not set; it is required if {variables.NODES} is above 1")
        return environment[name]

    def number(name: str, least: int, most: int) -> int:
        text = required(name)
        if not re.fullmatch(r"\d{1,9}", text) or not least <= int(text) <= most:
            raise ValueError(f"{name} is {text!r}; allowed: a whole number from {least} to {most}")
        return int(text)

    nodes = number(variables.NODES, 1, 10**9)
    target = Target.of(settings.read(environment), required(variables.NAMESPACE), required(variables.JOB))
    if not target.url:
        raise ValueError(f"{variables.SETTINGS} has no operatorUrl; it is required if {variables.NODES} is above 1")
    rank = number(variables.RANK, 0, nodes - 1)
    return Member(nodes, rank, required(variables.POD_IP), required(variables.POD_UID), target)


def why_refused(command: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Why this command cannot run on several nodes, None if it can.

    The launcher says where the nodes meet, for each attempt again, and restarts them all together.
    """
    found = _REFUSED.search(" ".join(command))
    if found is not None:
        return f"the command has the option {found[1]}; leave it out: with several nodes Holdfast sets what is needed"
    name = next((name for name in _REFUSED_VARIABLES if environment.get(name)), None)
    if name is not None:
        return f"the variable {name} is set; leave it out: with several nodes Holdfast sets what is needed"
    return None


def attempt_variables(environment: Mapping[str, str], member: Member, order: MemberOrder) -> dict[str, str]:
    """The program's environment for the attempt that `order` starts."""
    port, rank, nodes = str(order.port), str(member.rank), str(member.nodes)
    found = {name: value for name, value in environment.items() if name != variables.PREDECESSOR}
    found |= {
        variables.ATTEMPT: str(order.attempt),
        variables.SEVERAL: nodes,
        variables.RANK_OF_NODE: rank,
        "PET_MASTER_ADDR": order.address,
        "PET_MASTER_PORT": port,
        "PET_RDZV_BACKEND": "static",
        "MASTER_ADDR": order.address,
        "MASTER_PORT": port,
        "GROUP_RANK": rank,
    }
    if order.predecessor is not None:
        found[variables.PREDECESSOR] = str(order.predecessor)
    if variables.is_one_process(environment):  # the program needs no torchrun: it is the rank of its node
        found |= {"RANK": rank, "WORLD_SIZE": nodes, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    return found
