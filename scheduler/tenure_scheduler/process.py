"""The scheduler as a process: which duties it has, in which order, and whose id it goes by."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import replace
from datetime import timedelta
from typing import Final

from tenure.settings import Settings
from tenure.wiring import Store
from tenure_scheduler.contact import Contact
from tenure_scheduler.courier import Courier
from tenure_scheduler.duties.deadlines import Deadlines
from tenure_scheduler.duties.due import DueWork
from tenure_scheduler.duties.outbox import OutboxDelivery
from tenure_scheduler.duties.placement import ParkedWork
from tenure_scheduler.duties.repair import IndexRepair
from tenure_scheduler.duties.retention import Retention
from tenure_scheduler.duties.sessions import SessionExpiry
from tenure_scheduler.duties.takeover import TakeoverScan
from tenure_scheduler.duties.tickets import TicketTopUp
from tenure_scheduler.leadership import Leadership
from tenure_scheduler.loop import Scheduler
from tenure_scheduler.provisioner import Provisioner
from tenure_scheduler.stopping import Stopping

#: The loop comes round again by itself, so a step is not resent for long: it would only delay a stop.
RESEND: Final = timedelta(seconds=1)


def owner_id(name: str | None) -> str:
    """An id that no other process has; two schedulers may well be given the same name."""
    return f"{name or f'{socket.gethostname()}-{os.getpid()}'}:{secrets.token_hex(4)}"


def scheduler_settings(settings: Settings) -> Settings:
    """The settings of a store that only a scheduler uses."""
    return replace(settings, resend=min(settings.resend, RESEND))


def courier_for(store: Store, provisioner: Provisioner) -> Courier:
    """What brings a provisioner the events of a store. Close it when the scheduler has stopped."""
    return Courier(provisioner=provisioner, namespace=store.namespace, wake=store.duties.nudge)


def build(store: Store, *, owner: str, stopping: Stopping, courier: Courier | None = None) -> Scheduler:
    """A scheduler with all its duties: first what frees routes, then what places them, then what makes up.

    Without a courier, events for a provisioner are dropped.
    """
    duties, contact = store.duties, Contact(store.settings)
    return Scheduler(
        leadership=Leadership(duties=duties, owner=owner, settings=store.settings, contact=contact),
        duties=[
            SessionExpiry(duties=duties, contact=contact),
            TakeoverScan(duties=duties, contact=contact),
            DueWork(duties=duties),
            Deadlines(duties=duties),
            ParkedWork(duties=duties, executions=store.executions, placement=store.placement),
            OutboxDelivery(duties=duties, courier=courier, settings=store.settings),
            TicketTopUp(duties=duties),
            IndexRepair(duties=duties, settings=store.settings),
            Retention(duties=duties, settings=store.settings),
        ],
        settings=store.settings,
        wait_for_nudge=duties.wait_for_nudge,
        stopping=stopping,
    )
