/* One annotator's way through the items: where they are, what they said, back and on again. */
(function () {
  "use strict";
  var client = plural.client, questions = plural.questions, byId = function (name) { return document.getElementById(name); };
  var state = null, current = null, draft = null, since = 0, ahead = new Map(), retry = 0;

  // ---------------------------------------------------------------- where we are

  function first() { return state.items.findIndex(function (one) { return !one.judged; }); }
  function at(handle) { return state.items.findIndex(function (one) { return one.item === handle; }); }

  function before() {
    var place = current === null ? state.items.length : current;
    do { place -= 1; } while (place >= 0 && !state.items[place].judged);
    return place;
  }

  function progress() {
    var total = state.items.length, judged = state.items.filter(function (one) { return one.judged; }).length;
    byId("progress").max = total;
    byId("progress").value = judged;
    byId("count").textContent = judged + " of " + total + " judged" + left(total - judged);
    byId("undo").hidden = before() < 0;
  }

  /* What is left at this annotator's own pace: the median of the last items, once there are three. */
  function left(items) {
    var pace = (client.get("pace") || []).slice().sort(function (a, b) { return a - b; });
    if (pace.length < 3 || !items) { return ""; }
    var minutes = Math.round(items * pace[Math.floor(pace.length / 2)] / 60);
    return minutes < 1 ? ", less than a minute left" : ", about " + minutes + (minutes === 1 ? " minute left" : " minutes left");
  }

  function introduced() {
    return client.get("begun") || state.items.some(function (one) { return one.revision; });
  }

  function introduce() {
    var items = state.items.length;
    byId("load").textContent = items + (items === 1 ? " item. " : " items. After three of them this page says about how long the rest takes, at your pace. ")
      + "Every judgment is saved at once: stop at any time, and open the same link again to continue.";
    byId("start").hidden = true;
    byId("intro").hidden = false;
    byId("intro-title").focus();
  }

  function begin() {
    client.put("begun", true);
    byId("intro").hidden = true;
    open(first(), "replaceState");
  }

  function saved(text) { byId("saved").textContent = text; }

  function message(text, alarm) {
    var box = byId("message");
    box.classList.toggle("news", !alarm);
    box.replaceChildren(questions.make("p", text));
    box.hidden = !text;
  }

  // ---------------------------------------------------------------- time on the item: only while it can be seen

  function tick() {
    var now = performance.now();
    if (draft && since) { draft.seconds += (now - since) / 1000; }
    since = document.visibilityState === "visible" ? now : 0;
  }

  function keep() {
    tick();
    if (!draft) { return; }
    draft.answers = questions.answers();
    // Half of an emoji, where the longest comment was cut, is no text that could be kept.
    draft.comment = byId("comment").value.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");
    client.put("draft:" + draft.item, draft);
  }

  // ---------------------------------------------------------------- opening an item

  function fetched(place) {
    var handle = state.items[place].item;
    if (!ahead.has(handle)) {
      ahead.set(handle, client.ask("api/items/" + handle).then(function (reply) {
        if (reply.status !== 200) { throw reply; }
        return JSON.parse(reply.text);
      }));
      ahead.get(handle).catch(function () { ahead.delete(handle); });
    }
    return ahead.get(handle);
  }

  /* `how` the browser's history takes it: "pushState" for a step of its own, "replaceState" for none, or not at all. */
  function open(place, how) {
    clearTimeout(retry);
    keep();
    draft = null;
    current = place < 0 ? null : place;
    if (how) { history[how]({ item: current === null ? "" : state.items[place].item }, ""); }
    if (current === null) { finished(); return; }
    fetched(place).then(function (item) {
      if (current !== place) { return; }
      show(item, place);
      [place + 1, place + 2].filter(function (next) { return next < state.items.length && !state.items[next].judged; }).forEach(function (next) {
        fetched(next).catch(function () { /* asked again when it is opened */ });
      });
    }).catch(function (reply) {
      if (reply.status === 401) { refused(); return; }
      saved("No connection to the server; trying again");
      retry = setTimeout(function () { open(place, ""); }, reply.status === 429 ? 1000 * (reply.wait || 5) : 3000);
    });
  }

  function fresh(item, here) {
    var said = here.said || item.said;
    var answers = said && said.answers;
    return { id: client.id(), item: item.handle, revision: here.revision + 1, seconds: 0,
      answers: answers ? questions.flat(answers) : {}, comment: answers ? answers.comment : "" };
  }

  function show(item, place) {
    var here = state.items[place], old = client.get("draft:" + item.handle);
    draft = old && old.revision === here.revision + 1 ? old : fresh(item, here);
    byId("start").hidden = byId("done").hidden = true;
    byId("item").hidden = false;
    byId("title").textContent = (item.example ? "Example " : "Item ") + item.number + " of " + item.of;
    byId("told").textContent = here.judged ? "You judged this before. Saving puts the new judgment in the place of the old one."
      : item.example ? "An example: once you have judged it, you are told which answer was meant." : "";
    byId("told").hidden = !byId("told").textContent;
    byId("leave").hidden = !here.judged;
    byId("missing").hidden = true;
    byId("comment").value = draft.comment;
    plural.item.show(item);
    questions.show(draft.answers, item.paraphrases.length > 0);
    progress();
    document.title = byId("title").textContent + " – Annotation";
    since = 0;
    tick();
    window.scrollTo(0, 0);
    byId("title").focus({ preventScroll: true });
  }

  function finished() {
    byId("start").hidden = byId("item").hidden = true;
    byId("done").hidden = false;
    progress();
    farewell();
    byId("done-title").focus();
  }

  function farewell() {
    byId("done-text").textContent = client.waiting().length
      ? "Please keep this page open: some judgments are still in this browser only, and are sent as soon as the server can be reached."
      : "Thank you. Nothing is left to do; you may close this page. To change the last judgment, press Undo.";
  }

  // ---------------------------------------------------------------- saving

  function save() {
    var place = questions.missing(), here = current;
    if (here === null || !draft) { return; }
    if (place >= 0) {
      byId("missing").textContent = "Not answered yet: " + questions.text(place);
      byId("missing").hidden = false;
      questions.focus(place);
      return;
    }
    keep();
    message("");
    send(here, { answers: questions.whole(draft.comment), seconds: draft.seconds, id: draft.id });
    if (draft.revision === 1) { client.put("pace", (client.get("pace") || []).concat(draft.seconds).slice(-20)); }
    client.drop("draft:" + state.items[here].item);
    draft = null;
    open(first(), "pushState");
  }

  function send(place, said) {
    var here = state.items[place];
    var judgment = { id: said.id, item: here.item, revision: here.revision + 1, seconds: said.seconds, answers: said.answers };
    Object.assign(here, { revision: judgment.revision, judged: judgment.answers !== null });
    here.said = judgment.answers ? judgment : here.said;
    client.enqueue(judgment);
  }

  /* Take the last judgment back; what was chosen is there again, to be changed. */
  function undo() {
    var place = before(), here = state.items[place];
    if (place < 0) { return; }
    message("");
    fetched(place).then(function (item) {
      if (!here.judged) { return; }
      here.said = here.said || item.said;
      send(place, { answers: null, seconds: 0, id: client.id() });
      client.drop("draft:" + here.item);
      open(place, "pushState");
    }).catch(function () { saved("No connection to the server; try again"); });
  }

  function example(judgment, letter) {
    var name = questions.firstName;
    message("The example just judged: the answer meant for this asker was " + letter + ". You chose: " + questions.label(name, judgment.answers[name]) + ".");
  }

  function heard(what, judgment, said) {
    var waits = client.waiting().length;
    farewell();
    if (what === "sending") { saved("Saving …"); }
    if (what === "kept") {
      saved(waits ? waits + " to be sent" : "Saved");
      if (said.meant && judgment.answers) { example(judgment, said.meant); }
    }
    if (what === "offline") { saved("No connection: " + waits + (waits === 1 ? " judgment waits" : " judgments wait") + " in this browser"); }
    if (what === "refused") { refused(); }
    if (what === "failed") { message("The server did not take a judgment (" + (said.error || "no reason given") + "). It is kept in this browser; please tell the person who sent you the link.", true); }
    if (what === "stale") {
      saved("");
      reload().then(function () {
        message("An item was judged elsewhere already, in another tab perhaps: that judgment stands. Press Undo to change it.");
      }).catch(function () { saved("No connection to the server"); });
    }
  }

  function refused() {
    byId("start").hidden = false;
    byId("start").querySelector("h1").textContent = "This link does not work";
    byId("intro").hidden = byId("item").hidden = byId("done").hidden = byId("going").hidden = byId("undo").hidden = true;
    message("It is not valid, or no longer. Ask the person who sent it for a new one. What you have judged and was not sent yet stays in this browser.", true);
  }

  // ---------------------------------------------------------------- starting, and starting again

  function reload() {
    return client.ask("api/state").then(function (reply) {
      if (reply.status === 401) { refused(); return; }
      if (reply.status !== 200) { throw reply; }
      state = JSON.parse(reply.text);
      client.open(state.space, heard);
      client.waiting().forEach(function (entry) {
        var here = state.items[at(entry.judgment.item)], said = entry.judgment;
        if (here && said.revision > here.revision) {
          Object.assign(here, { revision: said.revision, judged: said.answers !== null });
          here.said = said.answers ? said : here.said;
        }
      });
      ahead.clear();
      byId("going").hidden = false;
      progress();
      if (introduced()) { open(first(), "replaceState"); } else { introduce(); }
    });
  }

  function start() {
    if (!client.token) { refused(); return; }
    reload().then(client.flush).catch(function () {
      byId("start").querySelector("h1").textContent = "No connection to the server; trying again";
      retry = setTimeout(start, 3000);
    });
  }

  byId("form").addEventListener("submit", function (event) {
    event.preventDefault();
    if (byId("save").dataset.twice !== "yes") { save(); }
  });
  // The second half of a double click would press the button of the next item.
  byId("save").addEventListener("click", function (event) { byId("save").dataset.twice = event.detail > 1 ? "yes" : "no"; });
  byId("begin").addEventListener("click", begin);
  byId("undo").addEventListener("click", undo);
  byId("leave").addEventListener("click", function () {
    client.drop("draft:" + draft.item);
    draft = null;
    open(first(), "pushState");
  });
  byId("comment").addEventListener("input", keep);
  questions.listen(keep, save);
  document.addEventListener("keydown", function (event) {
    if (!byId("intro").hidden) {
      if (event.key === "Enter" && event.target.id !== "begin") { begin(); }
      return;
    }
    if (event.target.tagName !== "TEXTAREA" && !event.ctrlKey && !event.metaKey && !event.altKey) {
      if (event.key === "u" && !byId("undo").hidden) { undo(); }
      if (event.key === "c" && !byId("comment-box").hidden && draft) { event.preventDefault(); byId("comment").focus(); }
      if (event.key === "p" && byId("posts")) { byId("posts").open = !byId("posts").open; }
      if (!draft) { return; }
    }
    questions.press(event);
  });
  document.addEventListener("visibilitychange", keep);
  window.addEventListener("pagehide", keep);
  window.addEventListener("popstate", function (event) {
    if (!state) { return; }
    if (!byId("intro").hidden) { return; }
    var place = event.state && event.state.item ? at(event.state.item) : first();
    open(place, "");
  });
  start();
}());
