"""What can be said of a manifest without a cluster. The table of bad manifests is in test_objects."""

from tests.support.manifests.good_manifests import GOOD, REMOVED, changed

from holdfast.api.review import is_ours, review, unknown_fields

SCHEMA = {
    "properties": {
        "metadata": {},
        "spec": {
            "properties": {
                "steps": {"type": "integer"},
                "labels": {"additionalProperties": {"properties": {"a": {}}}},
                "list": {"items": {"properties": {"name": {}}}},
            }
        },
    }
}


def test_unknown_fields_are_found_at_every_depth() -> None:
    raw = {
        "metadata": {"anything": 1},
        "spec": {"step": 1, "labels": {"x": {"b": 1}}, "list": [{"name": 1}, {"nam": 2}], "zzz": 1},
        "top": 1,
    }
    found = {problem.field: problem.hint for problem in unknown_fields(raw, SCHEMA)}
    assert found == {
        "spec.step": "did you mean steps?",
        "spec.labels.x.b": "allowed are a",
        "spec.list[1].nam": "did you mean name?",
        "spec.zzz": "allowed are labels, list, steps",
        "top": "allowed are metadata, spec",
    }


def test_an_object_in_the_place_of_text_is_refused() -> None:
    (problem,) = review(changed(GOOD, {"spec/checkpoint/every": {"steps": 5}}))
    assert problem.line == "spec.checkpoint.every: {'steps': 5}: must be a string"


def test_values_of_the_wrong_kind_are_left_to_the_models() -> None:
    assert list(unknown_fields({"spec": [1], "metadata": None}, SCHEMA)) == []
    assert list(unknown_fields({"spec": {"list": {"name": 1}, "labels": 3}}, SCHEMA)) == []


def test_other_kinds_and_versions_are_named() -> None:
    assert "must be TrainingJob or CapacityProfile" in review({**GOOD, "kind": "Job"})[0].line
    assert "must be holdfast.dev/v1alpha1" in review({**GOOD, "apiVersion": "holdfast.dev/v9"})[0].line
    assert is_ours({"apiVersion": "holdfast.dev/v9"})
    assert not is_ours({"apiVersion": "v1"})
    assert not is_ours({})


def test_a_generated_name_counts_as_a_name() -> None:
    assert review(changed(GOOD, {"metadata/name": REMOVED, "metadata/generateName": "sweep-"})) == ()
