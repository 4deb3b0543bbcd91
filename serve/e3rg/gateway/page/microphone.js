// @ts-check
// The microphone (https://www.w3.org/TR/mediacapture-streams/).

import { refusedDevice } from "./messages.js";

const SOUND = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };

/**
 * Ask for a device.
 * @param {"microphone" | "camera"} device
 * @param {MediaStreamConstraints} wanted
 */
export async function borrow(device, wanted) {
  try {
    if (!navigator.mediaDevices) throw Object.assign(new Error("no secure context"), { name: "InsecureError" });
    return await navigator.mediaDevices.getUserMedia(wanted);
  } catch (error) {
    throw refusedDevice(error, device);
  }
}

export class Microphone {
  /** @type {AudioContext | null} */
  #context = null;

  /** @param {MediaStream} stream */
  constructor(stream) {
    this.stream = stream;
  }

  /** @throws {import("./messages.js").Trouble} it cannot be had */
  static async open() {
    return new Microphone(await borrow("microphone", { audio: SOUND }));
  }

  /**
   * Hand on what is heard, 60 ms at a time.
   * @param {(pcm: Int16Array, level: number) => void} heard PCM16 at 24 kHz; level 0 to 1
   */
  async listen(heard) {
    this.#context?.close();
    const context = (this.#context = new AudioContext({ latencyHint: "interactive" }));
    await context.audioWorklet.addModule("/page/capture.js");
    const node = new AudioWorkletNode(context, "capture", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
    node.port.addEventListener("message", ({ data }) => heard(data.pcm, data.level));
    node.port.start();
    context.createMediaStreamSource(this.stream).connect(node);
    await context.resume();
  }

  get track() {
    return this.stream.getAudioTracks()[0];
  }

  /** @param {() => void} call the device was taken away */
  set onended(call) {
    this.track.addEventListener("ended", call, { once: true });
  }

  close() {
    for (const track of this.stream.getTracks()) track.stop();
    this.#context?.close();
    this.#context = null;
  }
}
