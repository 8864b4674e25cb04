"""What `holdfast check` says of a field that needs a feature gate."""

from tests.support.decisions.snapshots import job

from holdfast_cli.check.feature_gates import check_gates
from holdfast_cli.check.findings import Report


def test_copies_on_other_nodes_need_their_gate() -> None:
    found = {}
    for peers in (False, True):
        report = Report("job")
        checkpoint = {"storage": {"s3": {"bucket": "runs", "prefix": "p"}}, "peers": peers}
        check_gates(job(trainer={"image": "i", "command": ["x"], "nodes": 2}, checkpoint=checkpoint), report)
        found[peers] = [(one.field, one.message) for one in report.findings]
    assert found[False] == []
    ((field, message),) = found[True]
    assert field == "spec.checkpoint.peers"
    assert "unless an administrator sets featureGates.PeerCopies" in message
