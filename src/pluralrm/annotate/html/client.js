/* The server, and what waits for it: a judgment stays in this browser until the server says that it has it. */
var plural = {};
(function () {
  "use strict";
  // The token stands behind the #: browsers send that part to no server, and it is in no log and no Referer.
  var token = decodeURIComponent(window.location.hash.slice(1));
  var memory = new Map(), space = "", sending = false, timer = 0, tries = 0, heard = function () {};

  function ask(path, body) {
    var stop = new AbortController(), late = setTimeout(function () { stop.abort(); }, 20000);
    var options = { headers: { Authorization: "Bearer " + token }, signal: stop.signal, cache: "no-store", credentials: "omit" };
    if (body !== undefined) {
      options.method = "POST";
      options.keepalive = true; // a tab that is closed at once has sent it all the same
      options.headers["Content-Type"] = "application/json";
      options.body = JSON.stringify(body);
    }
    return fetch(path, options).then(function (reply) {
      return reply.text().then(function (text) { return { status: reply.status, text: text, wait: Number(reply.headers.get("Retry-After")) }; });
    }).finally(function () { clearTimeout(late); });
  }

  /* A private window, or a full disk, has no room: what waits is then kept in memory. Leaving asks first in any case. */
  function put(name, value) {
    var text = JSON.stringify(value);
    try {
      localStorage.setItem(space + name, text);
      memory.delete(space + name);
    } catch (none) { memory.set(space + name, text); }
  }

  function get(name) {
    var text = memory.get(space + name);
    if (text === undefined) { try { text = localStorage.getItem(space + name); } catch (none) { text = null; } }
    try { return text ? JSON.parse(text) : null; } catch (torn) { return null; }
  }

  function drop(name) {
    memory.delete(space + name);
    try { localStorage.removeItem(space + name); } catch (none) { /* nothing was kept there */ }
  }

  function names() {
    var found = Array.from(memory.keys()), place;
    try {
      for (place = 0; place < localStorage.length; place += 1) { found.push(localStorage.key(place)); }
    } catch (none) { /* only memory, then */ }
    return found.filter(function (name) { return name.startsWith(space); }).map(function (name) { return name.slice(space.length); });
  }

  /* One entry per name, never one list: two tabs that write at once would lose each other's. */
  function waiting() {
    return names().filter(function (name) { return name.startsWith("wait:"); }).map(get).filter(Boolean)
      .sort(function (one, other) { return one.order - other.order; });
  }

  function enqueue(judgment) {
    var order = waiting().reduce(function (most, one) { return Math.max(most, one.order); }, 0) + 1;
    put("wait:" + judgment.id, { order: order, judgment: judgment });
    tries = 0;
    flush();
  }

  function later(seconds) {
    clearTimeout(timer);
    timer = setTimeout(flush, 1000 * seconds);
  }

  function settle(entry, reply) {
    var said = {};
    try { said = JSON.parse(reply.text); } catch (none) { /* not ours: a proxy's page, say */ }
    if (reply.status === 200) {
      drop("wait:" + entry.judgment.id);
      heard("kept", entry.judgment, said);
    } else if (reply.status === 409) {
      drop("wait:" + entry.judgment.id);
      heard("stale", entry.judgment, said);
    } else if (reply.status === 401) {
      heard("refused", entry.judgment, said);
      return false;
    } else if (reply.status === 413 || reply.status === 422 || reply.status === 404) {
      put("failed:" + entry.judgment.id, entry.judgment);
      drop("wait:" + entry.judgment.id);
      heard("failed", entry.judgment, said);
    } else { throw new Error(String(reply.status)); }
    return true;
  }

  function flush() {
    var entry = waiting()[0];
    clearTimeout(timer);
    if (sending || !entry) { return; }
    sending = true;
    heard("sending", entry.judgment, {});
    ask("api/judgments", entry.judgment).then(function (reply) {
      sending = false;
      if (reply.status === 429) { later(reply.wait || 5); return; }
      tries = 0;
      if (settle(entry, reply)) { flush(); }
    }).catch(function () {
      sending = false;
      tries += 1;
      heard("offline", entry.judgment, {});
      later(Math.min(30, Math.pow(2, tries - 1)) * (0.75 + Math.random() / 2));
    });
  }

  window.addEventListener("online", function () { tries = 0; flush(); });
  window.addEventListener("beforeunload", function (event) { if (waiting().length) { event.preventDefault(); } });
  // Another link opened in the same tab is another person: nothing of the first one may stay on the page.
  window.addEventListener("hashchange", function () {
    if (decodeURIComponent(window.location.hash.slice(1)) !== token) { window.location.reload(); }
  });

  plural.client = {
    token: token,
    ask: ask,
    open: function (name, listener) { space = "pluralrm:" + name + ":"; heard = listener; },
    enqueue: enqueue,
    flush: flush,
    waiting: waiting,
    put: put,
    get: get,
    drop: drop,
    id: function () {
      return Array.from(crypto.getRandomValues(new Uint8Array(16)), function (byte) { return byte.toString(16).padStart(2, "0"); }).join("");
    },
  };
}());
