"""What a job needs to find in its namespace."""

from tests.support.manifests.good_manifests import GOOD, changed

from holdfast.api.objects import TrainingJob
from holdfast_cli.check.referenced_objects import CREDENTIALS, Reference, references

KEY = {"name": "a", "key": "k", "optional": True}


def test_every_reference_is_found() -> None:
    change = {
        "spec/trainer/env": [
            {"name": "A", "valueFrom": {"secretKeyRef": KEY}},
            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "b", "key": "k"}}},
            {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "D", "value": "1"},
        ],
        "spec/trainer/envFrom": [{"secretRef": {"name": "c"}}, {"configMapRef": {"name": "d"}}],
        "spec/trainer/volumes": [
            {"name": "a", "mountPath": "/a", "secret": {"secretName": "e", "optional": True}},
            {"name": "b", "mountPath": "/b", "configMap": {"name": "f"}},
            {"name": "c", "mountPath": "/c", "persistentVolumeClaim": {"claimName": "g"}},
            {"name": "d", "mountPath": "/d", "emptyDir": {}},
        ],
        "spec/trainer/imagePullSecrets": [{"name": "h"}],
        "spec/checkpoint/storage/s3/credentialsSecret": "i",
        "spec/checkpoint/storage/s3/ca": {"configMap": {"name": "j"}},
        "spec/trainer/data": [{"from": "s3://a/b", "to": "/e", "s3": {"ca": {"secret": {"name": "k", "key": "l"}}}}],
    }
    trainer = "spec.trainer"
    assert list(references(TrainingJob.parse(changed(GOOD, change)).spec)) == [
        Reference(f"{trainer}.env[0].valueFrom.secretKeyRef", "Secret", "a", ("k",), optional=True),
        Reference(f"{trainer}.env[1].valueFrom.configMapKeyRef", "ConfigMap", "b", ("k",)),
        Reference(f"{trainer}.envFrom[0].secretRef", "Secret", "c"),
        Reference(f"{trainer}.envFrom[1].configMapRef", "ConfigMap", "d"),
        Reference(f"{trainer}.volumes[0].secret", "Secret", "e", optional=True),
        Reference(f"{trainer}.volumes[1].configMap", "ConfigMap", "f"),
        Reference(f"{trainer}.volumes[2].persistentVolumeClaim", "PersistentVolumeClaim", "g"),
        Reference(f"{trainer}.imagePullSecrets[0]", "Secret", "h"),
        Reference(f"{trainer}.data[0].s3.ca.secret", "Secret", "k", ("l",)),
        Reference("spec.checkpoint.storage.s3.credentialsSecret", "Secret", "i", CREDENTIALS),
        Reference("spec.checkpoint.storage.s3.ca.configMap", "ConfigMap", "j", ("ca.crt",)),
    ]


def test_a_claim_for_checkpoints_is_one() -> None:
    job = TrainingJob.parse(changed(GOOD, {"spec/checkpoint/storage": {"volumeClaim": {"name": "runs", "path": "a"}}}))
    assert list(references(job.spec)) == [
        Reference("spec.checkpoint.storage.volumeClaim", "PersistentVolumeClaim", "runs")
    ]
