"""Every module has a test file of its own name in tests/unit, or a table here says where it is tested."""

from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("api", "cli", "core", "local", "runtime", "serve", "simulate")
AREAS = {area: ROOT / "operator/holdfast" / area for area in PACKAGES}
AREAS |= {"trainer": ROOT / "images/trainer/holdfast_train", "scripts": ROOT / "scripts"}

# Modules without a test file of their own: a pattern, why there is none, and where they are tested.
ELSEWHERE = (
    ("*/errors.py", "exceptions alone: the tests of what raises them expect them", "tests/unit"),
    ("api/names.py", "names alone: a wrong one is noticed by an API server", "tests/integration/api"),
    ("api/attempt.py", "fields of a status, read and written", "tests/unit/api/test_model.py"),
    ("api/status.py", "fields of a status, read and written", "tests/unit/api/test_model.py"),
    ("api/knowledge.py", "fields, filled from what was seen", "tests/unit/core/capacity/test_knowledge.py"),
    ("api/job.py", "good and bad manifests", "tests/unit/api/test_objects.py"),
    ("api/profile.py", "good and bad manifests", "tests/unit/api/test_objects.py"),
    ("api/trainer.py", "good and bad manifests", "tests/unit/api/test_objects.py"),
    ("cli/checkpoints/byte_stream.py", "what compares reads it", "tests/unit/cli/checkpoints/test_compare_bytes.py"),
    ("cli/checkpoints/*.py", "commands, typed and read", "tests/unit/cli/checkpoints/test_commands.py"),
    ("cli/cluster/*.py", "commands against an API server that answers as told", "tests/unit/cli/test_commands.py"),
    ("cli/demo/screen.py", "what is drawn", "tests/unit/cli/demo/test_shown.py"),
    ("cli/demo/summary.py", "what is drawn", "tests/unit/cli/demo/test_shown.py"),
    ("cli/demo/*.py", "the demo as a whole", "tests/e2e/test_demo.py"),
    ("cli/jobs/watch.py", "commands against an API server that answers as told", "tests/unit/cli/test_commands.py"),
    ("cli/operator.py", "what it releases, on a real control plane", "tests/integration/runtime/test_operator.py"),
    ("cli/ui/console.py", "every command prints with it", "tests/unit/cli/test_commands.py"),
    ("cli/ui/parsing.py", "options of simulate", "tests/unit/cli/test_simulate.py"),
    ("cli/version.py", "the command, typed", "tests/unit/cli/test_commands.py"),
    ("cli/why/*.py", "the command's answers", "tests/unit/cli/why/test_command.py"),
    ("core/attempt/*.py", "rows of the transition table", "tests/unit/core/test_table.py"),
    ("core/successor/*.py", "rows of the transition table", "tests/unit/core/test_table.py"),
    (
        "core/capacity/work_price.py",
        "policy Deadline's choices",
        "tests/unit/core/capacity/deadline/test_work_price.py",
    ),
    ("core/draft.py", "what a turn writes", "tests/unit/core/test_turn.py"),
    ("core/decision.py", "data: what is decided", "tests/unit/core/test_decide.py"),
    ("core/observe/raw.py", "times of observed pods", "tests/unit/core/observe/test_pods.py"),
    ("core/observe/verdict.py", "why an attempt ended", "tests/unit/core/attempt/test_why_ended.py"),
    ("core/observe/*.py", "data: what is given to the transition table", "tests/unit/core/test_table.py"),
    ("local/bringup.py", "a cluster whose parts are scripts", "tests/unit/local/test_cluster.py"),
    ("local/*.py", "a real control plane", "tests/integration/local/test_control_plane.py"),
    ("local/agent/*.py", "pods and nodes on a real control plane", "tests/integration/local"),
    ("local/agent/container/*.py", "pods on a real control plane", "tests/integration/local"),
    ("simulate/*.py", "jobs replayed in the virtual cluster", "tests/unit/simulate/test_replay.py"),
    ("trainer/commitlog/rules.py", "each record in each state", "tests/unit/trainer/commitlog/test_records.py"),
    ("trainer/exchange/*_files.py", "files written and read again", "tests/unit/trainer/exchange"),
    ("trainer/format/manifest.py", "written and read with a tree", "tests/unit/trainer/format/test_tree.py"),
    ("trainer/format/sealed_json.py", "what is read of it", "tests/unit/trainer/format/test_codec.py"),
    ("trainer/format/selection.py", "loading a part", "tests/unit/trainer/restore/test_load.py"),
    ("trainer/format/sharding.py", "trainings whose tensors are sharded", "tests/integration/trainer/test_exact.py"),
    ("trainer/progress.py", "the numbers that are reported", "tests/unit/trainer/pod/test_reporter.py"),
    ("trainer/restore/into_objects.py", "runs that go on", "tests/unit/trainer/run/test_run.py"),
    ("trainer/restore/*.py", "checkpoints, read", "tests/unit/trainer/restore/test_load.py"),
    ("trainer/save/*.py", "saves from the order to the commit", "tests/unit/trainer/save/test_saver.py"),
    ("trainer/storage/s3_download.py", "a real S3 server", "tests/integration/trainer/test_s3.py"),
    ("trainer/storage/*.py", "all storages do alike", "tests/unit/trainer/storage/test_base.py"),
    ("scripts/generate/checkpoint_examples.py", "a page has them", "tests/unit/scripts/generate/test_commands_page.py"),
    ("scripts/generate/grafana.py", "the dashboard it draws", "tests/unit/scripts/generate/test_dashboard.py"),
)


def without_a_test() -> list[str]:
    """Modules, as `area/path.py`, that have no test file of their own name."""
    found = []
    for area, folder in AREAS.items():
        for module in sorted(folder.rglob("*.py")):
            path = Path(area) / module.relative_to(folder)
            if (
                not path.stem.startswith("__")
                and not (ROOT / "tests/unit" / path.parent / f"test_{path.name}").exists()
            ):
                found.append(path.as_posix())
    return found


def test_every_module_has_a_test_or_says_where_it_is_tested() -> None:
    patterns = [pattern for pattern, _, _ in ELSEWHERE]
    assert [path for path in without_a_test() if not any(PurePosixPath(path).match(one) for one in patterns)] == []


@pytest.mark.parametrize(("pattern", "where"), [(pattern, where) for pattern, _, where in ELSEWHERE])
def test_the_table_is_true(pattern: str, where: str) -> None:
    assert any(PurePosixPath(path).match(pattern) for path in without_a_test()), "no module without a test is like that"
    assert (ROOT / where).exists()
