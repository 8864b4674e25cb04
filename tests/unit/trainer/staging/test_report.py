from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.stores import environment
from tests.support.waiting import wait_for

from holdfast_train.staging.copy import Counts
from holdfast_train.staging.report import StagingReporter


# Breaks if people see nothing while a terabyte is copied, or if it never ends.
def test_figures_are_reported_until_all_is_there(endpoint: Endpoint) -> None:
    counts, endpoint.every = Counts(), 0.1
    counts.total = 10
    reporter = StagingReporter(environment(None, 3, **endpoint.variables), counts)
    reporter.start()
    wait_for(lambda: len(endpoint.reports) > 1, 20, "two reports")
    counts.add(10)
    reporter.finish()
    first, last = endpoint.reports[0], endpoint.reports[-1]
    assert first["staging"] == {"bytes": 0, "total": 10, "over": False}
    assert last["staging"] == {"bytes": 10, "total": 10, "over": True}
    assert (last["attempt"], last["podUID"], last["state"]) == (3, "pod-3", "starting")


# Breaks if the program waits for an operator that is away.
def test_an_operator_that_is_away_changes_nothing(endpoint: Endpoint, capfd: object) -> None:
    gone = {**endpoint.variables, "operator_url": "https://127.0.0.1:1"}
    reporter = StagingReporter(environment(None, 1, **gone), Counts())
    reporter.start()
    reporter.finish()
    assert not reporter._thread.is_alive()
