"""rq-dashboard as an application on our serializer, and on our connection.

It has one setting for the serializer and forgets it in half of its calls, so the names it calls are replaced
inside its module; `pyproject.toml` therefore pins its minor version.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from json import JSONEncoder
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import rq_dashboard
from flask import Flask, Response, request
from flask.json.provider import DefaultJSONProvider
from flask.typing import ResponseReturnValue
from jinja2 import Environment, FileSystemLoader
from rq_dashboard import web
from werkzeug.exceptions import Forbidden, MethodNotAllowed, NotFound

from tenure.errors import StoreUnreachable
from tenure.store.connection import reaching, without_password
from tenure.transport import shown
from tenure.transport.tickets import MsgpackSerializer, install
from tenure.wiring import Store

_FOLDER: Final = Path(rq_dashboard.__file__).parent
_REGISTRIES: Final = frozenset(
    {"queued", "started", "finished", "failed", "deferred", "scheduled", "canceled"}
)
_LARGEST_PAGE: Final = 1000
#: A place in a page's template where text goes in as it is. What has passed through jQuery's `.html()` may.
_UNESCAPED: Final = re.compile(r"<%=(?![^%]*\.html\(\))")


@dataclass(frozen=True, slots=True)
class Login:
    """What a browser must know. It is sent as it is: over a network, put TLS in front."""

    username: str
    password: str

    def admits(self, username: str | None, password: str | None) -> bool:
        """Whether these are the right ones; takes as long for any wrong ones."""
        is_user = hmac.compare_digest((username or "").encode(), self.username.encode())
        is_password = hmac.compare_digest((password or "").encode(), self.password.encode())
        return is_user and is_password


def make_app(store: Store, *, login: Login | None = None) -> Flask:
    """The application for one store. One store per process: rq-dashboard's names are replaced for all."""
    _replace_names(store)
    app = _Dashboard(__name__, static_folder=str(_FOLDER / "static"), static_url_path="/static")
    app.json = _Json(app)
    app.jinja_loader = _EscapingLoader(_FOLDER / "templates")
    app.config["RQ_DASHBOARD_REDIS_URL"] = (without_password(store.url),)  # what the pages show
    app.config["RQ_DASHBOARD_JSON_ENCODER"] = _MetaEncoder
    app.redis_conn = store.client
    # Pages link to `/0/view/queues`, which would be sent on to `/` for being the same.
    app.url_map.redirect_defaults = False
    if login is not None:
        app.before_request(_asking_for(login))
    app.before_request(_check_origin)
    app.before_request(_check_address)
    app.register_error_handler(shown.JobGone, _gone)
    app.register_error_handler(shown.NotPossible, _not_possible)
    app.register_error_handler(StoreUnreachable, _unreachable)
    app.register_blueprint(rq_dashboard.blueprint)
    return app


class _Dashboard(Flask):
    """Keeps the connection where rq-dashboard looks for it."""

    redis_conn: Any

    def dispatch_request(self) -> ResponseReturnValue:
        """Answer one request; StoreUnreachable if the server does not answer."""
        with reaching():
            return super().dispatch_request()


class _Json(DefaultJSONProvider):
    """Shows what other programs' jobs return, even if JSON has no form for it."""

    default = staticmethod(repr)


class _MetaEncoder(JSONEncoder):
    """The same for metadata."""

    def default(self, o: object) -> str:
        """Its representation."""
        return repr(o)


class _EscapingLoader(FileSystemLoader):
    """rq-dashboard's templates with everything escaped: a job's text must not become code on a page (G18)."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        """The source of a template."""
        source, name, is_current = super().get_source(environment, template)
        return _UNESCAPED.sub("<%-", source), name, is_current


def _replace_names(store: Store) -> None:
    install()
    web.config.serializer = MsgpackSerializer
    web.Job, web.Queue, web.Worker = shown.ShownJob, shown.ShownQueue, shown.ShownWorker
    web.requeue_job = shown.requeue_job
    # It would open a connection for every request.
    web.from_url = lambda _url, **_options: (None, store.client)


def _asking_for(login: Login) -> Callable[[], Response | None]:
    def ask() -> Response | None:
        given = request.authorization
        if given is not None and login.admits(given.username, given.password):
            return None
        return Response("Log in.", 401, {"WWW-Authenticate": 'Basic realm="tenure", charset="UTF-8"'})

    return ask


def _check_origin() -> None:
    """Refuse a button that was pressed on a page of somebody else, in a browser that may reach this one."""
    if request.method in {"GET", "HEAD"}:
        if request.endpoint == "rq_dashboard.requeue_all":  # which would follow from a mere link
            raise MethodNotAllowed(valid_methods=["POST"])
        return
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        raise Forbidden(f"pressed on a page of {origin}")


def _check_address() -> None:
    """An address that rq-dashboard would fail at is not found."""
    parts = request.view_args or {}
    if parts.get("instance_number", 0) != 0:
        raise NotFound("there is one server here, number 0")
    if parts.get("registry_name", "queued") not in _REGISTRIES:
        raise NotFound(f"there are {', '.join(sorted(_REGISTRIES))}")
    for name, largest in (("per_page", _LARGEST_PAGE), ("page", 10**9)):
        text = str(parts.get(name, 1))
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= largest):
            raise NotFound(f"{name} is a number from 1 to {largest}")


def _gone(_error: Exception) -> tuple[dict[str, str], int]:
    return {"status": "ERROR", "message": "This job is gone. It has run, or its title is now another's."}, 404


def _not_possible(_error: Exception) -> tuple[dict[str, str], int]:
    return {"status": "ERROR", "message": "Only a job that RQ holds for failed can be requeued."}, 409


def _unreachable(error: Exception) -> tuple[str, int, dict[str, str]]:
    return f"{error}\n", 503, {"Content-Type": "text/plain; charset=utf-8"}
