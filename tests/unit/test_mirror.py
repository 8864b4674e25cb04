"""Every module has a test file of its own name in tests/unit, or the list here says where it is tested."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("api", "cli", "core", "local", "runtime", "serve", "simulate")
AREAS = {area: ROOT / "operator/holdfast" / area for area in PACKAGES}
AREAS |= {"protocol": ROOT / "operator/protocol/holdfast_protocol"}
AREAS |= {"trainer": ROOT / "images/trainer/holdfast_train", "scripts": ROOT / "scripts"}


class Elsewhere(NamedTuple):
    """Modules of one folder without a test file of their own name: why, and the tests that cover them."""

    folder: str
    modules: str
    """Names, separated by spaces."""
    why: str
    where: str


EXCEPTIONS = "only exceptions: the tests of the code that raises them expect them"
FIELDS = "only fields of a status"
MANIFESTS = "tested with good and bad manifests"
TYPED = "a part of commands, which the tests type"
ROWS = "evidence and actions of rows of the transition table"
TRAINED = "trainings with the library itself"
STRANGERS = "programs without the library"
PANELS = "every panel and query is looked at"
PAGE = "sections of the page of a job"
PAGES = "what the pages show over HTTP"
SURVEYED = "data sets of each kind"
PODS = "a part of the node agent, which needs a control plane"

ELSEWHERE = (
    Elsewhere("api", "names", "only names: an API server refuses a wrong one", "tests/integration/api"),
    Elsewhere("api", "attempt status", FIELDS, "tests/unit/api/test_model.py"),
    Elsewhere("api", "knowledge", FIELDS, "tests/unit/core/capacity/test_knowledge.py"),
    Elsewhere("api", "data job profile trainer", MANIFESTS, "tests/unit/api/test_objects.py"),
    Elsewhere("cli", "errors", EXCEPTIONS, "tests/unit/cli/test_commands.py"),
    Elsewhere("cli", "operator", "the program, on a control plane", "tests/integration/runtime/test_operator.py"),
    Elsewhere("cli", "version", TYPED, "tests/unit/cli/test_commands.py"),
    Elsewhere("cli/checkpoints", "app completion list_command manifests", TYPED, "tests/unit/cli/checkpoints"),
    Elsewhere("cli/checkpoints", "choice", TYPED, "tests/unit/cli/checkpoints/export/test_export.py"),
    Elsewhere("cli/checkpoints/export", "command tensor_types", TYPED, "tests/unit/cli/checkpoints/export"),
    Elsewhere("cli/checkpoints", "compare diff_command byte_stream", TYPED, "tests/unit/cli/checkpoints"),
    Elsewhere("cli/checkpoints", "on_storage options pick screen survey", TYPED, "tests/unit/cli/checkpoints"),
    Elsewhere("cli/checkpoints", "prune_command retired", TYPED, "tests/unit/cli/checkpoints"),
    Elsewhere("cli/checkpoints", "show_command verify_command", TYPED, "tests/unit/cli/checkpoints"),
    Elsewhere("cli/checkpoints/branch", "pin_command", TYPED, "tests/unit/cli/checkpoints/branch"),
    Elsewhere("cli/cluster", "completion connect options", TYPED, "tests/unit/cli/test_commands.py"),
    Elsewhere("cli/demo", "stories", "scenes, which the script plays", "tests/unit/cli/demo/test_script.py"),
    Elsewhere("cli/demo", "bucket command errors logs play", "the demo as a whole", "tests/e2e/test_demo.py"),
    Elsewhere("cli/demo", "screen summary", "the lines that the demo prints", "tests/unit/cli/demo/test_shown.py"),
    Elsewhere("cli/jobs", "options request watch", TYPED, "tests/unit/cli/test_commands.py"),
    Elsewhere("cli/pages", "attempts inputs job_sections stored_job", PAGE, "tests/unit/cli/pages/test_job_page.py"),
    Elsewhere("cli/pages", "file", TYPED, "tests/unit/cli/report/test_report.py"),
    Elsewhere("cli/pages", "page", "only fields", "tests/unit/cli/pages/test_document.py"),
    Elsewhere("cli/plan", "as_json as_page comparison", TYPED, "tests/unit/cli/plan"),
    Elsewhere("cli/plan", "request screen values", TYPED, "tests/unit/cli/plan"),
    Elsewhere("cli/probe", "running target", TYPED, "tests/unit/cli/probe/test_command.py"),
    Elsewhere("cli/report", "command gather", TYPED, "tests/unit/cli/report/test_report.py"),
    Elsewhere("cli/storage", "in_thread options", TYPED, "tests/unit/cli/storage/test_history.py"),
    Elsewhere("cli/terminal", "parsing", TYPED, "tests/unit/cli/test_simulate.py"),
    Elsewhere("cli/ui", "actions cluster drawn job_view", PAGES, "tests/unit/cli/ui/test_app.py"),
    Elsewhere("cli/ui", "kept_list pulse readings views", PAGES, "tests/unit/cli/ui/test_app.py"),
    Elsewhere("cli/why", "as_json reading reasons screen", TYPED, "tests/unit/cli/why/test_command.py"),
    Elsewhere("core", "decision", "only fields", "tests/unit/core/test_decide.py"),
    Elsewhere("core", "draft", "what a turn writes", "tests/unit/core/test_turn.py"),
    Elsewhere("core", "errors", EXCEPTIONS, "tests/unit/core/test_decide.py"),
    Elsewhere("core/attempt", "drain pause", ROWS, "tests/unit/core/test_table.py"),
    Elsewhere("core/attempt", "start stuck suspend", ROWS, "tests/unit/core/test_table.py"),
    Elsewhere("core/capacity", "work_price", "choices of Deadline", "tests/unit/core/capacity/deadline"),
    Elsewhere("core/attempt", "meeting survivors", "several nodes", "tests/unit/core/test_several_nodes.py"),
    Elsewhere("core/observe", "config report snapshot", "only fields", "tests/unit/core/test_table.py"),
    Elsewhere("core/observe", "look", "what is seen of attempts", "tests/unit/core/observe/test_situation.py"),
    Elsewhere("core/observe", "raw", "times of observed pods", "tests/unit/core/observe/test_pods.py"),
    Elsewhere("core/observe", "verdict", "why an attempt ended", "tests/unit/core/attempt/test_why_ended.py"),
    Elsewhere("core/successor", "bring_up depart", ROWS, "tests/unit/core/test_table.py"),
    Elsewhere("local", "status", "on a control plane", "tests/integration/local/test_control_plane.py"),
    Elsewhere("local", "bringup", "a cluster whose parts are scripts", "tests/unit/local/test_cluster.py"),
    Elsewhere("local", "errors", EXCEPTIONS, "tests/unit/local/test_cluster.py"),
    Elsewhere("local/agent", "heartbeat node pod report server", PODS, "tests/integration/local"),
    Elsewhere("local/agent", "errors", EXCEPTIONS, "tests/unit/local/agent"),
    Elsewhere("local/agent/container", "container downward probes procfs", PODS, "tests/integration/local"),
    Elsewhere("runtime", "errors", EXCEPTIONS, "tests/unit/runtime"),
    Elsewhere("simulate", "errors", EXCEPTIONS, "tests/unit/simulate"),
    Elsewhere("simulate", "durations machines program storage world", "jobs replayed", "tests/unit/simulate"),
    Elsewhere("trainer", "errors", EXCEPTIONS, "tests/unit/trainer"),
    Elsewhere("trainer/pod/launcher/hang", "case keep", TRAINED, "tests/integration/trainer/faults/test_hang.py"),
    Elsewhere("trainer/pod/launcher/hang", "plain_ranks", STRANGERS, "tests/integration/trainer/strangers"),
    Elsewhere("trainer", "progress", "the numbers that are reported", "tests/unit/trainer/pod/test_reporter.py"),
    Elsewhere("trainer/census", "errors", EXCEPTIONS, "tests/unit/trainer/census"),
    Elsewhere("trainer/census", "folder manifest parquet", SURVEYED, "tests/unit/trainer/census/test_survey.py"),
    Elsewhere("trainer/census", "identical sample", SURVEYED, "tests/unit/trainer/census/test_survey.py"),
    Elsewhere("trainer/census", "coco_file twins", SURVEYED, "tests/unit/trainer/census/test_coco.py"),
    Elsewhere("trainer/census", "as_page", TYPED, "tests/unit/trainer/exchange/test_data_command.py"),
    Elsewhere("trainer/commitlog", "rules", "each record, each state", "tests/unit/trainer/commitlog/test_records.py"),
    Elsewhere("trainer/evaluation", "errors", EXCEPTIONS, "tests/unit/trainer/evaluation"),
    Elsewhere("trainer/evaluation", "comparison task", "of variants", "tests/unit/trainer/evaluation/test_measure.py"),
    Elsewhere("trainer/evaluation", "as_page", TYPED, "tests/unit/trainer/exchange/test_evaluate_command.py"),
    Elsewhere("trainer/estimate", "errors", EXCEPTIONS, "tests/unit/trainer/estimate/test_steps.py"),
    Elsewhere(
        "trainer/estimate", "document without_memory", "parts of steps", "tests/unit/trainer/estimate/test_steps.py"
    ),
    Elsewhere("trainer/exchange", "package_command", TYPED, "tests/integration/trainer/package/test_package.py"),
    Elsewhere(
        "trainer/exchange",
        "safetensors_files safetensors_layout torch_files",
        "written and read",
        "tests/unit/trainer/exchange",
    ),
    Elsewhere("trainer/format", "manifest", "written and read with a tree", "tests/unit/trainer/format/test_tree.py"),
    Elsewhere("trainer/format", "sealed_json", "what reads it", "tests/unit/trainer/format/test_codec.py"),
    Elsewhere("trainer/format", "selection", "loading a part", "tests/unit/trainer/restore/test_load.py"),
    Elsewhere("trainer/format", "sharding", "sharded trainings", "tests/integration/trainer/test_exact.py"),
    Elsewhere("trainer/frameworks", "prepared trainer_loop", TRAINED, "tests/integration/trainer/frameworks"),
    Elsewhere("trainer/package", "model_card variants versions", "real exports", "tests/integration/trainer/package"),
    Elsewhere("trainer/package", "record", "package.json of a build", "tests/unit/trainer/package/test_build.py"),
    Elsewhere("trainer/package", "errors", EXCEPTIONS, "tests/unit/trainer/package"),
    Elsewhere("trainer/package", "folder", "what is no package", "tests/unit/trainer/package/test_loader.py"),
    Elsewhere("trainer/restore", "into_objects", "runs that resume", "tests/unit/trainer/run/test_run.py"),
    Elsewhere("trainer/restore", "lazy_tensors restored", "loading", "tests/unit/trainer/restore/test_load.py"),
    Elsewhere("trainer/save", "writer", "saves up to the commit", "tests/unit/trainer/save/test_saver.py"),
    Elsewhere("trainer/storage", "checksums folder", "all storages behave alike", "tests/unit/trainer/storage"),
    Elsewhere("trainer/storage", "opening retrying", "all storages behave alike", "tests/unit/trainer/storage"),
    Elsewhere("trainer/storage", "s3_download", "a real S3 server", "tests/integration/trainer/test_s3.py"),
    Elsewhere("scripts/generate", "checkpoint_examples", "a page shows them", "tests/unit/scripts/generate"),
    Elsewhere("scripts/generate/dashboards", "fleet job operator panels", PANELS, "tests/unit/scripts/generate"),
)


def without_a_test() -> set[str]:
    """Modules, as `area/folder/name`, that have no test file of their own name."""
    found = set()
    for area, folder in AREAS.items():
        for module in folder.rglob("*.py"):
            path = Path(area) / module.relative_to(folder)
            test = ROOT / "tests/unit" / path.parent / f"test_{path.name}"
            if not path.stem.startswith("__") and not test.exists():
                found.add(path.with_suffix("").as_posix())
    return found


# Breaks if a module has neither a test file nor an entry, or has both, or if an entry names no module.
def test_every_module_has_a_test_file_or_an_entry() -> None:
    listed = Counter(f"{entry.folder}/{name}" for entry in ELSEWHERE for name in entry.modules.split())
    assert {name for name, times in listed.items() if times > 1} == set()
    assert without_a_test() == set(listed)


@pytest.mark.parametrize("where", sorted({entry.where for entry in ELSEWHERE}))
def test_the_tests_that_an_entry_names_exist(where: str) -> None:
    place = ROOT / where
    assert place.is_file() or any(place.rglob("test_*.py"))
