"""`mlflow_variables`: the run of an MLflow server into which all attempts of a job log.

MLflow accepts only ids of runs that its server has given, so the run is found by a tag with the UID of the job. It is
made for the first attempt. If two attempts overlap, or an answer gets lost, there may be two such runs: the oldest one
counts. MLflow's own library is not needed: four requests of its REST API are.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from holdfast_protocol import variables
from holdfast_protocol.tracking import to_url

from .timings import USUAL, Timings
from .verdict_files import say

RUN = "MLFLOW_RUN_ID"
TAG = "holdfast.job-uid"
ANSWER_SECONDS = 5.0  # for one of them
MAX_ANSWER = 1 << 20


def mlflow_variables(environment: Mapping[str, str], timings: Timings = USUAL) -> dict[str, str]:
    """The id of the job's run as MLFLOW_RUN_ID, and its web address.

    Empty if the user has set an id, or if there is no run, which is said.

    With several nodes only the first one gets it: several ranks that log into one run would overwrite each other.
    """
    if environment.get(RUN) or not variables.is_first(environment):
        return {}
    try:
        server = _Server(environment, timings)
        found = server.find_run()
        if found is None:
            made = server.make_run()
            found = server.find_run() or made
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        say(f"MLflow: no run for this job ({_words(error)}); what this attempt logs goes into a run of its own")
        return {}
    say(f"MLflow: this attempt logs into run {found}")
    url = to_url(server.page(found))
    return {RUN: found} | ({variables.MLFLOW_RUN_URL: url} if url else {})


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: the credentials would go to another server with it."""

    def redirect_request(self, *_: Any) -> None:
        """Nothing to ask instead."""
        return


class _Server:
    """The tracking server that the program's own variables name. ValueError if they cannot be used."""

    def __init__(self, environment: Mapping[str, str], timings: Timings) -> None:
        self._timings = timings
        given = environment.get("MLFLOW_TRACKING_URI", "")
        url = urllib.parse.urlsplit(given)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"MLFLOW_TRACKING_URI begins with {url.scheme!r}; allowed: http:// or https://")
        host = url.netloc.rpartition("@")[2]
        self._base = urllib.parse.urlunsplit((url.scheme, host, url.path.rstrip("/"), "", ""))
        self._headers = {"Content-Type": "application/json", **_authorization(url, environment)}
        handlers = [urllib.request.HTTPSHandler(context=_tls(environment))] if url.scheme == "https" else []
        self._opener = urllib.request.build_opener(_NoRedirect, *handlers)
        self._deadline = time.monotonic() + timings.mlflow
        self._job, self._uid = environment.get(variables.JOB, ""), environment.get(variables.JOB_UID, "")
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", self._uid):
            raise ValueError(f"{variables.JOB_UID} is not set")
        self._experiment = environment.get("MLFLOW_EXPERIMENT_ID") or self._named(
            environment.get("MLFLOW_EXPERIMENT_NAME", "")
        )

    def find_run(self) -> str | None:
        """The id of the oldest run with the tag; None if there is none."""
        order = ["attributes.start_time ASC", "attributes.run_id ASC"]  # two attempts find the same one
        wanted = {"filter": f"tags.`{TAG}` = '{self._uid}'", "order_by": order}
        found = self._call("runs/search", {**wanted, "experiment_ids": [self._experiment], "max_results": 1})
        runs = found.get("runs") or []
        return _id(runs[0]["info"]["run_id"]) if runs else None

    def make_run(self) -> str:
        """The id of a new run with the tag, and the name of the job."""
        tags = [{"key": TAG, "value": self._uid}, {"key": "mlflow.runName", "value": self._job}]
        about = {"experiment_id": self._experiment, "run_name": self._job, "tags": tags}
        made = self._call("runs/create", {**about, "start_time": int(time.time() * 1000)})
        return _id(made["run"]["info"]["run_id"])

    def page(self, run: str) -> str:
        """Where people see the run."""
        return f"{self._base}/#/experiments/{self._experiment}/runs/{run}"

    def _named(self, name: str) -> str:
        """The id of an experiment, which is made if there is none, as MLflow's library does; without a name, of the
        default one.
        """
        if not name:
            return "0"
        with contextlib.suppress(FileNotFoundError):
            found = self._call(f"experiments/get-by-name?{urllib.parse.urlencode({'experiment_name': name})}")
            return _id(found["experiment"]["experiment_id"])
        return _id(self._call("experiments/create", {"name": name})["experiment_id"])

    def _call(self, what: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The answer to a request, which is sent once more if the server fails. FileNotFoundError if it has no such
        thing.
        """
        try:
            return self._ask(what, body)
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.NOT_FOUND:
                raise FileNotFoundError(f"{what.partition('?')[0]}: HTTP status 404") from error
            if error.code < http.HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
        except OSError:
            pass
        time.sleep(min(self._timings.mlflow_pause, self._seconds_left()))
        return self._ask(what, body)

    def _seconds_left(self) -> float:
        """TimeoutError if there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no answer within {self._timings.mlflow:g} s")
        return left

    def _ask(self, what: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._base}/api/2.0/mlflow/{what}", data, self._headers)  # noqa: S310
        with self._opener.open(request, timeout=min(ANSWER_SECONDS, self._seconds_left())) as answer:
            decoded = json.loads(self._read(answer) or b"{}")
        if not isinstance(decoded, dict):
            raise TypeError(f"{what.partition('?')[0]}: the answer is not an object")
        return decoded

    def _read(self, answer: http.client.HTTPResponse) -> bytes:
        """The body, part by part: a server that sends a byte now and then has the same time as others."""
        data = b""
        while len(data) < MAX_ANSWER and (part := answer.read1(MAX_ANSWER - len(data))):
            data += part
            self._seconds_left()
        return data


def _authorization(url: urllib.parse.SplitResult, environment: Mapping[str, str]) -> dict[str, str]:
    """The header for the credentials that MLflow's library would use."""
    if token := environment.get("MLFLOW_TRACKING_TOKEN"):
        return {"Authorization": f"Bearer {token}"}
    user = environment.get("MLFLOW_TRACKING_USERNAME") or urllib.parse.unquote(url.username or "")
    password = environment.get("MLFLOW_TRACKING_PASSWORD") or urllib.parse.unquote(url.password or "")
    if not user:
        return {}
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def _tls(environment: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=environment.get("MLFLOW_TRACKING_SERVER_CERT_PATH") or None)
    if environment.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() == "true":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _id(text: object) -> str:
    """An id that the server gave. ValueError if it is not an id: it goes into an environment variable."""
    if not isinstance(text, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text):
        raise ValueError("the server gave an id that is none")
    return text


def _words(error: Exception) -> str:
    """The error without an address: that may have a password."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP status {error.code}"
    if isinstance(error, urllib.error.URLError):
        return f"{type(error.reason).__name__}: {error.reason}"
    return f"{type(error).__name__}: {error}"[:200]
