// @ts-check
// A realtime session: the events of OpenAI's API, and this server's own (`e3rg`).
// https://platform.openai.com/docs/api-reference/realtime

import { base64, bytes, samples } from "./bytes.js";
import { trouble } from "./messages.js";

/** @typedef {import("./exchange.js").Exchange} Exchange */

const RATE = 24_000; // of PCM16 both ways
const SILENT_MS = 2_000; // after which an answer that has ended will not be heard

/**
 * What a session tells its page.
 * @typedef {object} Listener
 * @property {() => Exchange} answering a response begins
 * @property {() => number} speaking the person has begun to speak; returns seconds heard of the answer
 * @property {() => void} spoke the person has ended
 * @property {(text: string) => void} heard the person's words
 * @property {(heardAll: boolean) => void} answered a response has ended
 * @property {() => void} sounding media tracks begin to play the answer
 * @property {() => void} silent media tracks have played the answer to its end
 * @property {(why: import("./messages.js").Trouble) => void} failed something did not work; it goes on
 */

/**
 * The session that is asked for.
 * @param {import("./types.js").Asking} asking
 * @param {boolean} inEvents pictures come as events, if at all
 */
export function sessionOf({ identity, conversation, choices }, inEvents) {
  const { reply, policy, user } = choices;
  return {
    type: "realtime",
    output_modalities: [reply === "text" ? "text" : "audio"],
    audio: {
      input: { turn_detection: { type: "server_vad", create_response: true, interrupt_response: true } },
    },
    e3rg: { identity, conversation, policy, user, ...(inEvents ? { video: reply === "video" } : {}) },
  };
}

export class Realtime {
  /** @type {import("./socket.js").Channel | null} */
  channel = null;
  /** @type {Exchange | null} */
  #reply = null;
  #response = "";
  #item = "";
  #sound = 0; // samples of the reply so far
  #tracked = false; // media come as tracks
  #sounded = false; // tracks have begun to play the answer

  /**
   * @param {import("./types.js").Asking} asking
   * @param {Listener} listener
   */
  constructor(asking, listener) {
    this.asking = asking;
    this.listener = listener;
  }

  /** @param {import("./socket.js").Channel} channel */
  start(channel) {
    this.channel = channel;
    this.#tracked = channel.media !== null;
    if (!this.#tracked) this.#configure(); // a call has brought its session with it
  }

  /** The choices have changed. @param {import("./types.js").Asking} asking */
  update(asking) {
    this.asking = asking;
    this.#configure();
  }

  #configure() {
    this.#send("session.update", { session: sessionOf(this.asking, !this.#tracked) });
  }

  /** @param {Int16Array} pcm at 24 kHz */
  hear(pcm) {
    if (!this.channel?.behind) this.#send("input_audio_buffer.append", { audio: base64(pcm) });
  }

  /** @param {string} still data URL of a JPEG picture */
  see(still) {
    if (!this.channel?.behind) this.#send("e3rg.input_image.append", { image: still });
  }

  /** @param {string} text */
  say(text) {
    this.#send("conversation.item.create", {
      item: { type: "message", role: "user", content: [{ type: "input_text", text }] },
    });
    this.#send("response.create");
  }

  /** Stop the answer. @param {number} seconds that were heard of it */
  interrupt(seconds) {
    if (this.#response) this.#send("response.cancel", { response_id: this.#response });
    if (this.#tracked) this.#send("output_audio_buffer.clear");
    this.#truncate(seconds);
    this.#reply = null;
  }

  /** The microphone was switched off: what it holds is not an utterance. */
  forgetSound() {
    this.#send("input_audio_buffer.clear");
  }

  close() {
    this.#reply = null;
    this.channel?.close();
    this.channel = null;
  }

  /** @param {any} event of the server */
  receive(event) {
    const { type } = event;
    switch (type) {
      case "error":
        if (event.error.code === "response_cancel_not_active") return; // it had just ended
        this.listener.failed(trouble(event.error));
        return;
      case "input_audio_buffer.speech_started": this.#interrupted(); return;
      case "input_audio_buffer.speech_stopped": this.listener.spoke(); return;
      case "conversation.item.input_audio_transcription.completed":
        this.listener.heard(event.transcript);
        return;
      case "response.created":
        this.#response = event.response.id;
        this.#item = "";
        this.#sound = 0;
        this.#sounded = false;
        this.#reply = this.listener.answering();
        return;
      case "output_audio_buffer.started":
        this.#sounded = true;
        this.listener.sounding();
        return;
      case "output_audio_buffer.stopped": this.listener.silent(); return;
    }
    const about = event.response_id ?? event.response?.id;
    if (this.#reply && about === this.#response) this.#answer(type, event, this.#reply);
    if (type === "response.done" && about === this.#response) this.#response = "";
  }

  /**
   * @param {string} type
   * @param {any} event
   * @param {Exchange} reply
   */
  #answer(type, event, reply) {
    switch (type) {
      case "response.e3rg.emotion": reply.emotion(event.emotion); break;
      case "response.e3rg.memory": reply.memory(event.memory); break;
      case "response.e3rg.degraded": reply.degraded(event); break;
      case "response.e3rg.spoken": reply.piece(event); break;
      case "response.e3rg.timings": reply.timings(event.timings, event.turn); break;
      case "response.output_item.added": this.#item = event.item.id; break;
      case "response.output_text.delta":
      case "response.output_audio_transcript.delta": reply.text(event.delta); break;
      case "response.output_audio.delta": this.#chunk(samples(event.delta), reply); break;
      case "response.e3rg.video.delta":
        reply.segment({ mime: event.mime, frames: event.frames, data: bytes(event.delta) });
        break;
      case "response.done": this.#done(event.response, reply); break;
    }
  }

  /**
   * @param {Int16Array} pcm
   * @param {Exchange} reply
   */
  #chunk(pcm, reply) {
    const start = this.#sound / RATE;
    this.#sound += pcm.length;
    reply.chunk({ text: "", start, duration: pcm.length / RATE, rate: RATE, pcm });
  }

  /**
   * @param {any} response
   * @param {Exchange} reply
   */
  #done({ status, status_details: details }, reply) {
    if (status === "failed") {
      this.listener.failed(trouble(details?.error ?? {}));
      reply.stop("broken off");
    } else if (status === "cancelled") {
      reply.stop();
    } else if (!this.#tracked) {
      reply.finish();
    } else if (!this.#sounded) {
      // Tracks tell when they have played it; an answer without sound ends here.
      setTimeout(() => {
        if (!this.#sounded) reply.finish();
      }, SILENT_MS);
    }
    this.listener.answered(status === "completed" || status === "incomplete");
  }

  // The server has stopped the answer already; it is told how much of it was heard.
  #interrupted() {
    this.#truncate(this.listener.speaking());
    this.#reply = null;
  }

  /** @param {number} seconds */
  #truncate(seconds) {
    if (this.#item && this.#sound && !this.#tracked) {
      const sent = (1000 * this.#sound) / RATE;
      const audio_end_ms = Math.floor(Math.min(1000 * seconds, sent));
      this.#send("conversation.item.truncate", { item_id: this.#item, content_index: 0, audio_end_ms });
    }
    this.#item = "";
  }

  /**
   * @param {string} type
   * @param {object} [fields]
   */
  #send(type, fields = {}) {
    this.channel?.send({ type, ...fields });
  }
}
