// @ts-check
// Plays one reply at a time: the film while it arrives, or its sound alone.

import { Film } from "./film.js";
import { Sound } from "./sound.js";

/**
 * Events: `begun` (something is seen or heard), `silent` (nothing is played any more), `blocked` (the browser
 * wants a click first), `broken` (the film cannot be played; sound goes on).
 */
export class Player extends EventTarget {
  /** @type {AudioContext | null} */
  #context = null;
  /** @type {Film | null} */
  #film = null;
  /** @type {Sound | null} */
  #sound = null;
  /** @type {import("./types.js").Chunk[]} */
  #chunks = [];
  #filmed = 0; // seconds of the reply that the film holds
  #spoken = 0; // chunks that were handed to the sound
  #voiceOnly = false;
  #finished = true;
  #whole = false; // the finished file is played
  #unplayed = false; // there are pictures, but no MediaSource to play them by
  /** @type {string | null} */
  #turn = null;
  #attached = false; // the video shows tracks that somebody else feeds
  #sounds = 0; // since when these are heard: performance.now()

  /** @param {HTMLVideoElement} video */
  constructor(video) {
    super();
    this.video = video;
    video.addEventListener("ended", () => this.#filmEnded());
    video.addEventListener("playing", () => {
      video.classList.add("shown");
      if (!this.#attached) this.#tell("begun");
    });
    video.addEventListener("error", () => {
      if (this.#film || this.#whole) this.#breakFilm();
    });
  }

  /** Seconds of the reply that were heard. */
  get time() {
    if (this.#attached) return this.#sounds && (performance.now() - this.#sounds) / 1000;
    if (this.#sound?.time) return this.#sound.time;
    return this.#film || this.#whole ? this.video.currentTime : this.#filmed;
  }

  get playing() {
    return Boolean(this.#film || this.#whole || this.#sound?.playing);
  }

  /** To be called in a click, so that the browser lets sound play later. */
  unlock() {
    this.#context ??= new AudioContext();
    if (this.#context.state === "suspended") this.#context.resume().catch(() => {});
  }

  /**
   * Show the tracks of a call, or its end.
   * @param {MediaStream | null} media
   */
  attach(media) {
    if (!media && !this.#attached) return;
    this.stop();
    this.#attached = media !== null;
    this.video.srcObject = media;
    if (media) this.#play();
    else this.video.classList.remove("shown");
  }

  /** The tracks begin to play the reply. */
  sounding() {
    this.#sounds = performance.now();
  }

  /**
   * Make ready for the next reply.
   * @param {boolean} pictures are expected
   */
  begin(pictures) {
    this.stop();
    this.#chunks = [];
    this.#filmed = this.#spoken = 0;
    this.#voiceOnly = !pictures;
    this.#finished = this.#unplayed = false;
    this.#turn = null;
    this.#sounds = 0;
  }

  /** @param {import("./types.js").Segment} segment */
  segment({ mime, data, frames }) {
    if (this.#attached || this.#finished || this.#voiceOnly) return;
    this.#unplayed = !Film.plays(mime);
    if (this.#unplayed) return;
    if (!this.#film) {
      this.#film = new Film(this.video, mime);
      this.#play();
    }
    this.#film.append(data);
    this.#filmed += frames / 25;
  }

  /**
   * The sound of a piece; while there is a film, the film's own is heard.
   * @param {import("./types.js").Chunk} chunk
   */
  chunk(chunk) {
    if (this.#attached || this.#finished) return;
    this.#chunks.push(chunk);
    if (this.#voiceOnly && !this.#film) this.#speak(this.#filmed);
  }

  /** No more pictures will come: what the film lacks is spoken, after the film if there is one. */
  goOnWithoutPictures() {
    this.#voiceOnly = true;
    if (this.#film) this.#film.finish();
    else this.#speak(this.#filmed);
  }

  /** @param {string} turn whose finished video the server keeps */
  stored(turn) {
    this.#turn = turn;
  }

  /** The whole reply has come. */
  finish() {
    if (this.#finished) return;
    this.#finished = true;
    if (this.#film) this.#film.finish();
    else if (this.#unplayed && this.#turn) this.#playFile(this.#turn);
    else this.#speak(this.#filmed);
    if (!this.playing) this.#tell("silent");
  }

  /**
   * Play nothing more of this reply.
   * @returns {number} seconds that were heard
   */
  stop() {
    const heard = this.time;
    this.#finished = true;
    this.#sounds = 0;
    if (this.#attached) return heard;
    this.#closeFilm();
    this.#sound?.stop();
    this.#sound = null;
    return heard;
  }

  /** Try again to play, in a click. */
  retry() {
    this.unlock();
    this.#play();
  }

  #play() {
    this.video.play().catch((error) => {
      if (error.name === "NotAllowedError") this.#tell("blocked");
    });
  }

  /** @param {string} turn */
  #playFile(turn) {
    this.#whole = true;
    this.video.src = `/v1/turns/${turn}/video`;
    this.#play();
  }

  #filmEnded() {
    this.#film?.close();
    this.#film = null;
    this.#whole = false;
    this.video.classList.remove("shown"); // its last frame fades into the portrait
    this.#speak(this.#filmed);
    if (!this.playing && (this.#finished || !this.#voiceOnly)) this.#tell("silent");
  }

  #breakFilm() {
    const heard = this.video.currentTime;
    this.#closeFilm();
    this.#voiceOnly = true;
    this.#tell("broken");
    this.#speak(heard);
    if (this.#finished && !this.playing) this.#tell("silent");
  }

  #closeFilm() {
    this.#film?.close();
    this.#film = null;
    this.#whole = false;
    this.video.classList.remove("shown");
    if (!this.video.hasAttribute("src")) return;
    this.video.pause();
    this.video.removeAttribute("src");
    this.video.load();
  }

  /** @param {number} from seconds that were heard already */
  #speak(from) {
    if (!this.#context || this.#spoken === this.#chunks.length) return;
    if (!this.#sound) this.#tell("begun");
    this.#sound ??= new Sound(this.#context, () => {
      if (this.#finished) this.#tell("silent");
    });
    for (; this.#spoken < this.#chunks.length; this.#spoken += 1) {
      this.#sound.play(this.#chunks[this.#spoken], from);
    }
  }

  /** @param {"begun" | "silent" | "blocked" | "broken"} name */
  #tell(name) {
    this.dispatchEvent(new Event(name));
  }
}
