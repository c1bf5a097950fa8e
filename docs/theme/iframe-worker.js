/* Search in pages that are opened from files. Browsers refuse a Worker there, so that its script runs in a hidden
 * frame instead, with the same messages. Material for MkDocs would load such a shim from the web. */
(() => {
  "use strict"
  if (location.protocol !== "file:") return

  class FrameWorker extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = this.onerror = null
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const inner = this.frame.contentWindow
      inner.postMessage = data => this.receive(data)
      inner.importScripts = (...urls) =>
        urls.reduce((before, one) => before.then(() => FrameWorker.load(inner, one)), Promise.resolve())
      this.ready = FrameWorker.load(inner, url)
      this.ready.catch(error => this.onerror && this.onerror(error))
    }

    static load(inner, url) {
      return new Promise((resolve, reject) => {
        const script = inner.document.createElement("script")
        script.src = url
        script.onload = resolve
        script.onerror = reject
        inner.document.body.appendChild(script)
      })
    }

    receive(data) {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      if (this.onmessage) this.onmessage(event)
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }

  window.Worker = FrameWorker
})()
