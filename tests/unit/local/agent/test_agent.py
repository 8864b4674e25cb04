"""One agent serves a folder; what it does there is tested on a control plane, in tests/integration/local."""

from pathlib import Path

import pytest

from holdfast_local.agent.agent import Agent
from holdfast_local.agent.config import AgentConfig
from holdfast_local.agent.errors import AgentError
from holdfast_local.locking import exclusive


async def test_a_second_agent_in_a_folder_is_refused(tmp_path: Path) -> None:
    """Breaks if two agents run the pods of the same nodes."""
    key = tmp_path / "key"
    agent = Agent(
        AgentConfig(
            root=tmp_path, server="https://127.0.0.1:1", ca_cert=key, client_cert=key, client_key=key,
            kubelet_cert=key, kubelet_key=key, nodes=(),
        )
    )  # fmt: skip
    with (
        exclusive(tmp_path / "agent.lock"),
        pytest.raises(AgentError, match=r"agent\.lock: another agent serves this folder"),
    ):
        await agent.run()
