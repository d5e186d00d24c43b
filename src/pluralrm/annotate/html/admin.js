/* Progress of everybody: asked for again every 15 seconds while the page can be seen. */
(function () {
  "use strict";
  var token = decodeURIComponent(window.location.hash.slice(1)), byId = function (name) { return document.getElementById(name); };
  var timer = 0;

  function ask(path) {
    return fetch(path, { headers: { Authorization: "Bearer " + token }, cache: "no-store", credentials: "omit" }).then(function (reply) {
      if (reply.status === 401) { throw new Error("This link is not valid, or not any more. 'pluralrm annotate serve PLAN --renew admin' makes a new one."); }
      if (reply.status !== 200) { throw new Error("The server answered " + reply.status + "; trying again."); }
      return reply;
    });
  }

  function message(text) {
    byId("message").textContent = text;
    byId("message").hidden = !text;
  }

  function row(cells, numbers) {
    var line = document.createElement("tr");
    cells.forEach(function (text, place) {
      var cell = document.createElement(place ? "td" : "th");
      if (!place) { cell.scope = "row"; }
      if (numbers.includes(place)) { cell.className = "n"; }
      cell.textContent = text;
      line.append(cell);
    });
    return line;
  }

  function time(seconds) {
    if (seconds === null) { return "–"; }
    return seconds < 120 ? Math.round(seconds) + " s" : (seconds / 60).toFixed(1) + " min";
  }

  function estimate(one, by, digits) {
    if (!one) { return "–"; }
    var told = [one.value, one.low, one.high].map(function (value) { return value === null ? "–" : (by * value).toFixed(digits); });
    return told[0] + " [" + told[1] + ", " + told[2] + "]";
  }

  function show(found) {
    var judged = 0, all = 0;
    found.annotators.forEach(function (one) { judged += one.judged; all += one.of; });
    byId("whole").textContent = judged + " of " + all + " screens judged by " + found.annotators.length + " annotators";
    byId("progress").max = all;
    byId("progress").value = judged;
    byId("annotators").replaceChildren.apply(byId("annotators"), found.annotators.map(function (one) {
      var checks = one.checks ? one.checks_right + " of " + one.checks : "–", last = one.last ? new Date(one.last).toLocaleString() : "–";
      return row([one.id, one.arm, one.judged, one.of, one.changed, time(one.seconds), checks, last], [2, 3, 4, 5, 6]);
    }));
    byId("no-agreement").hidden = found.agreement.length > 0;
    byId("agreed").hidden = found.agreement.length === 0;
    byId("agreement").replaceChildren.apply(byId("agreement"), found.agreement.map(function (one) {
      return row([one.dimension.replace("_", " "), one.arm, one.labels, one.items, estimate(one.percent, 100, 1), estimate(one.alpha, 1, 2)], [2, 3, 4, 5]);
    }));
  }

  function refresh() {
    clearTimeout(timer);
    if (document.visibilityState !== "visible") { return; }
    ask("api/admin/progress").then(function (reply) { return reply.json(); }).then(function (found) {
      message("");
      show(found);
    }).catch(function (error) { message(error.message); }).finally(function () { timer = setTimeout(refresh, 15000); });
  }

  function offer(name, kind) {
    byId(name).addEventListener("click", function () {
      ask("api/admin/" + name).then(function (reply) { return reply.blob(); }).then(function (content) {
        var link = document.createElement("a");
        link.href = URL.createObjectURL(content);
        link.download = name + "." + kind;
        link.click();
        setTimeout(function () { URL.revokeObjectURL(link.href); }, 60000);
      }).catch(function (error) { message(error.message); });
    });
  }

  offer("judgments", "jsonl");
  offer("labels", "csv");
  byId("refresh").addEventListener("click", refresh);
  document.addEventListener("visibilitychange", refresh);
  window.addEventListener("hashchange", function () { window.location.reload(); });
  refresh();
}());
