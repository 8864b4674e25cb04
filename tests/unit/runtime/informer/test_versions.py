from tests.support.operator.fake_api_server import raw_job

from holdfast.runtime.informer.versions import Versions, version_of


def test_only_newer_versions_are_taken() -> None:
    versions = Versions()
    assert [versions.accept(raw_job(version=number)) for number in (5, 5, 4, 6)] == [True, False, False, True]
    assert version_of({"metadata": {}}) == 0


def test_a_deleted_object_comes_back_in_a_newer_version_alone() -> None:
    versions = Versions()
    versions.accept(raw_job(version=5))
    assert versions.record_deletion(("ns", "a"), "u1", 7)
    assert not versions.record_deletion(("ns", "a"), "u1", 7)
    assert [versions.accept(raw_job(version=number)) for number in (6, 7, 8)] == [False, False, True]


def test_an_object_that_was_not_found_comes_back_in_the_same_version() -> None:
    versions = Versions()
    versions.accept(raw_job(version=5))
    versions.forget(("ns", "a"), "another")
    assert not versions.accept(raw_job(version=5))
    versions.forget(("ns", "a"), "u1")
    assert versions.accept(raw_job(version=5))


def test_a_list_shows_as_deleted_what_it_lacks_and_what_is_not_newer() -> None:
    versions = Versions()
    for number, version in enumerate((5, 6, 9)):
        versions.accept(raw_job(f"j{number}", f"u{number}", version))
    assert versions.missing({"u0"}, 7) == [(("ns", "j1"), "u1")]
