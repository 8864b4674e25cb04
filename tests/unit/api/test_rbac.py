"""The operator's rights are no wider than they must be."""

from typing import Any

from holdfast.api.rbac import CLUSTER_RULES, NAMESPACE_RULES, manifests


def rules_for(rules: tuple[dict[str, Any], ...], resource: str) -> list[dict[str, Any]]:
    return [rule for rule in rules if resource in rule["resources"]]


def test_no_rule_has_a_wildcard() -> None:
    for rule in (*CLUSTER_RULES, *NAMESPACE_RULES):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


def test_secrets_are_out_of_reach_but_for_one_in_the_own_namespace() -> None:
    assert rules_for(CLUSTER_RULES, "secrets") == []
    for rule in rules_for(NAMESPACE_RULES, "secrets"):
        assert rule["verbs"] == ["create"] or rule["resourceNames"] == ["holdfast-serving"]
        assert not {"list", "watch", "delete"} & set(rule["verbs"])


def test_config_maps_of_others_cannot_be_read_or_changed() -> None:
    for rule in rules_for(CLUSTER_RULES, "configmaps"):
        assert rule["verbs"] == ["create"] or rule["resourceNames"] == ["holdfast-ca"]


def test_bindings_name_the_roles_and_the_account_of_their_namespace() -> None:
    objects = manifests("prod")
    account, cluster_role, cluster_binding, role, binding = objects
    assert account["metadata"] == role["metadata"] == binding["metadata"]
    assert cluster_binding["roleRef"]["name"] == cluster_role["metadata"]["name"]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "holdfast"}
    for bound in (cluster_binding, binding):
        assert bound["subjects"] == [{"kind": "ServiceAccount", "name": "holdfast", "namespace": "prod"}]


def test_two_installations_do_not_share_a_cluster_role() -> None:
    names = {item["metadata"]["name"] for ns in ("a", "b") for item in manifests(ns) if item["kind"] == "ClusterRole"}
    assert len(names) == 2


def test_the_operator_may_do_what_it_does_and_nothing_else() -> None:
    may = {
        (group, resource, verb, *rule.get("resourceNames", ()))
        for rule in (*CLUSTER_RULES, *NAMESPACE_RULES)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert may == {
        *(("holdfast.dev", "trainingjobs", verb) for verb in ("get", "list", "watch", "delete")),
        ("holdfast.dev", "trainingjobs/status", "patch"),
        *(("holdfast.dev", "capacityprofiles", verb) for verb in ("list", "watch")),
        ("holdfast.dev", "capacityprofiles/status", "patch"),
        *(("", "pods", verb) for verb in ("get", "list", "watch", "create", "patch", "delete")),
        *(("", "nodes", verb) for verb in ("list", "watch")),
        *(("", "events", verb) for verb in ("list", "create", "patch")),
        ("", "configmaps", "create"),
        *(("", "configmaps", verb, "holdfast-ca") for verb in ("get", "patch", "delete")),
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
        ("coordination.k8s.io", "leases", "create"),
        *(("coordination.k8s.io", "leases", verb, "holdfast") for verb in ("get", "update")),
        ("", "secrets", "create"),
        ("", "secrets", "get", "holdfast-serving"),
    }
