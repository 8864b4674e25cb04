"""`python -m holdfast_local.agent --root ROOT`: run the node agent in the foreground, logging to standard error."""

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from pydantic import ValidationError

from holdfast_local.agent.agent import Agent
from holdfast_local.agent.config import AgentConfig
from holdfast_local.agent.errors import AgentError


def main() -> int:
    """Run until SIGTERM; 0 after a graceful stop, 1 for an error of this machine, 2 for a wrong configuration."""
    parser = argparse.ArgumentParser(prog="python -m holdfast_local.agent", description=__doc__)
    parser.add_argument(
        "--root", type=Path, required=True, help="folder of the local cluster; agent.json is read there"
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(Agent(AgentConfig.load(arguments.root)).run())
    except ValidationError as err:
        return _end(2, f"agent.json cannot be used: {err}")
    except (AgentError, OSError) as err:
        return _end(1, f"the agent ends: {err}")
    return 0


def _end(code: int, message: str) -> int:
    logging.getLogger(__name__).error(message)
    return code


if __name__ == "__main__":
    sys.exit(main())
