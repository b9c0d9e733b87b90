"""The provisioner hook: how somebody outside is told of an event, and says whether it was accepted.

One text names it: a URL is a webhook, anything else a command line. Either may be slow, and neither may take
longer than the timeout; what comes of a delivery is a value, since a hook that fails is nothing unusual.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, timedelta
from email.message import Message
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final, Protocol
from urllib.parse import urlsplit

from tenure.errors import InvalidInput
from tenure.store.outbox import OutboxEvent

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
#: What a shell would act on; a command is run without one.
_SHELL: Final = frozenset({"&&", "||", "|", ";", ">", ">>", "<", "&"})
#: Of what a hook prints or answers: enough for its last line or two.
_TAIL: Final = 500


@dataclass(frozen=True, slots=True)
class Accepted:
    """The event is delivered. `said` is the end of what a command has printed."""

    said: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """It is not, as far as anybody knows; it may have been acted on all the same."""

    reason: str


class Provisioner(Protocol):
    """Threads may share one."""

    def deliver(self, document: bytes) -> Accepted | Refused:
        """Hand over one JSON object; returns within the timeout."""

    def close(self) -> None:
        """Stop what is under way, and start no more."""


def provisioner_of(text: str, *, timeout: timedelta) -> Provisioner:
    """What `text` names.

    Raises:
        InvalidInput: a URL that cannot be read, or a command that does not exist.
    """
    seconds = timeout.total_seconds()
    if (scheme := _SCHEME.match(text)) is not None:
        if scheme[1].lower() not in {"http", "https"}:
            raise InvalidInput(f"provisioner {text!r}: a URL begins with http:// or https://")
        return Webhook(_checked_url(text), timeout_seconds=seconds)
    return Command(_checked_command(text), timeout_seconds=seconds)


def document(event: OutboxEvent, namespace: str) -> bytes:
    """What a provisioner is told: the event's body, after what says which event it is."""
    at = event.at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    known = {
        "id": event.id,
        "at": at,
        "namespace": namespace,
        "instance": event.instance,
        "execution": event.execution,
    }
    return json.dumps({**known, **event.body, **known}).encode()


class Webhook:
    """POSTs the document; any 2xx accepts it. The timeout is for each wait for the network."""

    def __init__(self, url: str, *, timeout_seconds: float) -> None:
        self._url = url
        self._timeout_seconds = timeout_seconds
        self._opener = urllib.request.build_opener(_Redirects)

    def deliver(self, document: bytes) -> Accepted | Refused:
        """Send one request, and follow redirects within its scheme."""
        request = urllib.request.Request(  # noqa: S310  # the scheme was checked
            self._url, data=document, headers={"Content-Type": "application/json"}, method="POST"
        )
        try:
            # What an accepting answer says is not read: it could take for ever.
            self._opener.open(request, timeout=self._timeout_seconds).close()
        except urllib.error.HTTPError as error:
            return Refused(_answer(error))
        except TimeoutError:
            return Refused(f"the webhook did not answer within {self._timeout_seconds:g} s")
        except urllib.error.URLError as error:
            return Refused(f"the webhook cannot be reached: {_shown(str(error.reason))}")
        except (OSError, http.client.HTTPException) as error:
            return Refused(f"the webhook gave no answer: {_shown(repr(error))}")
        return Accepted()

    def close(self) -> None:
        """Do nothing: a request ends with its thread."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """The standard library would go on with a GET, without the event."""

    def redirect_request(  # noqa: PLR0917  # the standard library's
        self,
        req: urllib.request.Request,
        fp: IO[bytes],  # noqa: ARG002  # see above
        code: int,
        msg: str,  # noqa: ARG002  # see above
        headers: Message,  # noqa: ARG002  # see above
        newurl: str,
    ) -> urllib.request.Request | None:
        """Send the same again, unless another scheme or another method is asked for; then it is refused."""
        if code == http.HTTPStatus.SEE_OTHER or urlsplit(newurl).scheme != req.type:
            return None
        return urllib.request.Request(  # noqa: S310  # the scheme is that of the first request
            newurl, data=req.data, headers={"Content-Type": "application/json"}, method="POST"
        )


class Command:
    """Runs a command with the document on its stdin; exit code 0 accepts it.

    It is given files and no pipes: one that does not read, prints without end or leaves a child behind with
    its output holds nobody up.
    """

    def __init__(self, arguments: list[str], *, timeout_seconds: float) -> None:
        self._arguments = arguments
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def deliver(self, document: bytes) -> Accepted | Refused:
        """Run it once. At the timeout it is killed with its process group."""
        try:
            with TemporaryFile() as given, TemporaryFile() as printed:
                given.write(document + b"\n")
                given.seek(0)
                return self._run(given, printed)
        except OSError as error:
            return Refused(f"the command cannot be run: {_shown(str(error))}")

    def close(self) -> None:
        """Kill what is running; its events are delivered again."""
        with self._lock:
            self._closed = True
            for process in self._running:
                _kill_group(process)

    def _run(self, given: IO[bytes], printed: IO[bytes]) -> Accepted | Refused:
        with self._lock:
            if self._closed:
                return Refused("the scheduler is stopping")
            process = subprocess.Popen(
                self._arguments, stdin=given, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True
            )
            self._running.add(process)
        try:
            code = process.wait(self._timeout_seconds)
        except subprocess.TimeoutExpired:
            _kill_group(process)
            process.wait()
            took = f"the command took more than {self._timeout_seconds:g} s and was killed"
            return Refused(_with(took, _tail(printed)))
        finally:
            with self._lock:
                self._running.discard(process)
        if code == 0:
            return Accepted(_tail(printed))
        ended = f"the command ended with code {code}" if code > 0 else f"the command was killed ({-code})"
        return Refused(_with(ended, _tail(printed)))


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        # It may end just now.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _checked_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise InvalidInput(f"provisioner: the URL cannot be read: {error}") from error
    if not parts.hostname or port == 0:
        raise InvalidInput("provisioner: the URL names no host and port to connect to")
    if parts.username is not None:
        raise InvalidInput("provisioner: name and password of a URL are not sent; a command can send them")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise InvalidInput("provisioner: the URL cannot be read; write blanks and the like as %20")
    return text


def _checked_command(text: str) -> list[str]:
    try:
        arguments = shlex.split(text)
    except ValueError as error:
        raise InvalidInput(f"provisioner {text!r} cannot be read as a command line: {error}") from error
    if not arguments:
        raise InvalidInput("provisioner: give a command line, or a URL with http:// or https://")
    found = shutil.which(arguments[0])
    if signs := _SHELL.intersection(arguments):
        raise InvalidInput(
            f"provisioner {text!r}: it is run without a shell, to which {min(signs)!r} would mean something; "
            "put it into a script, or write sh -c '...'"
        )
    if found is None and Path(arguments[0]).is_file():
        raise InvalidInput(f"provisioner: {arguments[0]!r} is not executable; chmod +x it")
    if found is None:
        raise InvalidInput(
            f"provisioner: there is no command {arguments[0]!r}; give its path, or a URL with http:// or https://"
        )
    return [found, *arguments[1:]]


def _answer(error: urllib.error.HTTPError) -> str:
    with error:
        said = f"the webhook answered {error.code} {_shown(str(error.reason))}"
        if location := error.headers.get("Location"):
            return f"{said}; it is not followed to {_shown(location)}"
        with suppress(OSError, http.client.HTTPException):
            return _with(said, _shown(error.read(_TAIL).decode(errors="replace")))
        return said


def _tail(printed: IO[bytes]) -> str:
    size = printed.seek(0, os.SEEK_END)
    printed.seek(max(0, size - _TAIL))
    return _shown(printed.read(_TAIL).decode(errors="replace"))


def _with(what: str, said: str) -> str:
    return f"{what}: {said}" if said else what


def _shown(text: str) -> str:
    """In one line, and with nothing that a terminal would obey."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:_TAIL]
