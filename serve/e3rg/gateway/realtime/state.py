"""What a realtime session and its client have agreed on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from e3rg.errors import E3RGError
from e3rg.gateway.bodies import voice_name
from e3rg.gateway.catalog import Model
from e3rg.gateway.conversation import Resumed, resume
from e3rg.gateway.ids import new_id
from e3rg.gateway.realtime.config import Settings, updated
from e3rg.gateway.realtime.events import Event
from e3rg.gateway.realtime.plan import Context
from e3rg.gateway.services import Services
from e3rg.gateway.voices import find_voice


class SessionState:
    """A session's settings, and the recorded conversation that it goes on with.

    Args:
        services: the gateway's parts.
        model: the listener.
        video: whether replies have pictures unless ``session.e3rg.video`` says otherwise.

    Attributes:
        settings: as the client has set them.
    """

    def __init__(self, services: Services, model: Model, *, video: bool) -> None:
        self.settings = Settings()
        self._services = services
        self._model = model
        self._video = video
        self._own_conversation = new_id("conv")
        self._earlier: Resumed | None = None

    async def change(self, session: Any) -> None:
        """Take new settings, or raise and change nothing.

        Raises:
            E3RGError: naming the field; ``model_missing`` where speech cannot be detected.
        """
        new = updated(self.settings, session)
        await _check(self._services, self._model, new)
        earlier = await _take_up(self._services, new, self._model, self.settings, self._earlier)
        if new.vad is not None:
            await asyncio.to_thread(self._services.vad.load)
        self.settings, self._earlier = new, earlier

    @property
    def context(self) -> Context:
        """What the session brings to a turn that begins now; once settings were taken."""
        assert self._earlier is not None
        return Context(self.settings, self._conversation, self._earlier, self._wants_video)

    def to_json(self) -> Event:
        """The settings as clients see them, with what follows from them."""
        assert self._earlier is not None
        shown = self.settings.model_dump()
        output = shown["audio"]["output"]
        output["voice"] = (
            voice_name(self.settings.audio.output.voice) or self._earlier.identity.voice
        )
        # Pipecat's client takes no session whose transcription has no model.
        if (transcription := shown["audio"]["input"]["transcription"]) is not None:
            transcription["model"] = (
                transcription["model"] or self._services.profile.stages.understanding.model
            )
        shown["e3rg"] |= {
            "identity": self._earlier.identity.id,
            "conversation": self._conversation,
            "video": self._wants_video,
        }
        return {**shown, "model": self._model.id}

    @property
    def _conversation(self) -> str:
        return self.settings.e3rg.conversation or self._own_conversation

    @property
    def _wants_video(self) -> bool:
        video = self.settings.e3rg.video
        return self._video if video is None else video


async def _take_up(
    services: Services,
    settings: Settings,
    model: Model,
    before: Settings,
    earlier: Resumed | None,
) -> Resumed:
    """Where the session's conversation stands after a change of settings.

    What is said in the session itself is not looked up again: its items hold it.

    Raises:
        E3RGError: ``unknown_identity``.
    """
    new, old = settings.e3rg, before.e3rg
    listener = model.listener(new.identity, "session.e3rg.identity")
    if earlier is None or (new.conversation, new.user) != (old.conversation, old.user):
        return await resume(services, new.conversation, new.user, listener)
    if new.identity == old.identity:
        return earlier
    return replace(earlier, identity=(await resume(services, None, None, listener)).identity)


async def _check(services: Services, model: Model, settings: Settings) -> None:
    """Check names that only the running system knows.

    Raises:
        E3RGError: ``model_not_found``, ``unknown_voice`` or ``cannot_update_model``.
    """
    if settings.model is not None:
        named = await services.catalog.find(settings.model, "listener")
        if named.id != model.id:
            raise E3RGError(
                "cannot_update_model",
                f"the session's model is {model.id}; connect anew for another",
                param="session.model",
            )
    transcription = settings.audio.input.transcription
    if transcription is not None and transcription.model is not None:
        await services.catalog.find(transcription.model, "transcription")
    voice = voice_name(settings.audio.output.voice)
    if voice is not None:
        await find_voice(services, voice, "session.audio.output.voice")
