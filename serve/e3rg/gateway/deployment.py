"""The ingress on Ray Serve: the gateway's application over clients of the stages."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve.handle import DeploymentHandle

from e3rg.admission.deployment import AdmissionClient
from e3rg.config import Profile
from e3rg.gateway.http import build_app
from e3rg.gateway.services import Services
from e3rg.stages.avatar.deployment import AvatarClient
from e3rg.stages.dialogue.deployment import DialogueClient
from e3rg.stages.memory.deployment import MemoryClient
from e3rg.stages.speech.deployment import SpeechClient
from e3rg.stages.understanding.deployment import UnderstandingClient
from e3rg.turn.state import Stages

Handle = DeploymentHandle[Any]


@serve.ingress()
class GatewayDeployment:
    """Serves HTTP; holds one conductor for each turn."""

    def __init__(
        self,
        profile: Profile,
        admission: Handle,
        understanding: Handle,
        memory: Handle,
        dialogue: Handle,
        speech: Handle,
        avatar: Handle,
    ) -> None:
        stages = Stages(
            UnderstandingClient(understanding, "understanding"),
            MemoryClient(memory, "memory"),
            DialogueClient(dialogue, "dialogue"),
            SpeechClient(speech, "speech"),
            AvatarClient(avatar, "avatar"),
        )
        self._services = Services.create(profile, stages, AdmissionClient(admission))

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Called by Serve once the replica is made."""
        return build_app(self._services, proxied=True)
