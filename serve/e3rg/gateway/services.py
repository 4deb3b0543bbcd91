"""What the routes need, made once for each gateway replica."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from e3rg.admission.contracts import Admission
from e3rg.admission.controller import AdmissionController
from e3rg.config import Profile, data_dir, database_url, model_dir
from e3rg.gateway.admitting import Admitter, ProfileLimits
from e3rg.gateway.catalog import Catalog
from e3rg.gateway.idempotency import Idempotency
from e3rg.gateway.places import Places
from e3rg.gateway.turns import TurnRunner
from e3rg.gateway.videos.videos import Videos
from e3rg.identities.store import IdentityStore
from e3rg.identities.types import Identity, PortraitRef
from e3rg.media.clips import ClipStore
from e3rg.media.decoder import MediaDecoder
from e3rg.media.limits import MediaLimits
from e3rg.media.types import Clip
from e3rg.models.store import ModelStore
from e3rg.records.database import Database
from e3rg.records.idempotency import IdempotencyRow, IdempotencyStore
from e3rg.records.ledger import UsageLedger
from e3rg.records.turns import TurnStore
from e3rg.records.usage import UsageRow
from e3rg.turn.state import Stages
from e3rg.vad.silero import SileroVad


@dataclass(frozen=True, slots=True)
class Services:
    """The gateway's parts.

    Attributes:
        admitter: asks for leases, over all replicas.
        runner: runs turns, a bounded number at once.
        idempotency: requests that are sent again.
        calls: places for calls of one stage alone (chat with the bare model, speech, ...).
        catalog: the models that clients may name.
        sessions: places for realtime sessions, whatever carries them.
        vad: hears where speech begins and ends.
        videos: turns as jobs.
        own_admission: admission that is this gateway's alone, and ends with it.
    """

    profile: Profile
    stages: Stages
    identities: IdentityStore
    database: Database
    turns: TurnStore
    clips: ClipStore
    decoder: MediaDecoder
    admitter: Admitter
    runner: TurnRunner
    idempotency: Idempotency
    calls: Places
    catalog: Catalog
    sessions: Places
    vad: SileroVad
    videos: Videos
    own_admission: AdmissionController | None = None

    @classmethod
    def create(
        cls,
        profile: Profile,
        stages: Stages,
        admission: Admission | None = None,
    ) -> Self:
        """Open the stores under the data folder.

        Args:
            profile: the whole system's.
            stages: where the work is done.
            admission: the system's; one of its own if None.
        """
        data = data_dir()
        database = Database(database_url())
        turns = TurnStore(database)
        database.create(IdempotencyRow)
        database.create(UsageRow)
        clips = ClipStore(data / "clips")
        identities = IdentityStore(data / "identities")
        own = None
        if admission is None:
            own = AdmissionController(profile.admission, UsageLedger(database))
            admission = own
        directory = ProfileLimits(profile.admission)
        admitter = Admitter(admission, directory, profile.admission)
        runner = TurnRunner(stages, turns, clips, profile.gateway.max_turns, admitter)
        return cls(
            profile=profile,
            stages=stages,
            identities=identities,
            database=database,
            turns=turns,
            clips=clips,
            decoder=MediaDecoder(),
            admitter=admitter,
            runner=runner,
            idempotency=Idempotency(IdempotencyStore(database), profile.turn.timeout_s + 30),
            calls=Places(profile.gateway.max_calls),
            catalog=Catalog(profile, identities),
            sessions=Places(profile.gateway.max_sessions),
            vad=SileroVad(ModelStore(model_dir())),
            videos=Videos.create(database, data / "videos", runner, identities, profile.turn),
            own_admission=own,
        )

    async def close(self) -> None:
        """End what runs and release everything."""
        await self.runner.close()
        await self.admitter.close()
        if self.own_admission is not None:
            await self.own_admission.close()
        self.decoder.close()
        self.database.close()

    async def decode(
        self, path: Path, kind: Literal["audio", "video"], param: str | None = None
    ) -> Clip:
        """Decode an upload within the profile's limits; errors name ``param``, else the kind."""
        turn = self.profile.turn
        limits = MediaLimits(max_bytes=turn.max_upload_bytes, max_seconds=turn.max_audio_s)
        return await self.decoder.decode(path, kind, limits, param or kind)

    async def listener(self, identity: str | None) -> Identity:
        """An identity by id, or the default one.

        Raises:
            E3RGError: ``unknown_identity`` (404).
        """
        store = self.identities
        if identity is None:
            return await asyncio.to_thread(store.default)
        return await asyncio.to_thread(store.get, identity)

    async def accept_portrait(self, portrait: bytes) -> PortraitRef:
        """Preflight a portrait and keep it for this turn.

        Raises:
            E3RGError: as AvatarEngine.inspect.
        """
        await self.stages.avatar.inspect(portrait)
        return await asyncio.to_thread(self.identities.put_portrait, portrait)
