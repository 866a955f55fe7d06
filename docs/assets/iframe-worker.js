// Search runs in a worker, and a browser starts none from a page that was opened as a file. A hidden frame stands in
// for it there; pages from a server keep the real worker. The word iframe-worker in this file's name is what tells the
// theme that it need not fetch one from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.appendChild(frame);
      const inside = frame.contentWindow, waiting = [];
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...all) => Promise.all(all.map(one => this.load(inside, one)));
      this.tell = data => waiting.push(data);
      this.load(inside, address).then(() => {
        this.tell = data => inside.dispatchEvent(new MessageEvent("message", { data }));
        waiting.forEach(data => this.tell(data));
      });
    }
    load(inside, address) {
      return new Promise((done, failed) => {
        const script = inside.document.createElement("script");
        script.src = address;
        script.onload = done;
        script.onerror = failed;
        inside.document.head.appendChild(script);
      });
    }
    postMessage(data) {
      this.tell(data);
    }
    terminate() {}
  };
}
