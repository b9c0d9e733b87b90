"""What the Lua files say of themselves, and how they are loaded, refused and reloaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from tenure.embedded import EmbeddedServer
from tenure.errors import StoreFull
from tenure.model.status import SessionState
from tenure.settings import Settings
from tenure.store.answers import ANSWERS
from tenure.store.connection import connect
from tenure.store.keys import FAMILIES
from tenure.store.outbox import OutboxEvent
from tenure.store.scripts import FOLDER, NAMES, header_of
from tenure.store.sessions import Renewed
from tenure.wiring import open_store
from tests.invariants import broken
from tests.posting import kept, post
from tests.store.stage import Stage

LUA = {Path(str(file)).stem: file.read_text() for file in FOLDER.iterdir() if file.name.endswith(".lua")}
FRAGMENTS = {name: text for name, text in LUA.items() if name.startswith("_")}
SCRIPTS = {name: text for name, text in LUA.items() if name not in FRAGMENTS}

_FUNCTION = re.compile(r"^local function (\w+)\(.*?^end$", re.MULTILINE | re.DOTALL)
_ANSWER = re.compile(r"\breply\('(\w+)'|\banswer = '(\w+)'")
_LITERAL = re.compile(r"'([^'\n]*)'")


def code_of(text: str) -> str:
    """A file without its comments."""
    return re.sub(r"--.*$", "", text, flags=re.MULTILINE)


@dataclass(frozen=True)
class Header:
    """The parts of a script's header that promise something."""

    arguments: str
    answers: set[str]

    @classmethod
    def of(cls, text: str) -> Header:
        lines = [line.removeprefix("--") for line in text.split("\n\n", 1)[0].splitlines()]
        comment = "\n".join(lines)
        arguments, _, answers = comment.partition("\n returns ")
        return cls(arguments.partition("\n args ")[2], set(re.findall(r'"(\w+)"', answers)))


def called_code(name: str) -> str:
    """A script's own code and every fragment function that it comes to call."""
    functions = {
        match[1]: match[0]
        for part in header_of(name).get("uses", [])
        for match in _FUNCTION.finditer(code_of(FRAGMENTS[part]))
    }
    code, waiting = "", code_of(SCRIPTS[name])
    while waiting:
        code += waiting
        called = [function for function in functions if re.search(rf"\b{function}\(", waiting)]
        waiting = "\n".join(functions.pop(function) for function in called)
    return code


def answers_in(code: str) -> set[str]:
    return {first or second for first, second in _ANSWER.findall(code)}


def test_every_lua_file_is_a_script_with_answers_or_a_fragment() -> None:
    assert set(SCRIPTS) == set(ANSWERS)
    assert {part for name in SCRIPTS for part in header_of(name).get("uses", [])} == set(FRAGMENTS)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_header_lists_the_arguments_that_are_used(name: str) -> None:
    used = set(re.findall(r"\ba\.(\w+)", called_code(name)))
    holder = (
        {"life", "session", "generation", "run", "queue", "lease"} if "grant(" in called_code(name) else set()
    )
    listed = set(re.findall(r"\w+", Header.of(SCRIPTS[name]).arguments))

    assert used | holder <= listed


@pytest.mark.parametrize("name", ANSWERS)
def test_a_script_answers_by_the_names_of_its_enum_and_its_header_says_which(name: str) -> None:
    names = {answer.value for answer in ANSWERS[name]}

    assert answers_in(called_code(name)) == names
    assert Header.of(SCRIPTS[name]).answers >= names


@pytest.mark.parametrize("name", sorted(LUA))
def test_no_lua_file_spells_a_key(name: str) -> None:
    pieces = {piece for family in FAMILIES.values() for piece in re.split(r"{\w+}", family.template) if piece}
    separators = {":"}

    for literal in _LITERAL.findall(code_of(LUA[name])):
        assert not any(piece in literal for piece in pieces - separators), literal


@pytest.mark.parametrize("name", sorted(LUA))
def test_no_lua_file_spells_a_status(name: str) -> None:
    statuses = {member.value for names in NAMES.values() for member in names}
    answers = answers_in(code_of(LUA[name]))
    # An answer may be called like a status: `mark_started` answers "started".
    literals = set(_LITERAL.findall(code_of(LUA[name])))

    assert (literals & statuses) <= answers


def test_the_server_may_forget_its_scripts(stage: Stage) -> None:
    stage.recipe_leased()
    stage.client.script_flush()

    assert stage.slot().claim() is None
    assert stage.client.script_exists(stage.store.scripts._loaded["claim"].sha) == [True]


@pytest.fixture
def full(namespace: str, tmp_path: Path) -> Iterator[Stage]:
    """A server of its own, since its memory limit is about to be reached."""
    with (
        EmbeddedServer.attach(tmp_path / "full") as server,
        connect(server.url) as client,
        open_store(server.url, namespace=namespace, settings=Settings(), test_clock=True) as store,
    ):
        yield Stage(store, client)


def test_a_full_server_gets_room_by_a_delivery(full: Stage) -> None:
    leader, refused, accepted = full.lead(), post(full.store), post(full.store)
    [event, _] = full.store.duties.due_events(limit=2)
    assert isinstance(event, OutboxEvent)
    fill_up(full)

    full.store.duties.defer_event(
        leader, event, reason="no", delay=timedelta(seconds=1), age=timedelta(days=1)
    )
    full.store.duties.remove_event(leader, accepted)

    assert list(kept(full.store)) == [refused]


def fill_up(stage: Stage) -> None:
    stage.client.config_set("maxmemory", 1)


def make_room(stage: Stage) -> None:
    stage.client.config_set("maxmemory", 0)


def test_a_full_server_refuses_whole_steps(full: Stage) -> None:
    slot, recipe = full.recipe_leased()
    full.start("other")
    scripts, leader = full.store.scripts, full.lead()
    step = {**slot.holder.arguments(), "request": 9, "cap": 10, "instance": "default", "execution": "e"}
    step["recipe"] = {
        "frame": recipe.token,
        "token": recipe.token,
        "action": "complete",
        "result": b"\x01\x01",
    }
    before = full.dump()
    fill_up(full)

    for name, arguments in (
        ("claim", {**slot.holder.arguments(), "request": 9, "cap": 10}),
        ("step", step),
        ("write_params", {**step, "token": recipe.token, "params": ["0:draw:0", b"x"]}),
        ("due", {"leader": leader, "route": "default/e/recipe", "cap": 10}),
    ):
        with pytest.raises(StoreFull, match="nothing was written"):
            scripts.call(name, arguments)
    with pytest.raises(StoreFull):
        full.start("third")

    assert full.dump() == before
    make_room(full)
    assert scripts.call("step", step)["ended"] == "completed"


def test_a_full_server_still_renews_and_takes_back(full: Stage) -> None:
    """G2 and G11 need no room: leases are kept, and what cannot be done is given back."""
    slot, grant = full.task_leased(started=False)
    full.start("other")
    other_slot = full.slot()
    full.claim(other_slot)
    fill_up(full)

    sessions = full.store.sessions
    assert (
        sessions.renew("agent", 1, [(grant.route, grant.token, False)], lease_ms=full.lease_ms) == Renewed()
    )
    assert slot.reschedule(grant, reason="drain") == "waiting"
    holder = other_slot.holder
    assert sessions.abandon(holder.life, holder.queue, cause="killed", charge=None, run=holder.run)
    assert full.lead()
    sessions.retire("agent", 1, SessionState.DRAINING)

    assert [full.record(e).get("where") for e in ("e", "other")] == ["tasks", "waiting"]
    assert broken(full.store) == []
