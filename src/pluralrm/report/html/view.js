// The page over a folder that grows: how far each run is, and the report anew as rows come. It only asks.
(function () {
  "use strict";
  var box = document.getElementById("live"), version = 0, waiting = null;

  function make(tag, name, text) {
    var element = document.createElement(tag);
    if (name) { element.className = name; }
    if (text !== undefined) { element.textContent = text; }
    return element;
  }

  function line(run) {
    var row = make("li", run.state), bar = make("progress"), who = run.model + " · " + run.condition + " on " + run.benchmark + (run.shard ? ", " + run.shard : "");
    bar.max = run.items;
    bar.value = run.rows;
    bar.setAttribute("aria-label", who);
    row.append(make("span", "chip " + (run.state === "running" ? "good" : "partial"), run.state), " ", bar,
      " " + run.rows + " of " + run.items + " ", make("span", "", who));
    if (run.workers) { row.append(make("span", "muted", ", " + run.workers)); }
    if (run.state === "stopped") { row.append(make("span", "muted", ": the same command resumes it")); }
    return row;
  }

  function show(state) {
    var open = state.runs.filter(function (run) { return run.state !== "complete"; });
    var running = open.filter(function (run) { return run.state === "running"; }).length;
    var list = make("ul", "runs"), said = [state.runs.length - open.length + " of " + state.runs.length + " runs complete"];
    if (running) { said.push(running + " running"); }
    if (open.length - running) { said.push(open.length - running + " stopped"); }
    var shards = state.runs.filter(function (run) { return run.shard && run.state === "complete"; }).length;
    if (shards) { said.push(shards + " of them shards, which 'pluralrm merge' unites"); }
    open.forEach(function (run) { list.append(line(run)); });
    state.watches.forEach(function (watch) {
      var row = make("li", "watch");
      row.append(make("span", "chip " + (watch.alarm ? "bad" : "good"), watch.alarm ? "ALARM" : "watch"), " ", watch.text);
      list.append(row);
    });
    box.hidden = false;
    box.replaceChildren(make("p", "muted", said.join(", ") + (state.problem ? ". Not drawn anew: " + state.problem : "")), list);
    if (state.version !== version) { offer(state.version); }
  }

  // A reader of an item keeps it: the new page is then offered, not put in its place.
  function offer(next) {
    if (!document.querySelector(".part[open], .item[open]")) { draw(next); return; }
    var button = make("button", "", "Show the new rows");
    button.type = "button";
    button.addEventListener("click", function () { draw(next); });
    box.append(button);
  }

  function draw(next) {
    if (waiting) { return; }
    waiting = fetch(".").then(function (reply) { return reply.text(); }).then(function (text) {
      var fresh = new DOMParser().parseFromString(text, "text/html");
      ["h1", "#screen", "#main"].forEach(function (part) {
        var nodes = Array.prototype.slice.call(fresh.querySelector(part).childNodes);
        var here = document.querySelector(part);
        here.replaceChildren.apply(here, nodes.map(function (node) { return document.importNode(node, true); }));
      });
      document.title = fresh.title;
      version = next;
      pages.start();
    }).finally(function () { waiting = null; });
  }

  function ask() {
    fetch("state").then(function (reply) { return reply.json(); }).then(show, function () {
      box.hidden = false;
      box.replaceChildren(make("p", "muted", "pluralrm view was stopped: this is what it last showed"));
    }).then(function () { window.setTimeout(ask, 1000); });
  }

  ask();
}());
