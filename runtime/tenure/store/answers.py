"""What each script may answer, as closed enums. A script answers by name; any other name is an error."""

from enum import StrEnum


class StartAnswer(StrEnum):
    CREATED = "created"
    EXISTS = "exists"
    CONFLICT = "conflict"
    DELETED = "deleted"
    STALE = "stale"


class ClaimAnswer(StrEnum):
    GRANTED = "granted"
    NOTHING = "nothing"
    SUPERSEDED = "superseded"
    CLOSED = "closed"


class MarkStartedAnswer(StrEnum):
    STARTED = "started"
    CANCELLED = "cancelled"
    LEASE_LOST = "lease_lost"
    SUPERSEDED = "superseded"
    CLOSED = "closed"


class RetryAnswer(StrEnum):
    IN_PLACE = "in_place"
    CANCELLED = "cancelled"
    DUE = "due"
    LEASE_LOST = "lease_lost"
    SUPERSEDED = "superseded"
    CLOSED = "closed"


class StepAnswer(StrEnum):
    STEPPED = "stepped"
    FRAME_LOST = "frame_lost"
    LEASE_LOST = "lease_lost"
    SUPERSEDED = "superseded"
    CLOSED = "closed"


class RescheduleAnswer(StrEnum):
    RESCHEDULED = "rescheduled"
    CANCELLED = "cancelled"
    LEASE_LOST = "lease_lost"
    SUPERSEDED = "superseded"
    CLOSED = "closed"


class WriteParamsAnswer(StrEnum):
    WRITTEN = "written"
    LEASE_LOST = "lease_lost"


class ReportAnswer(StrEnum):
    REPORTED = "reported"
    LEASE_LOST = "lease_lost"
    SUPERSEDED = "superseded"
    CLOSED = "closed"


class RegisterAnswer(StrEnum):
    REGISTERED = "registered"
    TAKEN = "taken"


class RenewAnswer(StrEnum):
    RENEWED = "renewed"
    GONE = "gone"


class AbandonAnswer(StrEnum):
    ABANDONED = "abandoned"


class RetireAnswer(StrEnum):
    RETIRED = "retired"
    LIVE = "live"
    GRACE = "grace"
    SUPERSEDED = "superseded"
    NOT_LEADER = "not_leader"


class LeadAnswer(StrEnum):
    LEADING = "leading"
    FOLLOWING = "following"
    RESIGNED = "resigned"


class ScanAnswer(StrEnum):
    PAGE = "page"


class TakeoverAnswer(StrEnum):
    TAKEN = "taken"
    LIVE = "live"
    GRACE = "grace"
    UNREADABLE = "unreadable"
    UNREADABLE_HEADER = "unreadable_header"
    NOT_LEADER = "not_leader"


class DueAnswer(StrEnum):
    DISPATCHED = "dispatched"
    NOT_DUE = "not_due"
    UNREADABLE = "unreadable"
    UNREADABLE_HEADER = "unreadable_header"
    NOT_LEADER = "not_leader"


class PlaceAnswer(StrEnum):
    PLACED = "placed"
    PARKED = "parked"
    STALE = "stale"
    NOT_WAITING = "not_waiting"
    UNREADABLE = "unreadable"
    UNREADABLE_HEADER = "unreadable_header"
    NOT_LEADER = "not_leader"


class EvictAnswer(StrEnum):
    BUSY = "busy"
    EVICTED = "evicted"
    NOT_LEADER = "not_leader"


class TopUpAnswer(StrEnum):
    TOPPED_UP = "topped_up"
    NOT_LEADER = "not_leader"


class RepairAnswer(StrEnum):
    CHECKED = "checked"
    ENDED = "ended"
    UNREADABLE_HEADER = "unreadable_header"
    NOT_LEADER = "not_leader"


class CancelAnswer(StrEnum):
    """What a cancellation has come to."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    UNKNOWN = "unknown"
    ALREADY_TERMINAL = "already_terminal"
    NOT_FOUND = "not_found"
    UNREADABLE_HEADER = "unreadable_header"


class OverdueAnswer(StrEnum):
    ENDED = "ended"
    REQUESTED = "requested"
    NOT_DUE = "not_due"
    UNREADABLE_HEADER = "unreadable_header"
    NOT_LEADER = "not_leader"


class SaveAnswer(StrEnum):
    SAVED = "saved"
    EXISTS = "exists"
    DELETED = "deleted"
    LEASE_LOST = "lease_lost"
    MOVED_ON = "moved_on"
    RECORDED = "recorded"
    ENGINE_OWNED = "engine_owned"
    IN_DOUBT = "in_doubt"
    UNREADABLE = "unreadable"


class DeleteAnswer(StrEnum):
    DELETED = "deleted"
    UNKNOWN = "unknown"
    IN_DOUBT = "in_doubt"


class ForgetAnswer(StrEnum):
    FORGOTTEN = "forgotten"
    KEPT = "kept"
    UNREADABLE_END = "unreadable_end"
    NOT_LEADER = "not_leader"


class DeliverAnswer(StrEnum):
    REMOVED = "removed"
    DEFERRED = "deferred"
    DROPPED = "dropped"
    GONE = "gone"
    UNREADABLE = "unreadable"
    NOT_LEADER = "not_leader"


#: One entry per `.lua` file that is a script.
ANSWERS: dict[str, type[StrEnum]] = {
    "start": StartAnswer,
    "claim": ClaimAnswer,
    "mark_started": MarkStartedAnswer,
    "retry": RetryAnswer,
    "step": StepAnswer,
    "reschedule": RescheduleAnswer,
    "cancel": CancelAnswer,
    "overdue": OverdueAnswer,
    "write_params": WriteParamsAnswer,
    "report": ReportAnswer,
    "register": RegisterAnswer,
    "renew": RenewAnswer,
    "abandon": AbandonAnswer,
    "retire": RetireAnswer,
    "lead": LeadAnswer,
    "scan": ScanAnswer,
    "takeover": TakeoverAnswer,
    "due": DueAnswer,
    "place": PlaceAnswer,
    "evict": EvictAnswer,
    "top_up": TopUpAnswer,
    "repair": RepairAnswer,
    "save": SaveAnswer,
    "delete": DeleteAnswer,
    "forget": ForgetAnswer,
    "deliver": DeliverAnswer,
}
