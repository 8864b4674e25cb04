"""`holdfast report`: write a job, or a comparison of several, as one HTML file."""

import re
from typing import Annotated, Final

import typer

from holdfast_cli.checkpoints.screen import notes
from holdfast_cli.cluster import completion
from holdfast_cli.cluster.options import Kubeconfig, Namespace
from holdfast_cli.pages.file import write_page
from holdfast_cli.pages.inputs import JobInputs
from holdfast_cli.report.gather import gather
from holdfast_cli.report.html import html
from holdfast_cli.storage.address import Where
from holdfast_cli.storage.options import Addressing, Ca, Endpoint, Proxy, Region

MOST_PLACES: Final = 16  # trainings of one comparison


def report(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="PLACE",
            help="Name of a TrainingJob, or a storage address: s3://bucket/prefix, file:///folder, or a path with a "
            "slash, such as ./folder. Several are compared.",
            autocompletion=completion.jobs,
        ),
    ],
    *,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="File of HTML to write, not a format; - is the standard output. Default: the job's name and .html.",
            metavar="FILE",
        ),
    ] = None,
    namespace: Namespace = None,
    endpoint: Endpoint = None,
    region: Region = None,
    ca: Ca = None,
    proxy: Proxy = None,
    addressing: Addressing = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Write a job, or a comparison of several, as one HTML file.

    The file has progress, curves over all attempts, the timeline, the reasons, cost, checkpoints and events. It needs
    only a browser and no network, and it can be printed. The storage outlives the job: for a job that was deleted give
    the address. The file says what this user may not read, and shows the rest.

    \b
    Examples:
      holdfast report vit-faces -n vision
      holdfast report vit-base vit-large -o compared.html
      holdfast report s3://runs/vision/vit-faces --endpoint https://minio.example:9000
    """
    if len(places) > MOST_PLACES:
        raise typer.BadParameter(f"{len(places)} trainings; at most {MOST_PLACES} can be compared", param_hint="PLACE")
    wheres = [Where(place, namespace, kubeconfig, endpoint, region, ca, proxy, addressing) for place in places]
    found = [gather(where) for where in wheres]
    for one in found:
        notes(tuple(one.notes))
    write_page(html(found), output or _file_name(found), option="-o")


def _file_name(found: list[JobInputs]) -> str:
    """`vit-faces.html`, also for an address; `comparison.html` for several."""
    if len(found) > 1:
        return "comparison.html"
    name = found[0].name.rstrip("/").rpartition("/")[2]
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('.-') or 'report'}.html"
