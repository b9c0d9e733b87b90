"""Real processes on one folder: who starts the server, who joins it, and when it ends."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tenure.embedded import EmbeddedServer
from tenure.errors import EmbeddedServerError
from tenure.store.connection import connect
from tests.waiting import wait_until

# Attaches, says where, and stays until its input ends.
USER = """
import sys
from pathlib import Path
from tenure.embedded import EmbeddedServer
with EmbeddedServer.attach(Path(sys.argv[1])) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""

# Attaches and dies on the spot.
VICTIM = """
import os, signal, sys
from pathlib import Path
from tenure.embedded import EmbeddedServer
EmbeddedServer.attach(Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""

# Dies between the start of the server and the first look at it.
STARTER_THAT_DIES_EARLY = """
import os, signal, sys
from pathlib import Path
from tenure.embedded import server
server._ping = lambda socket_path: os.kill(os.getpid(), signal.SIGKILL)
server.EmbeddedServer.attach(Path(sys.argv[1]))
"""

User = subprocess.Popen[str]
StartUser = Callable[[Path], User]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "data"
    yield path
    wait_until(lambda: not server_runs(path), 10, "the test's server has ended")


@pytest.fixture
def start_user(folder: Path) -> Iterator[StartUser]:
    users: list[User] = []

    def start(path: Path) -> User:
        user = subprocess.Popen(
            [sys.executable, "-c", USER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        users.append(user)
        return user

    yield start
    for user in users:
        user.kill()
        user.communicate()


def url_of(user: User) -> str:
    assert user.stdout is not None
    return user.stdout.readline().strip()


def leave(user: User) -> None:
    user.communicate()
    assert user.returncode == 0


def kill(user: User) -> None:
    user.kill()
    user.wait()


def server_runs(folder: Path) -> bool:
    """Whether anybody holds the lock on the folder."""
    lock = folder / "server.lock"
    if not lock.exists():
        return False
    with lock.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def server_process(folder: Path) -> int:
    return int((folder / "server.pid").read_text())


def run_id(url: str) -> str:
    with closing(connect(url)) as client:
        return str(client.info("server")["run_id"])


def write(url: str, key: str, value: str) -> None:
    with closing(connect(url)) as client:
        client.set(key, value)


def read(url: str, key: str) -> object:
    with closing(connect(url)) as client:
        return client.get(key)


def test_five_starters_at_once_share_one_server(folder: Path, start_user: StartUser) -> None:
    urls = [url_of(user) for user in [start_user(folder) for _ in range(5)]]

    assert len({run_id(url) for url in urls}) == 1


def test_the_server_ends_with_its_last_user(folder: Path, start_user: StartUser) -> None:
    first, second = start_user(folder), start_user(folder)
    url = url_of(first)
    url_of(second)

    leave(first)
    assert run_id(url)
    leave(second)

    wait_until(lambda: not server_runs(folder), 5, "the server has ended")
    assert not (folder / "server.pid").exists()


def test_the_socket_folder_goes_with_the_server(folder: Path) -> None:
    with EmbeddedServer.attach(folder) as server:
        assert server.socket_path.parent.stat().st_mode & 0o777 == 0o700

    wait_until(lambda: not server_runs(folder), 5, "the server has ended")
    assert not server.socket_path.parent.exists()


def test_others_go_on_when_the_starter_is_killed(folder: Path, start_user: StartUser) -> None:
    starter = start_user(folder)
    url = url_of(starter)
    joined = start_user(folder)
    url_of(joined)
    before = run_id(url)

    kill(starter)

    write(url, "still", "there")
    assert run_id(url) == before
    kill(joined)
    wait_until(lambda: not server_runs(folder), 5, "the server has ended")


@pytest.mark.parametrize("script", [VICTIM, STARTER_THAT_DIES_EARLY])
def test_no_server_is_left_by_a_starter_that_is_killed(folder: Path, script: str) -> None:
    ended = subprocess.run([sys.executable, "-c", script, str(folder)], check=False)

    assert ended.returncode == -signal.SIGKILL
    assert (folder / "server.lock").exists()
    wait_until(lambda: not server_runs(folder), 5, "the server has ended")


def test_data_is_kept_over_a_restart(folder: Path) -> None:
    with EmbeddedServer.attach(folder) as server:
        write(server.url, "kept", "yes")
        first = run_id(server.url)
    wait_until(lambda: not server_runs(folder), 5, "the server has ended")

    with EmbeddedServer.attach(folder) as server:
        assert read(server.url, "kept") == b"yes"
        assert run_id(server.url) != first


def test_joining_while_the_last_user_leaves_never_meets_a_dying_server(folder: Path) -> None:
    for turn in range(20):
        with EmbeddedServer.attach(folder) as server:
            write(server.url, "turn", str(turn))
            assert read(server.url, "turn") == str(turn).encode()


def test_a_killed_server_comes_back_at_the_same_place_with_its_data(folder: Path) -> None:
    with EmbeddedServer.attach(folder) as first, closing(connect(first.url)) as client:
        for number in range(200):
            client.set(f"n{number}", number)
        os.kill(server_process(folder), signal.SIGKILL)

        with EmbeddedServer.attach(folder) as second:
            assert second.url == first.url
            assert client.dbsize() == 200


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a server with its guard")
def test_a_server_does_not_outlive_its_guard(folder: Path) -> None:
    with EmbeddedServer.attach(folder) as server:
        write(server.url, "kept", "yes")
        status = Path(f"/proc/{server_process(folder)}/status").read_text()
        guard = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))

        os.kill(guard, signal.SIGKILL)
        wait_until(lambda: not server_runs(folder), 5, "the server has ended")

        with EmbeddedServer.attach(folder) as again:
            assert read(again.url, "kept") == b"yes"


def test_a_hung_server_is_reported_and_no_second_one_started(folder: Path) -> None:
    with EmbeddedServer.attach(folder):
        hung = server_process(folder)
        os.kill(hung, signal.SIGSTOP)
        try:
            with pytest.raises(EmbeddedServerError, match=r"does not answer: end the process.*server\.pid"):
                EmbeddedServer.attach(folder, patience_seconds=0.2)
            assert server_process(folder) == hung
        finally:
            os.kill(hung, signal.SIGCONT)


def test_damaged_data_is_reported_with_the_end_of_the_log(folder: Path) -> None:
    with EmbeddedServer.attach(folder) as server:
        write(server.url, "key", "value")
    wait_until(lambda: not server_runs(folder), 5, "the server has ended")
    journal = next((folder / "appendonlydir").glob("*.incr.aof"))
    journal.write_bytes(b"this is no journal\n" + journal.read_bytes())

    with pytest.raises(EmbeddedServerError, match="Bad file format reading the append only file"):
        EmbeddedServer.attach(folder)


def test_an_unknown_server_argument_is_reported(folder: Path) -> None:
    with pytest.raises(EmbeddedServerError, match="no-such-option"):
        EmbeddedServer.attach(folder, extra_args=["--no-such-option", "1"])


@pytest.mark.parametrize("name", ["with spaces and 'quotes'", "/".join(["long" * 20] * 5)])
def test_any_folder_name_will_do(folder: Path, name: str) -> None:
    inner = folder / name
    with EmbeddedServer.attach(inner) as server:
        write(server.url, "key", "value")
        assert (inner / "appendonlydir").is_dir()
    wait_until(lambda: not server_runs(inner), 5, "the server has ended")


def test_a_long_temporary_folder_is_not_used_for_the_socket(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_folder = tmp_path / ("long" * 25)
    long_folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long_folder))

    with EmbeddedServer.attach(folder) as server:
        assert run_id(server.url)
    assert list(long_folder.iterdir()) == []


def test_a_temporary_folder_with_spaces_makes_a_url_that_clients_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = Path(tempfile.mkdtemp(prefix="tenure test "))
    monkeypatch.setattr("tempfile.tempdir", str(parent))
    try:
        with EmbeddedServer.attach(folder) as server:
            assert run_id(server.url)
    finally:
        wait_until(lambda: not server_runs(folder), 5, "the server has ended")
        parent.rmdir()


def test_a_copy_of_a_folder_has_a_server_of_its_own(folder: Path, tmp_path: Path) -> None:
    with EmbeddedServer.attach(folder) as original:
        write(original.url, "where", "original")
        copy = shutil.copytree(folder, tmp_path / "copy")
        with EmbeddedServer.attach(copy) as copied:
            write(copied.url, "where", "copy")
            assert read(original.url, "where") == b"original"
        wait_until(lambda: not server_runs(copy), 5, "the copy's server has ended")
        assert read(original.url, "where") == b"original"


def test_settings_keep_everything(folder: Path) -> None:
    with EmbeddedServer.attach(folder) as server, closing(connect(server.url)) as client:
        settings = client.config_get("*")
        told = {
            name: settings[name]
            for name in ("appendonly", "appendfsync", "save", "maxmemory-policy", "port", "unixsocketperm")
        }

    assert told == {
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "port": "0",
        "unixsocketperm": "700",
    }


def test_a_program_started_by_a_user_does_not_keep_the_server(folder: Path) -> None:
    server = EmbeddedServer.attach(folder)
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, close_fds=False
    )
    try:
        server.close()
        wait_until(lambda: not server_runs(folder), 5, "the server has ended")
    finally:
        child.communicate()


def test_closing_twice_does_no_harm(folder: Path) -> None:
    server = EmbeddedServer.attach(folder)
    server.close()
    server.close()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(EmbeddedServerError, match="choose another folder"):
        EmbeddedServer.attach(tmp_path / "file" / "data")


def test_data_stays_out_of_version_control(folder: Path) -> None:
    with EmbeddedServer.attach(folder):
        assert (folder / ".gitignore").read_text() == "*\n"


def test_starting_takes_less_than_a_second(folder: Path) -> None:
    began = time.monotonic()
    with EmbeddedServer.attach(folder):
        assert time.monotonic() - began < 1
