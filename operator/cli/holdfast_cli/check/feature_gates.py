"""Fields that need a feature gate, which only an administrator turns on."""

from holdfast.api.objects import TrainingJob
from holdfast_cli.check.findings import Report
from holdfast_protocol.gates import PEER_COPIES


def check_gates(job: TrainingJob, report: Report) -> None:
    """Warn of what does nothing while its gate is off. A manifest does not say how the operator is installed."""
    if job.spec.checkpoint.peers:
        name = PEER_COPIES.name
        report.warn(
            "spec.checkpoint.peers",
            f"it needs the gate {name}, which is off unless an administrator sets featureGates.{name}: without it the"
            " training runs without these copies, and the condition FeatureOff of the job says so",
        )
