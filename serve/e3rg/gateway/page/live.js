// @ts-check
// Microphone and camera, and the realtime session that carries them while one of them is on.

import { openCall } from "./call.js";
import { Camera } from "./camera.js";
import { Microphone } from "./microphone.js";
import { Trouble } from "./messages.js";
import { Realtime, sessionOf } from "./realtime.js";
import { openSocket } from "./socket.js";

/** @typedef {"microphone" | "camera"} Device */

/** Events: `change` (a device or the connection), `level` (detail: loudness, 0 to 1). */
export class Live extends EventTarget {
  /** @type {Realtime | null} */
  session = null;
  /** @type {Microphone | null} */
  microphone = null;
  /** @type {Camera | null} */
  camera = null;
  /** @type {AbortController | null} ends the session that is open or being opened */
  #leaving = null;
  /** @type {Promise<void> | null} */
  #opening = null;
  /** @type {Set<Device>} */
  #switching = new Set();

  /**
   * @param {HTMLVideoElement} mirror shows the person to themselves
   * @param {() => import("./types.js").Asking} asking
   * @param {import("./realtime.js").Listener & {lost: (why: Trouble) => void, tracks: (media: MediaStream | null) => void}} listener
   */
  constructor(mirror, asking, listener) {
    super();
    this.mirror = mirror;
    this.asking = asking;
    this.listener = listener;
  }

  /** A session is being opened. */
  get opening() {
    return this.#opening !== null && this.session === null;
  }

  /** @param {Device} device */
  isOn(device) {
    return this[device] !== null;
  }

  /**
   * Switch a device; a second click while it is being switched does nothing.
   * @param {Device} device
   * @throws {Trouble}
   */
  async toggle(device) {
    if (this.#switching.has(device)) return;
    this.#switching.add(device);
    try {
      if (this.isOn(device)) this.#release(device);
      else await this.#take(device);
    } finally {
      this.#switching.delete(device);
      this.#changed();
    }
  }

  /** Begin a new session with what holds now, if one is open. */
  async reopen() {
    this.#leave();
    try {
      if (!this.microphone && !this.camera) return;
      await this.#open();
      if (this.microphone) await this.#connect("microphone");
      if (this.camera) await this.#connect("camera");
    } finally {
      this.#changed();
    }
  }

  /** The choices have changed. */
  update() {
    this.session?.update(this.asking());
  }

  /** Everything off. */
  close() {
    this.#release("microphone");
    this.#release("camera");
    this.#changed();
  }

  /** @param {Device} device */
  async #take(device) {
    const lost = () => {
      this.#release(device);
      this.#changed();
      this.listener.failed(new Trouble(`The ${device} was disconnected. You can go on by typing.`));
    };
    if (device === "microphone") this.microphone = await Microphone.open();
    else this.camera = await Camera.open(this.mirror);
    try {
      await this.#open();
      await this.#connect(device);
    } catch (error) {
      this.#release(device);
      throw error;
    }
    const taken = this[device];
    if (taken) taken.onended = lost;
  }

  /** Open a session, unless one is open or being opened. */
  async #open() {
    this.#opening ??= this.#begin();
    this.#changed();
    try {
      await this.#opening;
    } catch (error) {
      this.#opening = null;
      throw error;
    }
  }

  async #begin() {
    const leaving = (this.#leaving = new AbortController());
    const asking = this.asking();
    const session = new Realtime(asking, this.listener);
    const channel = await this.#channel(asking, session, leaving.signal);
    if (leaving.signal.aborted) {
      channel.close();
      return;
    }
    session.start(channel);
    this.session = session;
    this.listener.tracks(channel.media);
  }

  /**
   * @param {import("./types.js").Asking} asking
   * @param {Realtime} session
   * @param {AbortSignal} signal
   */
  async #channel(asking, session, signal) {
    const { connection, reply } = asking.choices;
    /** @param {any} event */
    const received = (event) => session.receive(event);
    /** @param {Trouble} why */
    const lost = (why) => {
      this.#leave();
      this.#changed();
      this.listener.lost(why);
    };
    const call = () => openCall(sessionOf(asking, false), reply === "video", received, lost, signal);
    if (connection === "webrtc") return call();
    try {
      return await openSocket(received, lost, signal);
    } catch (error) {
      // Some proxies let no WebSocket through.
      if (connection === "websocket" || signal.aborted) throw error;
      return call();
    }
  }

  /** @param {Device} device */
  async #connect(device) {
    if (device === "camera") {
      this.camera?.watch((still) => this.session?.see(still));
    } else {
      const channel = this.session?.channel;
      await channel?.speak?.(this.microphone?.track ?? null);
      await this.microphone?.listen((pcm, level) => {
        if (!channel?.speak) this.session?.hear(pcm);
        this.dispatchEvent(new CustomEvent("level", { detail: level }));
      });
    }
  }

  /** @param {Device} device */
  #release(device) {
    this[device]?.close();
    this[device] = null;
    if (device === "microphone") {
      this.session?.channel?.speak?.(null);
      this.session?.forgetSound();
    }
    if (!this.microphone && !this.camera) this.#leave();
  }

  #leave() {
    this.#leaving?.abort();
    this.#opening = null;
    this.session?.close();
    this.session = null;
    this.listener.tracks(null);
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
