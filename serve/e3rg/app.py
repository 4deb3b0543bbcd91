"""The whole composition: a profile becomes a bound Ray Serve graph.

``e3rg up`` runs it; so do Ray's own tools::

    serve run e3rg.app:app profile=local
    serve deploy <file that `serve build e3rg.app:app` wrote>
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from ray import serve

from e3rg.admission import deployment as admission
from e3rg.config import Profile, load_profile
from e3rg.gateway.deployment import GatewayDeployment
from e3rg.stages.avatar.deployment import AvatarDeployment
from e3rg.stages.deployment import bind
from e3rg.stages.dialogue.deployment import DialogueDeployment
from e3rg.stages.memory.deployment import MemoryDeployment
from e3rg.stages.speech.deployment import SpeechDeployment
from e3rg.stages.understanding.deployment import UnderstandingDeployment


class AppArguments(BaseModel):
    """Arguments of the application builder, as ``serve run`` and a Serve config pass them."""

    model_config = ConfigDict(extra="forbid")

    profile: str = "local"


def app(arguments: dict[str, str]) -> serve.Application:
    """Application builder for Serve's command line and config files."""
    # Serve passes a dict: it cannot see a model behind a postponed annotation.
    return build(load_profile(AppArguments.model_validate(arguments).profile))


def build(profile: Profile) -> serve.Application:
    """Bind the graph of a profile: the gateway over admission and one deployment for each stage."""
    stages = profile.stages
    drain_s = profile.turn.timeout_s + 30
    gateway = serve.deployment(
        name="gateway",
        num_replicas=profile.gateway.replicas,
        # Above the number of turns, so that "overloaded" is said by us and health is answered.
        max_ongoing_requests=profile.gateway.max_turns * 4 + 16,
        ray_actor_options={"num_cpus": 0},
        graceful_shutdown_timeout_s=drain_s,
    )(GatewayDeployment)
    return gateway.bind(
        profile,
        admission.bind(profile.admission),
        bind(UnderstandingDeployment, "understanding", stages.understanding, drain_s),
        bind(MemoryDeployment, "memory", stages.memory, drain_s),
        bind(DialogueDeployment, "dialogue", stages.dialogue, drain_s),
        bind(SpeechDeployment, "speech", stages.speech, drain_s),
        bind(AvatarDeployment, "avatar", stages.avatar, drain_s),
    )
