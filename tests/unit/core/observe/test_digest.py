"""What stands for names in the status of a profile."""

from holdfast.core.observe.digest import digest


def test_a_profile_names_no_namespace():
    """Breaks if all users of the cluster can read the names of namespaces in a profile."""
    assert "vision" not in digest("vision")
    assert digest("vision") != digest("language")
    assert len(digest("vision")) == 16
