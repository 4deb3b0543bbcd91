// @ts-check
// A turn that was typed: POST /v1/turns, answered by server-sent events.

import { bytes, samples } from "./bytes.js";
import { LOST, refusal, Trouble, trouble } from "./messages.js";
import { events } from "./sse.js";

/** @typedef {import("./exchange.js").Exchange} Exchange */

/**
 * Say something and feed the answer into an exchange.
 * @param {string} text
 * @param {import("./types.js").Asking} asking
 * @param {Exchange} reply
 * @param {AbortSignal} signal
 * @throws {Trouble} in plain words; nothing when it was aborted
 */
export async function say(text, { identity, conversation, choices }, reply, signal) {
  let turn = "";
  let completed = false;
  try {
    const response = await fetch("/v1/turns", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        text,
        identity,
        conversation,
        reply_with: choices.reply,
        policy: choices.policy,
        ...(choices.user ? { user: choices.user } : {}),
      }),
      signal,
    });
    if (!response.ok || !response.body) throw await refusal(response);
    for await (const { event, data } of events(response.body)) {
      if (signal.aborted) return;
      if (event === "turn.created") turn = data.id;
      if (event === "error") throw trouble(data.error);
      if (event === "turn.completed") completed = true;
      take(event, data, reply, turn);
    }
    if (!completed) throw new Trouble(LOST, "lost");
  } catch (error) {
    if (signal.aborted) return;
    throw error instanceof Trouble ? error : new Trouble(LOST, "lost");
  }
}

/**
 * @param {string} event
 * @param {any} data
 * @param {Exchange} reply
 * @param {string} turn
 */
function take(event, data, reply, turn) {
  switch (event) {
    case "emotion": reply.emotion(data); break;
    case "memory": reply.memory(data); break;
    case "text.delta": reply.text(data.text); break;
    case "audio.chunk":
      reply.piece(data);
      reply.chunk({ ...data, rate: data.sample_rate, pcm: samples(data.data) });
      break;
    case "video.segment":
      reply.segment({ mime: data.mime, frames: data.frames, data: bytes(data.data) });
      break;
    case "degraded": reply.degraded(data); break;
    case "turn.completed":
      reply.timings(data.timings, turn);
      reply.finish();
      break;
  }
}
