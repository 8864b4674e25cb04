"""Write every generated file, or with --check fail if a file is out of date.

crds/*.yaml                        from operator/holdfast/api
charts/holdfast/files/rbac.yaml    from operator/holdfast/api/rbac.py
charts/holdfast/files/dashboards/  from scripts/generate/dashboards
docs/reference/api.md              from operator/holdfast/api
docs/reference/cli.md              from the help texts of the commands
docs/reference/decisions.md        from operator/holdfast/core
docs/reference/environment.md      from operator/protocol
docs/how-to/k9s.md                 its views.yaml, from operator/holdfast/api/objects.py
docs/reference/metrics.md          its table of the metrics of jobs, from operator/holdfast/serve
operator/holdfast/api/figure_fields.py  from operator/protocol
docs/reference/for-programs.md     from the commands, their exit codes and the phases
docs/reference/python.md           from the docstrings of operator/cli/holdfast_cli/client
docs/reference/protocol.md          its tables of documents, from operator/protocol
docs/reference/proved.md           its table of feature gates, from operator/protocol
docs/reference/public-programs.md  its table of verdicts, and that of tests/zoo/README.md, from tests/zoo
"""

import difflib
import os
import sys
from pathlib import Path

import yaml
from scripts.generate import (
    commands_page,
    decisions_page,
    document_tables,
    environment_page,
    figure_fields,
    gates_table,
    k9s_views,
    metrics_page,
    programs_page,
    public_programs,
    python_page,
)
from scripts.generate import fields_page as fields
from scripts.generate.dashboards import files as dashboards

from holdfast.api import crds, rbac

ROOT = Path(__file__).resolve().parents[2]
HOME = Path("/home/you")
DECISIONS_HEADER = "<!-- Generated from operator/holdfast/core by `make crds`. Do not edit. -->\n"
RULES_HEADER = "# Generated from operator/holdfast/api/rbac.py by `make crds`. Do not edit.\n"


def commands() -> str:
    """The command reference. Defaults in it must not depend on this machine, its user or its environment."""
    for name in [name for name in os.environ if name.startswith(("HOLDFAST_", "XDG_"))]:
        del os.environ[name]
    os.environ["HOME"] = str(HOME)
    return commands_page.markdown().replace(str(HOME), "~")


def rules() -> str:
    """The operator's rights in the form that the chart reads: `clusterRules`, `karpenterRules`, `namespaceRules`."""
    text = {
        "clusterRules": list(rbac.CLUSTER_RULES),
        "karpenterRules": list(rbac.KARPENTER_RULES),
        "namespaceRules": list(rbac.NAMESPACE_RULES),
    }
    return RULES_HEADER + yaml.safe_dump(text, sort_keys=False, width=120)


def files() -> dict[Path, str]:
    """Path -> content of every generated file."""
    made: dict[Path, str] = {}
    for name, text in crds.files().items():
        made[ROOT / "crds" / name] = text
    made[ROOT / "charts" / "holdfast" / "files" / "rbac.yaml"] = rules()
    for name, text in dashboards.files().items():
        made[ROOT / "charts" / "holdfast" / "files" / "dashboards" / name] = text
    made[ROOT / "docs" / "reference" / "api.md"] = fields.text()
    made[ROOT / "docs" / "reference" / "cli.md"] = commands()
    made[ROOT / "docs" / "reference" / "decisions.md"] = DECISIONS_HEADER + decisions_page.render()
    made[ROOT / "docs" / "reference" / "environment.md"] = environment_page.text()
    k9s = ROOT / "docs" / "how-to" / "k9s.md"
    made[k9s] = k9s_views.put_into(k9s.read_text(encoding="utf-8"))
    metrics = ROOT / "docs" / "reference" / "metrics.md"
    made[metrics] = metrics_page.filled(metrics.read_text(encoding="utf-8"))
    made[ROOT / "operator" / "holdfast" / "api" / "figure_fields.py"] = figure_fields.text()
    made[ROOT / "docs" / "reference" / "python.md"] = python_page.text()
    made[ROOT / "docs" / "reference" / "for-programs.md"] = programs_page.text()
    protocol = ROOT / "docs" / "reference" / "protocol.md"
    made[protocol] = document_tables.filled(protocol.read_text(encoding="utf-8"))
    proved = ROOT / "docs" / "reference" / "proved.md"
    made[proved] = gates_table.filled(proved.read_text(encoding="utf-8"))
    programs = ROOT / "docs" / "reference" / "public-programs.md"
    made[programs] = public_programs.page(programs.read_text(encoding="utf-8"))
    zoo = ROOT / "tests" / "zoo" / "README.md"
    made[zoo] = public_programs.readme(zoo.read_text(encoding="utf-8"))
    return made


def strays(made: dict[Path, str]) -> list[Path]:
    """Files in folders of generated files that nothing generates any more."""
    chart = ROOT / "charts" / "holdfast" / "files"
    folders = (ROOT / "crds", chart / "dashboards")
    return [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir()) if path not in made]


def check(made: dict[Path, str]) -> int:
    """Show every difference and return the number of files that are out of date."""
    stale = 0
    for path, text in made.items():
        found = path.read_text(encoding="utf-8") if path.exists() else ""
        if found != text:
            stale += 1
            name = str(path.relative_to(ROOT))
            diff = difflib.unified_diff(found.splitlines(), text.splitlines(), name, "generated", lineterm="")
            sys.stderr.write("\n".join(list(diff)[:40]) + "\n")
    for path in strays(made):
        stale += 1
        sys.stderr.write(f"{path.relative_to(ROOT)}: nothing generates this file\n")
    return stale


def write(made: dict[Path, str]) -> None:
    """Write files that differ, remove files that nothing generates."""
    for path, text in made.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")
    for path in strays(made):
        path.unlink()
        sys.stdout.write(f"removed {path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        if count := check(files()):
            sys.exit(f"{count} generated file(s) are not up to date: run `make crds`")
    else:
        write(files())
