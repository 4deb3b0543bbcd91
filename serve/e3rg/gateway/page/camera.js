// @ts-check
// The speaker's camera: seen by themselves, and sent as stills.

import { borrow } from "./microphone.js";

const EVERY_MS = 700;
const WIDTH = 384; // enough for the face nets; about 20 kB a still

export class Camera {
  #timer = 0;
  #canvas = document.createElement("canvas");

  /**
   * @param {MediaStream} stream
   * @param {HTMLVideoElement} mirror shows it
   */
  constructor(stream, mirror) {
    this.stream = stream;
    this.mirror = mirror;
    mirror.srcObject = stream;
    mirror.play().catch(() => {});
  }

  /**
   * @param {HTMLVideoElement} mirror
   * @throws {import("./messages.js").Trouble} it cannot be had
   */
  static async open(mirror) {
    const wanted = { width: { ideal: 640 }, height: { ideal: 480 }, facingMode: "user" };
    return new Camera(await borrow("camera", { video: wanted }), mirror);
  }

  /** @param {(still: string) => void} seen given a data URL of a JPEG picture */
  watch(seen) {
    window.clearInterval(this.#timer);
    this.#timer = window.setInterval(() => {
      const still = document.hidden ? null : this.still();
      if (still) seen(still);
    }, EVERY_MS);
  }

  still() {
    const { videoWidth, videoHeight } = this.mirror;
    if (!videoWidth) return null;
    this.#canvas.width = WIDTH;
    this.#canvas.height = Math.round((WIDTH * videoHeight) / videoWidth);
    const context = this.#canvas.getContext("2d");
    context?.drawImage(this.mirror, 0, 0, this.#canvas.width, this.#canvas.height);
    return this.#canvas.toDataURL("image/jpeg", 0.75);
  }

  /** @param {() => void} call the device was taken away */
  set onended(call) {
    this.stream.getVideoTracks()[0].addEventListener("ended", call, { once: true });
  }

  close() {
    window.clearInterval(this.#timer);
    for (const track of this.stream.getTracks()) track.stop();
    this.mirror.srcObject = null;
  }
}
