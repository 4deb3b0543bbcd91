"""What a request may spend and which pools it needs, before it has begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from e3rg.admission.contracts import Offer, Spend
from e3rg.stages.avatar.engine import FPS
from e3rg.stages.dialogue.engine import DialogueRequest
from e3rg.turn.request import Concession, Modality, TurnRequest

# A prompt's own words (the listener's character, the emotion, exemplars, episodes) in tokens; and
# the fewest characters of English that make a token. Both on the safe side: what is reserved too
# much is given back at the end.
_PROMPT_TOKENS, _CHARS_A_TOKEN = 500, 2
# The slowest of the voices speaks four tokens in a second.
_MS_A_TOKEN = 250
# Speech has about 15 characters in a second; digits and signs are read as whole words.
_MS_A_CHAR, _MS_A_TEXT = 250, 1000
EMBEDDED_TOKENS = 128
"""The embedder's window."""


def turn_offers(request: TurnRequest) -> tuple[Offer, ...]:
    """The ways to serve a turn, the best first; one where it may not be degraded."""
    spend = turn_estimate(request)
    needs: dict[str, float] = {"memory": 1, "dialogue": 1, "understanding": 1}
    offers = []
    if request.reply_with is Modality.VIDEO:
        voiced = {**needs, "speech": 1}
        offers.append(Offer("video", {**voiced, "avatar": FPS}, spend))
        # One picture, encoded here: the avatar draws it once.
        offers.append(Offer("still", voiced, spend))
    if request.reply_with is not Modality.TEXT:
        unseen = replace(spend, video_frames=0)
        offers.append(Offer("audio", {**needs, "speech": 1}, unseen))
    unheard = replace(spend, video_frames=0, audio_out_ms=0)
    offers.append(Offer("text", needs, unheard))
    return tuple(offers) if request.may_degrade else (offers[0],)


def turn_estimate(request: TurnRequest) -> Spend:
    """The most that a turn can spend."""
    said = len(request.text or "") + sum(len(each.content) for each in request.history)
    told = len(request.instructions) + len(request.identity.profile)
    heard = request.audio.seconds if request.audio is not None else 0.0
    spoken = 0
    if request.reply_with is not Modality.TEXT:
        spoken = round(request.max_tokens * _MS_A_TOKEN / min(request.speed, 1.0))
    seen = spoken * FPS // 1000 if request.reply_with is Modality.VIDEO else 0
    prompt = _PROMPT_TOKENS + (said + told) // _CHARS_A_TOKEN + round(heard * 4)
    return Spend(prompt, request.max_tokens, round(heard * 1000), spoken, seen)


def conceded(request: TurnRequest, offer: str) -> TurnRequest:
    """The turn as it can be served now, saying what is given up and why."""
    wanted = request.reply_with
    if offer == wanted:
        return request
    concession = Concession(
        str(wanted),
        offer,
        "overloaded",
        f"no room for {wanted} just now, so you get {offer}; send degrade: never to be refused "
        "instead",
    )
    if offer == "still":
        return replace(request, still=True, concession=concession)
    return replace(request, reply_with=Modality(offer), concession=concession)


def chat_estimate(asked: DialogueRequest, window: int) -> Spend:
    """The most that a call of the language model alone can spend.

    Args:
        asked: the call.
        window: tokens that it writes at most where the call sets no limit of its own.
    """
    chars = sum(len(message.content) for message in asked.messages)
    return Spend(_PROMPT_TOKENS + chars // _CHARS_A_TOKEN, asked.max_tokens or window)


def hearing_estimate(seconds: float) -> Spend:
    """What the recogniser spends on so many seconds of sound."""
    return Spend(audio_in_ms=round(seconds * 1000))


def speech_estimate(text: str, speed: float) -> Spend:
    """The most that the voice can spend on a text."""
    return Spend(audio_out_ms=round(len(text) * _MS_A_CHAR / min(speed, 1.0)) + _MS_A_TEXT)


def embedding_estimate(texts: Sequence[str]) -> Spend:
    """The most that the embedder can spend: it cuts texts to its window."""
    return Spend(prompt_tokens=sum(min(len(text), EMBEDDED_TOKENS) + 2 for text in texts))
