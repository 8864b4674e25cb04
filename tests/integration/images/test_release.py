"""A release, and what another machine does with its folder and with nothing else of this checkout."""

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.images import archive
from scripts.images.build import Built
from scripts.images.source import read_source
from scripts.release.folder import PROVENANCE, SUMS, make_release, sums
from scripts.release.provenance import Made
from tests.support import base_image
from tests.support.tools.catalogue import HELM

from holdfast_local import toolchain

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not base_image.is_possible(), reason=base_image.MISSING),
]
MADE = Made("oci-archive:/somewhere/base.tar", "3.11", ("amd64",), "https://holdfast.test", "https://builder.test")
CLI = ("holdfast", "holdfast_cli", "holdfast_model", "holdfast_protocol", "holdfast_train")
ONLY_UPGRADE = "--reset-then-reuse-values"  # not an option of `helm template`
SLOWEST_START = 0.3  # seconds of processor time for `holdfast --help`


@pytest.fixture(scope="module")
def release(images: dict[str, Built], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_release(images, MADE, read_source(), tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def laptop(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment into which pip alone has installed the command and the local cluster, from their files."""
    place = tmp_path_factory.mktemp("laptop")
    subprocess.check_call([sys.executable, "-m", "venv", place / "venv"])
    wheels = [next((release / "wheels").glob(f"{name}-[0-9]*.whl")) for name in (*CLI, "holdfast_local")]
    subprocess.check_call([place / "venv/bin/pip", "install", "--quiet", *wheels], cwd=place, env=clean())
    return place


def clean() -> dict[str, str]:
    """The environment of a machine that does not know this checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HOLDFAST"))}


def run(laptop: Path, *arguments: str) -> str:
    """What the installed command prints."""
    command = [laptop / "venv/bin/holdfast", *arguments]
    return subprocess.check_output(command, cwd=laptop, env=clean(), text=True, timeout=300)


def values(release: Path) -> dict[str, Any]:
    """The values of the packaged chart."""
    with tarfile.open(next((release / "charts").glob("*.tgz"))) as tar:
        found: dict[str, Any] = yaml.safe_load(tar.extractfile("holdfast/values.yaml") or "")
        return found


# Breaks if a file is changed, or made, after its checksum.
def test_the_checksums_fit(release: Path) -> None:
    subprocess.check_call(["sha256sum", "--check", "--quiet", "--strict", SUMS], cwd=release)
    listed = {line.split("  ")[1] for line in (release / SUMS).read_text().splitlines()}
    assert listed == sums(release).keys() - {SUMS}


# Breaks if any part has a time, a path or an order of this run.
def test_a_second_release_has_the_same_bytes(release: Path, images: dict[str, Built], tmp_path: Path) -> None:
    assert sums(make_release(images, MADE, read_source(), tmp_path)) == sums(release)


# Breaks if the chart names another image than the one that lies beside it.
def test_the_chart_names_the_images_of_the_release(release: Path) -> None:
    found = values(release)
    assert found["image"]["digest"] == archive.digest(release / "images/operator.tar")
    assert found["initImage"].partition("@")[2] == archive.digest(release / "images/init.tar")


# Breaks if Helm cannot read the package, or the names that the notes set lose the digests.
def test_the_command_of_the_notes_installs_these_images(release: Path) -> None:
    notes = (release / "RELEASE_NOTES.md").read_text().replace("\\\n", " ").replace("$REGISTRY", "registry.test")
    (command,) = re.findall(r"^helm upgrade --install (.*)$", notes, re.MULTILINE)
    done = subprocess.check_output(
        [toolchain.build(HELM), "template", *command.replace(ONLY_UPGRADE, "").split()], cwd=release, text=True
    )
    operator = archive.digest(release / "images/operator.tar")
    init = archive.digest(release / "images/init.tar")
    assert set(re.findall(r"image: (.*)", done)) == {f'"registry.test/operator:0.1.0@{operator}"'}
    assert f"registry.test/init:0.1.0@{init}" in done


# Breaks if a document lacks a package that is in the image, or has one that is not.
@pytest.mark.parametrize("name", ["operator", "init"])
def test_the_sbom_has_what_the_image_has(
    release: Path, images: dict[str, Built], run_in: Callable[..., str], name: str
) -> None:
    document = json.loads((release / f"sbom/{name}-amd64.cdx.json").read_text())
    parts = document["components"]
    ask = (
        "from importlib.metadata import distributions as d; print(*(f'{p.name}=={p.version}' for p in d()), sep='\\n')"
    )
    python = {f"{one['name']}=={one['version']}" for one in parts if one["purl"].startswith("pkg:pypi/")}
    assert python == set(run_in(images[name], "python3", "-c", ask).split())
    debian = {f"{one['name']}={one['version']}" for one in parts if one["purl"].startswith("pkg:deb/")}
    assert debian == set(run_in(images[name], "dpkg-query", "-W", "-f", "${Package}=${Version}\\n").split())
    assert document["metadata"]["component"]["hashes"][0]["content"] in images[name].digest


# Breaks if a wheel has no document, or the document does not say what the wheel needs.
def test_each_wheel_has_an_sbom(release: Path) -> None:
    wheels = list((release / "wheels").iterdir())
    assert {path.name.partition("-")[0] for path in wheels} >= {*CLI, "holdfast_local", "holdfast_research"}
    for wheel in wheels:
        document = json.loads((release / f"sbom/{wheel.name}.cdx.json").read_text())
        assert document["metadata"]["component"]["hashes"][0]["content"] == sums(release)[f"wheels/{wheel.name}"]
    command = json.loads(next((release / "sbom").glob("holdfast_cli-*")).read_text())
    assert {"typer", "boto3", "holdfast"} <= {one["name"] for one in command["components"]}


# Breaks if the statement names other bytes, another commit, or a folder of the machine that made it.
def test_the_provenance_is_of_these_files(release: Path) -> None:
    text = (release / PROVENANCE).read_text()
    statement = json.loads(text)
    subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    assert {name: digest for name, digest in sums(release).items() if name not in (SUMS, PROVENANCE)}.items() <= (
        subjects.items()
    )
    dependencies = {one["name"]: one for one in statement["predicate"]["buildDefinition"]["resolvedDependencies"]}
    assert dependencies["source"]["digest"] == {"gitCommit": read_source().commit}
    base = archive.read(base_image.base_image()).config["rootfs"]["diff_ids"]
    assert dependencies["base image amd64"]["annotations"]["layers"] == base
    assert "/somewhere" not in text


# Breaks if a wheel lacks a file or a dependency, or a command imports more than it needs.
def test_the_command_starts_from_the_wheels(laptop: Path) -> None:
    assert "Keeps GPU training jobs alive" in run(laptop, "--help")
    starts = []
    for _ in range(5):
        before = os.times()
        run(laptop, "--help")
        after = os.times()
        starts.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(starts) < SLOWEST_START


# Breaks if the wheel of the local cluster lacks one of its files: sources of tools, the chart's, or manifests.
@pytest.mark.cluster
def test_the_local_cluster_starts_from_the_wheels(laptop: Path) -> None:
    try:
        run(laptop, "local", "up", "--root", str(laptop / "cluster"))
        assert "operator" in run(laptop, "local", "status", "--root", str(laptop / "cluster"))
    finally:
        run(laptop, "local", "down", "--root", str(laptop / "cluster"))
