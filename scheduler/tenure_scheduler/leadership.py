"""Who leads among several schedulers: the holder of a short lease in the store.

The lease only keeps the others quiet. What makes a duty safe is the token, which every write of a duty
carries: a leader that was paused past its lease can change nothing once another one leads.
"""

from __future__ import annotations

from tenure.settings import Settings
from tenure.store.duties import DutyStore, Following, Leading
from tenure_scheduler.contact import Contact


class Leadership:
    """One scheduler's part in it. `owner` is an id that no other process has."""

    def __init__(self, *, duties: DutyStore, owner: str, settings: Settings, contact: Contact) -> None:
        self._duties = duties
        self._contact = contact
        self._settings = settings
        self.owner = owner

    def attend(self) -> Leading | Following:
        """Win the leadership, renew it, or learn that another one has it.

        Raises:
            StoreUnreachable, Unconfirmed: presume it lost and attend again; one's own lease is found again.
        """
        standing = self._duties.lead(self.owner, lease=self._settings.leadership, grace=self._settings.lease)
        self._contact.heard()
        return standing

    def resign(self) -> None:
        """Let go, so that a standby leads at once. Does nothing for who does not lead."""
        self._duties.resign(self.owner)
