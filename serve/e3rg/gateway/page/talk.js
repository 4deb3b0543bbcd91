// @ts-check
// The conversation: what is said goes by the turn's own way or by the open session; one answer at a time.

import { Exchange } from "./exchange.js";
import { newId } from "./ids.js";
import { Live } from "./live.js";
import { say } from "./typed.js";

/** @typedef {import("./messages.js").Trouble} Trouble */
/** @typedef {"rest" | "hearing" | "thinking" | "speaking"} Phase */

/**
 * Events: `phase` (detail: Phase), `trouble` (detail: {why: Trouble, text: what was not said}),
 * `lost` (detail: Trouble; `live.reopen()` goes on).
 */
export class Talk extends EventTarget {
  /** @type {Phase} */
  phase = "rest";
  conversation = newId("conv");
  /** @type {Exchange | null} */
  #exchange = null;
  /** @type {AbortController | null} */
  #typed = null;

  /**
   * @param {import("./exchange.js").View} view
   * @param {import("./identities.js").Identities} identities
   * @param {import("./settings.js").Settings} settings
   * @param {HTMLVideoElement} mirror
   */
  constructor(view, identities, settings, mirror) {
    super();
    this.view = view;
    this.identities = identities;
    this.settings = settings;
    view.player.addEventListener("begun", () => this.#enter("speaking"));
    view.player.addEventListener("silent", () => this.#heard());
    this.live = new Live(mirror, () => this.#asking(), {
      answering: () => this.#answer(),
      speaking: () => {
        const seconds = this.#exchange?.stop() ?? 0;
        this.#enter("hearing");
        return seconds;
      },
      spoke: () => this.#enter("thinking"),
      heard: (text) => {
        if (text.trim()) view.log.add("you", "You", text.trim(), true);
      },
      answered: () => this.#settle(),
      sounding: () => {
        view.player.sounding();
        this.#enter("speaking");
      },
      silent: () => this.#heard(),
      tracks: (media) => view.player.attach(media),
      failed: (why) => this.#tell("trouble", { why, text: "" }),
      lost: (why) => {
        this.#exchange?.stop("connection lost");
        this.#settle();
        this.#tell("lost", why);
      },
    });
  }

  /** @param {string} text */
  async say(text) {
    this.interrupt();
    this.view.player.unlock();
    this.view.log.add("you", "You", text, false);
    this.#enter("thinking");
    if (this.live.session) {
      this.live.session.say(text);
      return;
    }
    const typed = (this.#typed = new AbortController());
    const reply = this.#answer();
    try {
      await say(text, this.#asking(), reply, typed.signal);
    } catch (why) {
      reply.stop("broken off");
      this.#tell("trouble", { why, text });
    } finally {
      if (this.#typed === typed) this.#typed = null;
      this.#settle();
    }
  }

  /** Stop the answer, here and on the server. */
  interrupt() {
    const seconds = this.#exchange?.stop() ?? 0;
    this.#typed?.abort();
    this.#typed = null;
    if (this.phase !== "rest") this.live.session?.interrupt(seconds);
    this.#enter("rest");
  }

  /** Begin anew, with whoever is chosen. */
  async restart() {
    this.interrupt();
    this.conversation = newId("conv");
    this.view.panels.clear();
    await this.live.reopen();
  }

  #answer() {
    this.#exchange?.stop();
    const name = this.identities.chosen?.name ?? "The listener";
    this.#exchange = new Exchange(this.view, name, this.settings.choices.reply === "video");
    this.#enter("thinking");
    return this.#exchange;
  }

  #heard() {
    this.#exchange?.heard();
    this.#settle();
  }

  #settle() {
    if (this.phase !== "hearing" && !this.#exchange?.live && !this.#typed) this.#enter("rest");
  }

  /** @returns {import("./types.js").Asking} */
  #asking() {
    return {
      identity: this.identities.chosen?.id ?? "",
      conversation: this.conversation,
      choices: this.settings.choices,
    };
  }

  /** @param {Phase} phase */
  #enter(phase) {
    if (phase === this.phase) return;
    this.phase = phase;
    this.#tell("phase", phase);
  }

  /**
   * @param {string} name
   * @param {unknown} detail
   */
  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
