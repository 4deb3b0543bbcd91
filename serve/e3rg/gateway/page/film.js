// @ts-check
// One reply's fragmented MP4, played while it arrives (https://www.w3.org/TR/media-source-2/).

/** @type {typeof MediaSource | undefined} */
const Source = window.MediaSource ?? /** @type {any} */ (window).ManagedMediaSource; // iPhone

const KEPT_S = 20; // seconds behind the playing position that stay in the buffer

export class Film {
  /** @type {Uint8Array<ArrayBuffer>[]} */
  #waiting = [];
  /** @type {SourceBuffer | null} */
  #buffer = null;
  /** @type {MediaSource} */
  #source;
  #finished = false;
  #closed = false;

  /** @param {string} mime */
  static plays(mime) {
    return Boolean(Source?.isTypeSupported(mime));
  }

  /**
   * @param {HTMLVideoElement} video
   * @param {string} mime
   */
  constructor(video, mime) {
    if (!Source) throw new Error("no MediaSource");
    const source = (this.#source = new Source());
    this.video = video;
    const address = URL.createObjectURL(source);
    source.addEventListener("sourceopen", () => {
      URL.revokeObjectURL(address);
      if (this.#closed) return;
      this.#buffer = source.addSourceBuffer(mime);
      this.#buffer.addEventListener("updateend", () => this.#pump());
      this.#pump();
    }, { once: true });
    video.disableRemotePlayback = true; // ManagedMediaSource opens only so
    video.src = address;
  }

  /** @param {Uint8Array<ArrayBuffer>} data */
  append(data) {
    this.#waiting.push(data);
    this.#pump();
  }

  /** All has been appended. */
  finish() {
    this.#finished = true;
    this.#pump();
  }

  /** Nothing of it is wanted any more. */
  close() {
    this.#closed = true;
    this.#waiting = [];
  }

  #pump() {
    const buffer = this.#buffer;
    if (this.#closed || !buffer || buffer.updating || this.#source.readyState !== "open") return;
    const played = this.video.currentTime - KEPT_S;
    if (buffer.buffered.length && buffer.buffered.start(0) < played - KEPT_S) {
      buffer.remove(0, played);
    } else if (this.#waiting.length) {
      this.#append(buffer);
    } else if (this.#finished) {
      this.#source.endOfStream();
    }
  }

  /** @param {SourceBuffer} buffer */
  #append(buffer) {
    try {
      buffer.appendBuffer(this.#waiting[0]);
      this.#waiting.shift();
    } catch (error) {
      if (!(error instanceof Error) || error.name !== "QuotaExceededError") throw error;
      // Full: there is room again when more was played.
      this.video.addEventListener("timeupdate", () => this.#pump(), { once: true });
      const played = this.video.currentTime - 1;
      if (played > 0) buffer.remove(0, played);
    }
  }
}
