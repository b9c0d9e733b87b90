"""Whether the work of a namespace can move: who leads, who works, and what waits for whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from tenure.cli.doctor.findings import Finding
from tenure.cli.words import amount, roughly
from tenure.model.status import SessionState
from tenure.store.checkup import Backlog, IndexReading, NamespaceReading
from tenure.store.keys import split_member
from tenure.store.sessions import SessionFacts

#: Ready work that is this old while nothing at all happens does not just wait for its turn.
STUCK_AFTER: Final = timedelta(minutes=1)
#: A provisioner that is at all well has accepted an event within this.
_UNDELIVERED_AFTER: Final = timedelta(minutes=1)
#: The scheduler takes over and retires within this of a lapse.
_TAKEOVER: Final = timedelta(seconds=10)


def examine(reading: NamespaceReading, sessions: Sequence[SessionFacts], namespace: str) -> Iterator[Finding]:
    """Every finding about a namespace."""
    is_used = reading.live or reading.ended or reading.outbox.count
    if not (is_used or reading.backlogs or sessions or reading.leader):
        yield Finding.warning(
            "namespace",
            f"{namespace} is empty: nothing was ever started here, and no worker or scheduler has come",
            "start them, or name another with --namespace",
        )
        return
    yield Finding.ok(
        "namespace", f"{namespace}: {reading.live} live and {amount(reading.ended, 'ended execution')}"
    )
    yield _scheduler(reading)
    yield _sessions(reading, sessions)
    yield _deserted(reading.backlogs)
    yield _unknown(reading)
    yield _blocked(reading)
    yield _lapsed(reading)
    yield _tickets(reading.backlogs)
    yield _outbox(reading)
    yield _movement(reading)


def _scheduler(reading: NamespaceReading) -> Finding:
    if reading.leader and reading.leads_until > reading.now:
        return Finding.ok("scheduler", f"{reading.leader.rpartition(':')[0]} leads")
    found = "no scheduler leads"
    if reading.leader:
        found += f", the last one for {_ago(reading, reading.leads_until)}"
    advice = "start one, better two: `tenure scheduler`"
    if reading.live:
        return Finding.failed("scheduler", f"{found}: nothing is taken over, retried or placed", advice)
    return Finding.warning("scheduler", found, advice)


def _sessions(reading: NamespaceReading, sessions: Sequence[SessionFacts]) -> Finding:
    lapsed = [s for s in sessions if s.expires_at is not None and s.expires_at <= reading.now]
    alive = [s for s in sessions if s not in lapsed]
    ready = [s for s in alive if s.state is SessionState.READY]
    draining = len(alive) - len(ready)
    slots = amount(sum(s.slots for s in ready), "slot")
    found = f"{len(ready)} ready with {slots}, {draining} draining, {len(lapsed)} lapsed"
    if not ready and reading.live:
        return Finding.failed("sessions", found, "start a worker: `tenure worker POOL --import MODULE`")
    if not ready:
        return Finding.warning("sessions", found, "start a worker when there is to be work")
    if lapsed:
        return Finding.warning(
            "sessions", found, f"see whether {lapsed[0].name} runs on {lapsed[0].host} and reaches the server"
        )
    return Finding.ok("sessions", found)


def _deserted(backlogs: Sequence[Backlog]) -> Finding:
    deserted = [b for b in backlogs if b.waiting and not b.sessions]
    if not deserted:
        return Finding.ok("queues", f"{amount(len(backlogs), 'queue')}, none with work and without a worker")
    waiting = amount(sum(b.waiting for b in deserted), "task")
    return Finding.warning(
        "queues",
        f"{waiting} in queues without a worker: {_names(deserted)}",
        "a scheduler moves it to other queues at once; if it stays, start one",
    )


def _unknown(reading: NamespaceReading) -> Finding:
    unknown = reading.unknown
    if not unknown.count:
        return Finding.ok("unknown outcomes", "none")
    return Finding.warning(
        "unknown outcomes",
        f"{amount(unknown.count, 'task')} that may not be repeated, and nobody knows how it ended, the first "
        f"for {_since(reading, unknown)}",
        f"find out what happened; `{_explain(unknown)}` says which it is",
    )


def _blocked(reading: NamespaceReading) -> Finding:
    blocked = reading.blocked
    if not blocked.count:
        return Finding.ok("blocked", "none")
    return Finding.warning(
        "blocked",
        f"{amount(blocked.count, 'execution')} stopped by an error, the first for {_since(reading, blocked)}",
        f"`{_explain(blocked)}` says by which",
    )


def _lapsed(reading: NamespaceReading) -> Finding:
    lapsed = reading.lapsed
    held = amount(reading.leased, "lease")
    if not lapsed.count or lapsed.since is None:
        return Finding.ok("leases", f"{held}, all current")
    found = f"{lapsed.count} of {held} lapsed, the first {_since(reading, lapsed)} ago"
    if _ms(reading.now - lapsed.since) > _TAKEOVER:
        return Finding.failed(
            "leases", f"{found}, and nobody has taken over", "start a scheduler, or look into its log"
        )
    return Finding.warning("leases", found, "a scheduler takes over within seconds; look again")


def _tickets(backlogs: Sequence[Backlog]) -> Finding:
    short = [b for b in backlogs if b.tickets < b.waiting]
    if short:
        missing = sum(b.waiting - b.tickets for b in short)
        return Finding.warning(
            "tickets",
            f"{amount(missing, 'ticket')} missing in {_names(short)}",
            "a scheduler makes up for it in two rounds; if not, look into its log",
        )
    # Each slot takes its ticket a moment before it claims, so a few more are common.
    many = [b for b in backlogs if b.tickets > 2 * b.waiting + 100]
    if many:
        extra = sum(b.tickets - b.waiting for b in many)
        return Finding.warning(
            "tickets",
            f"{amount(extra, 'ticket')} too many in {_names(many)}",
            "nothing: slots take them and find no work",
        )
    return Finding.ok("tickets", "as many as there is work")


def _outbox(reading: NamespaceReading) -> Finding:
    outbox = reading.outbox
    age = timedelta(0) if outbox.since is None else _ms(max(0, reading.now - outbox.since))
    if age > _UNDELIVERED_AFTER:
        found = (
            f"{amount(outbox.count, 'event')} for the provisioner not delivered, the first for {roughly(age)}"
        )
        if outbox.reason is None:
            return Finding.warning("outbox", found, "start a scheduler, or look into its log")
        return Finding.warning(
            "outbox",
            f"{found}: {outbox.reason}",
            "mend what `tenure scheduler --provisioner` names; it is told again within 5 minutes",
        )
    if outbox.set_aside:
        return Finding.warning(
            "outbox",
            f"{amount(outbox.set_aside, 'event')} for the provisioner cannot be read, and set aside",
            "the scheduler's log says what is wrong with each; tell the provisioner yourself",
        )
    if outbox.count:
        return Finding.ok("outbox", f"{amount(outbox.count, 'event')} on the way to the provisioner")
    return Finding.ok("outbox", "no event waits for the provisioner")


def _movement(reading: NamespaceReading) -> Finding:
    ready = [b for b in reading.backlogs if b.sessions and b.next_since is not None]
    last = reading.last_event_at
    still = None if last is None else _ms(reading.now - last)
    oldest = min((b.next_since for b in ready if b.next_since is not None), default=None)
    if oldest is None or still is None:
        return Finding.ok("movement", "no work is ready and waits")
    waits = roughly(_ms(reading.now - oldest))
    if still < STUCK_AFTER or _ms(reading.now - oldest) < STUCK_AFTER:
        return Finding.ok(
            "movement", f"the next task has waited for {waits}; the last event is {roughly(still)} old"
        )
    found = f"ready work has waited for {waits}, and nothing has happened for {roughly(still)}"
    if any(b.idle for b in ready):
        return Finding.failed(
            "movement", f"{found}, though slots are idle", "restart the workers, and report it"
        )
    return Finding.warning(
        "movement", f"{found}: every slot is busy", "add workers, if that takes longer than it should"
    )


def _names(backlogs: Sequence[Backlog]) -> str:
    return ", ".join(b.queue for b in backlogs)


def _explain(index: IndexReading) -> str:
    instance, execution, _ = split_member(index.oldest or "//")
    return f"tenure --instance {instance} explain {execution}"


def _since(reading: NamespaceReading, index: IndexReading) -> str:
    return "" if index.since is None else _ago(reading, index.since)


def _ago(reading: NamespaceReading, at: int) -> str:
    return roughly(_ms(max(0, reading.now - at)))


def _ms(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=milliseconds)
