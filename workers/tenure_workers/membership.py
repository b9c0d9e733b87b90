"""What an agent is to the store at one time: its session, its queue, and the lives it gives its slots."""

from __future__ import annotations

import secrets
import uuid
from typing import Final

from tenure.model.status import SessionState
from tenure.settings import Settings
from tenure.store.sessions import Catalogue, Registration
from tenure.wiring import Store
from tenure_workers.control import Control
from tenure_workers.inbox import Listener
from tenure_workers.place import Life
from tenure_workers.plan import Plan
from tenure_workers.registration import registration
from tenure_workers.renewal import Renewal
from tenure_workers.slot import GoAhead
from tenure_workers.telling import Retire, Teller

_PATIENCE_SECONDS: Final = 5.0


class Membership:
    """One session with the code that its slots have. Its renewal registers it, and says so in the inbox."""

    def __init__(
        self,
        *,
        session: str,
        plan: Plan,
        catalogue: Catalogue,
        store: Store,
        settings: Settings,
        inbox: Listener,
        teller: Teller,
    ) -> None:
        self.catalogue = catalogue
        #: What events of this session carry; one that is left of an earlier session is none of ours.
        self.nonce = uuid.uuid4().hex
        #: None while the store knows no such session.
        self.generation: int | None = None
        self._namespace = store.namespace
        self._teller = teller
        self._registration: Registration = registration(
            session=session,
            nonce=self.nonce,
            pool=plan.pool,
            slots=plan.slots,
            allocation=plan.allocation,
            catalogue=catalogue,
            keys=store.keys,
        )
        self.renewal = Renewal(
            sessions=store.sessions,
            client=store.client,
            registration=self._registration,
            settings=settings,
            inbox=inbox,
        )
        self._control = Control(sessions=store.sessions, session=session, inbox=inbox)
        self.renewal.start()
        self._control.start()

    def new_life(self, place: int) -> tuple[Life, GoAhead]:
        """A life for the slot of this place, and the message that begins it. Needs a generation."""
        assert self.generation is not None  # noqa: S101  # the caller has looked
        session, queue = self._registration.session, self._registration.queue
        life = Life(
            id=uuid.uuid4().hex[:16],
            worker=f"{self._namespace}-{session}-{place}-{secrets.token_hex(3)}",
            queue=queue,
        )
        go = GoAhead(
            life=life.id, session=session, generation=self.generation, queue=queue, worker=life.worker
        )
        return life, go

    def drain(self) -> None:
        """Say that the session takes no more work."""
        self._retire(SessionState.DRAINING)

    def end(self) -> None:
        """Say that the session has gone. Its renewal ends first, or it would register again."""
        self._control.close()
        self.renewal.close(_PATIENCE_SECONDS)
        self._retire(SessionState.GONE)
        self.generation = None

    def _retire(self, state: SessionState) -> None:
        if self.generation is not None:
            self._teller.tell(
                Retire(session=self._registration.session, generation=self.generation, state=state)
            )
