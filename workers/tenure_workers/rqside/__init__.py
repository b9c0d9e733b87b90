"""The workers' only touch point with RQ: the jobs a slot takes, its loop, and what its agent keeps up.

An RQ job is a ticket: it says that a queue has work, and nothing else of it is used (G10, G18).
"""

from tenure_workers.rqside.tickets import NoDeathPenalty, TicketJob, TicketQueue, poison_key
from tenure_workers.rqside.upkeep import (
    Leftovers,
    LiveWorker,
    forget_worker,
    renew_rq_entries,
    unblock_workers,
)
from tenure_workers.rqside.worker import SlotWorker, connect_for_rq

__all__ = [
    "Leftovers",
    "LiveWorker",
    "NoDeathPenalty",
    "SlotWorker",
    "TicketJob",
    "TicketQueue",
    "connect_for_rq",
    "forget_worker",
    "poison_key",
    "renew_rq_entries",
    "unblock_workers",
]
