"""The dashboards as files. `make crds` writes them into the chart."""

import json

from scripts.generate.dashboards.fleet import FLEET
from scripts.generate.dashboards.job import ONE_JOB
from scripts.generate.dashboards.operator import OPERATOR

ALL = (FLEET, ONE_JOB, OPERATOR)


def files() -> dict[str, str]:
    """Name of each file -> its content, in the JSON form that Grafana imports."""
    return {f"{one.uid}.json": json.dumps(one.json(), indent=2) + "\n" for one in ALL}
