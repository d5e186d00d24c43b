// The tables of models, and the list of items from the data in the page. Text enters the page by textContent alone.
(function () {
  "use strict";
  var STEP = 10, MOST = 10;
  // What the reader chose; it outlives a page that is drawn anew.
  var state = { text: "", baselines: true, controls: false, all: false, sort: {}, open: {}, items: {} };

  function make(tag, name, text) {
    var element = document.createElement(tag);
    if (name) { element.className = name; }
    if (text !== undefined) { element.textContent = text; }
    return element;
  }

  function append(parent) {
    for (var place = 1; place < arguments.length; place += 1) { parent.appendChild(arguments[place]); }
    return parent;
  }

  var WORDS = { r: "right", t: "tied", w: "wrong", f: "failed" };

  function all(selector, root) { return Array.prototype.slice.call((root || document).querySelectorAll(selector)); }

  function Items(box, data) {
    this.data = data;
    this.kept = state.items[box.dataset.source] = state.items[box.dataset.source] || {};
    this.name = box.closest("section").dataset.name;
    this.domains = data.domains;
    this.outcomes = data.items.map(function (_, place) {
      return data.outcomes.map(function (letters) { return letters[place]; });
    });
    this.searched = [];
    this.shown = STEP;
    this.build(box);
    this.update();
  }

  Items.prototype.label = function (words, control, name) {
    return append(make("label", name || "", ""), make("span", "", words), control);
  };

  Items.prototype.choice = function (words, options) {
    var select = make("select"), self = this, kept = this.kept[words];
    options.forEach(function (option) {
      var element = make("option", "", option[1]);
      element.value = option[0];
      select.appendChild(element);
    });
    if (kept !== undefined && options.some(function (option) { return option[0] === kept; })) { select.value = kept; }
    select.addEventListener("change", function () { self.kept[words] = select.value; self.restart(); });
    this.controls.appendChild(this.label(words, select));
    return select;
  };

  Items.prototype.chosen = function () { return this.data.models[this.model.value]; };

  Items.prototype.choose = function (run) {
    var place = this.data.models.findIndex(function (model) { return model[1] === run; });
    this.model.value = String(place);
    this.kept.Model = this.model.value;
    this.restart();
  };

  // Shows one item, open, whatever was searched for; false where the file does not hold it.
  Items.prototype.open = function (id) {
    var place = this.data.items.findIndex(function (item) { return item[0] === id; });
    if (place < 0) { return false; }
    this.search.value = id;
    this.domain.value = "";
    this.outcome.value = "";
    this.restart();
    var box = all(".item", this.list).filter(function (one) { return one.querySelector(".id").textContent === id; })[0];
    box.open = true;
    box.scrollIntoView();
    box.firstChild.focus();
    return true;
  };

  Items.prototype.build = function (box) {
    var self = this, waiting = 0;
    this.controls = make("div", "controls");
    this.search = make("input");
    this.search.type = "search";
    this.search.addEventListener("input", function () {
      window.clearTimeout(waiting);
      waiting = window.setTimeout(function () { self.restart(); }, 150);
    });
    this.controls.appendChild(this.label("Search ids, prompts and texts", this.search, "search"));
    this.model = this.choice("Model", this.data.models.map(function (model, place) {
      return [String(place), model[0]];
    }).concat([["", "all runs"]]));
    this.outcome = this.choice("Outcome", [
      ["", "all"], ["r", "right"], ["w", "wrong"], ["f", "failed"], ["own", "right only with own posts"],
      ["flips", "flips under another's"], ["differ", "the runs differ"], ["none", "no run is right"],
      ["every", "every run is right"], ["failed", "a run failed"]
    ]);
    this.domain = this.choice("Domain", [["", "all"]].concat(this.domains.map(function (name, place) {
      return [String(place), name.replace(/_/g, " ")];
    })));
    this.status = make("p", "small muted");
    this.status.setAttribute("role", "status");
    this.list = make("div", "list");
    this.more = make("button", "more", "Show more");
    this.more.type = "button";
    this.more.addEventListener("click", function () {
      var next = self.shown;
      self.shown += STEP;
      self.update();
      var fresh = self.list.children[next];
      if (fresh) { fresh.firstChild.focus(); }
    });
    append(box, this.controls, this.status, this.list, this.more);
  };

  Items.prototype.restart = function () {
    this.shown = STEP;
    this.update();
  };

  Items.prototype.haystack = function (place) {
    if (this.searched[place] === undefined) {
      var item = this.data.items[place], texts = this.data.texts, words = [item[0], item[2], item[5]];
      item[6].forEach(function (tag) { words.push(tag[1]); });
      (this.data.views[place] || []).forEach(function (entry) {
        var view = entry[0];
        words.push(texts[view[0]]);
        view[1].concat(view[4]).forEach(function (number) { words.push(texts[number]); });
        view[2].concat(view[3]).forEach(function (numbers) {
          numbers.forEach(function (number) { words.push(texts[number]); });
        });
      });
      this.searched[place] = words.join("\n").toLowerCase();
    }
    return this.searched[place];
  };

  Items.prototype.fits = function (place) {
    var outcomes = this.outcomes[place], wanted = this.search.value.trim().toLowerCase();
    if (this.domain.value !== "" && String(this.data.items[place][1]) !== this.domain.value) { return false; }
    if (wanted && this.haystack(place).indexOf(wanted) < 0) { return false; }
    switch (this.outcome.value) {
      case "differ": return outcomes.some(function (one) { return one !== outcomes[0]; });
      case "none": return outcomes.every(function (one) { return one !== "r"; });
      case "every": return outcomes.every(function (one) { return one === "r"; });
      case "failed": return outcomes.some(function (one) { return one === "f"; });
      case "": return true;
      default: return this.model.value === "" || this.holds(this.outcome.value, place, this.chosen());
    }
  };

  // Whether an outcome is that of the chosen model, whose controls are the runs without posts and with another's.
  Items.prototype.holds = function (outcome, place, model) {
    var outcomes = this.outcomes[place], own = outcomes[model[1]], controls = model.slice(2);
    if (outcome === "own") {
      return own === "r" && controls.every(function (run) { return run < 0 || outcomes[run] !== "r"; });
    }
    if (outcome === "flips") {
      var best = [this.best(model[1], place), this.best(model[3], place)];
      return best[0] !== "" && best[1] !== "" && best[0] !== best[1];
    }
    return own === outcome;
  };

  // The candidates with the highest score, as text; nothing where the item failed.
  Items.prototype.best = function (run, place) {
    var scores = run < 0 ? [] : this.data.scores[run][place], top = Math.max.apply(null, scores);
    if (!scores.length || scores.some(function (score) { return typeof score === "string"; })) { return ""; }
    return scores.map(function (score, candidate) { return score === top ? candidate : ""; }).join(",");
  };

  // Outcomes that the chosen model cannot have are not offered.
  Items.prototype.offer = function () {
    var model = this.chosen(), missing = { own: !model || (model[2] < 0 && model[3] < 0), flips: !model || model[3] < 0 };
    Array.prototype.forEach.call(this.outcome.options, function (option) {
      option.disabled = missing[option.value] || (!model && /^[rwf]$/.test(option.value));
    });
    if (this.outcome.selectedOptions[0].disabled) { this.outcome.value = ""; }
  };

  Items.prototype.update = function () {
    this.offer();
    var self = this, places = this.data.items.map(function (_, place) { return place; });
    places = places.filter(function (place) { return self.fits(place); });
    var shown = places.slice(0, this.shown);
    this.status.textContent = places.length + (places.length === 1 ? " item" : " items") +
      (shown.length < places.length ? ", the first " + shown.length + " shown" : "");
    this.list.replaceChildren.apply(this.list, shown.map(function (place) { return self.item(place); }));
    this.more.hidden = shown.length === places.length;
  };

  Items.prototype.item = function (place) {
    var self = this, item = this.data.items[place], outcomes = this.outcomes[place];
    var right = outcomes.filter(function (one) { return one === "r"; }).length, model = this.chosen();
    var result = model ? WORDS[outcomes[model[1]]] : right + " of " + outcomes.length + " right";
    var box = make("details", "item"), summary = make("summary");
    append(summary, make("span", "id", item[0]), make("span", "result", result),
      make("span", "ask", item[5] || this.domains[item[1]]));
    box.appendChild(summary);
    box.addEventListener("toggle", function () {
      if (box.open && box.children.length === 1) { box.appendChild(self.body(place)); }
    });
    return box;
  };

  Items.prototype.body = function (place) {
    var self = this, item = this.data.items[place], views = this.data.views[place] || [], texts = this.data.texts;
    var body = make("div", "body");
    var facts = [this.domains[item[1]]].concat(item[2] ? [this.data.unit + " " + item[2]] : []);
    item[6].forEach(function (tag) { facts.push(tag[0] + ": " + tag[1]); });
    var link = make("a", "", "link to this item");
    link.href = "#" + encodeURIComponent(this.name) + "/" + encodeURIComponent(item[0]);
    append(body, append(make("p", "small muted", facts.join(" · ") + " · "), link));
    if (views.length) {
      append(body, make("h4", "", "Prompt"), make("div", "text", texts[views[0][0][0]]));
    } else if (item[5]) {
      append(body, make("h4", "", "Prompt"), make("div", "text", item[5]));
    }
    append(body, make("h4", "", "Scores"), this.scores(place));
    if (!views.length) {
      body.appendChild(make("p", "small muted", "The texts of this item are in the run folders, not in this file."));
      return body;
    }
    body.appendChild(make("h4", "", "Answers"));
    var answers = make("div", "answers");
    views[0][0][1].forEach(function (number, candidate) {
      answers.appendChild(append(make("div"), make("p", "small", self.answer(item, candidate)),
        make("div", "text", texts[number])));
    });
    append(body, answers, make("h4", "", "What each model was given, beside the prompt and the answers"));
    views.forEach(function (entry) { body.appendChild(self.view(entry[0], entry[1])); });
    return body;
  };

  Items.prototype.answer = function (item, candidate) {
    var names = this.data.ids[item[4]];
    return "Answer " + (candidate + 1) + (names[candidate] ? " (" + names[candidate] + ")" : "") +
      ([].concat(item[3]).includes(candidate) ? ", preferred" : "");
  };

  Items.prototype.scores = function (place) {
    var self = this, data = this.data, item = data.items[place];
    var table = make("table"), head = make("tr"), rows = make("tbody");
    head.appendChild(this.column("run"));
    data.scores[0][place].forEach(function (_, candidate) {
      head.appendChild(self.column(self.answer(item, candidate), "n"));
    });
    head.appendChild(this.column("outcome"));
    data.runs.forEach(function (run, number) {
      var row = make("tr"), who = make("th", run[1] ? "alarm" : "", run[0]), outcome = self.outcomes[place][number];
      who.scope = "row";
      row.appendChild(who);
      data.scores[number][place].forEach(function (score, candidate) {
        var text = String(score);
        if (typeof score === "string") { text = data.failures[score].filter(Boolean).join(": "); }
        row.appendChild(make("td", typeof score === "string" ? "" : "n", text));
      });
      row.appendChild(make("td", outcome === "r" ? "right" : "", WORDS[outcome]));
      rows.appendChild(row);
    });
    append(table, append(make("caption"), make("span", "", "Scores of each run; the highest is the model’s choice")),
      append(make("thead"), head), rows);
    var box = make("div", "scroll");
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "Scores of " + item[0]);
    return append(box, table);
  };

  Items.prototype.column = function (text, name) {
    var cell = make("th", name || "", text);
    cell.scope = "col";
    return cell;
  };

  Items.prototype.view = function (view, places) {
    var texts = this.data.texts, runs = this.data.runs, parts = [];
    var names = places.map(function (place) { return runs[place][0]; }).join(", ");
    if (view[2].length) { parts.push(view[2].length + (view[2].length === 1 ? " post" : " posts")); }
    if (view[3].length) { parts.push(view[3].length + (view[3].length === 1 ? " labelled pair" : " labelled pairs")); }
    if (view[4].length) { parts.push(view[4].length + (view[4].length === 1 ? " note" : " notes")); }
    if (!parts.length) { return make("p", "small", "Nothing more: " + names); }
    var box = make("details"), oracle = view[5] ? "ORACLE, the rubric was shown: " : "";
    box.appendChild(make("summary", view[5] ? "small alarm" : "small", oracle + parts.join(", ") + ": " + names));
    if (view[4].length) {
      view[4].forEach(function (number) { box.appendChild(make("div", "text" + (view[5] ? " alarm" : ""), texts[number])); });
    }
    if (view[2].length) {
      var list = make("ol", "posts");
      view[2].forEach(function (post) {
        var line = make("li");
        if (texts[post[0]]) { line.appendChild(make("p", "small muted", texts[post[0]])); }
        list.appendChild(append(line, make("div", "text", texts[post[1]])));
      });
      box.appendChild(list);
    }
    view[3].forEach(function (pair) {
      ["Asked", "Preferred", "Other"].forEach(function (label, part) {
        append(box, make("p", "small muted", label), make("div", "text", texts[pair[part]]));
      });
    });
    return box;
  };

  // ---------------------------------------------------------------- models

  function Models(section) {
    var self = this, kept = state.sort[section.dataset.part];
    this.section = section;
    this.table = section.querySelector("table.models");
    this.every = section.querySelector("button.every");
    this.bodies().forEach(function (body) {
      var button = body.querySelector(".unfold");
      if (!button) { return; }
      self.unfold(body, button, Boolean(state.open[body.dataset.key]));
      body.rows[0].addEventListener("click", function (event) {
        if (event.target.closest("a") || String(window.getSelection())) { return; }
        self.unfold(body, button, button.getAttribute("aria-expanded") !== "true");
      });
    });
    this.every.addEventListener("click", function () { state.all = true; self.update(); });
    pages.sortable(section);
    if (kept) { pages.sort(this.table, kept[0], kept[1]); }
    this.table.addEventListener("sorted", function () {
      var heads = Array.prototype.slice.call(self.table.tHead.rows[0].cells);
      var column = heads.findIndex(function (cell) { return cell.hasAttribute("aria-sort"); });
      state.sort[section.dataset.part] = [column, heads[column].getAttribute("aria-sort") === "descending"];
      self.update();
    });
    this.update();
  }

  Models.prototype.bodies = function () { return Array.prototype.slice.call(this.table.tBodies); };

  Models.prototype.unfold = function (body, button, open) {
    button.setAttribute("aria-expanded", String(open));
    body.rows[1].hidden = !open;
    state.open[body.dataset.key] = open;
  };

  Models.prototype.update = function () {
    var fitting = 0;
    this.bodies().forEach(function (body) {
      var kind = body.className, head = body.querySelector("th");
      var names = (body.dataset.key + " " + head.title + " " + head.textContent).toLowerCase();
      var fits = names.indexOf(state.text) >= 0 && (kind !== "baseline" || state.baselines) &&
        (kind !== "control" || state.controls);
      fitting += fits;
      body.hidden = !fits || (fitting > MOST && !state.all);
    });
    this.every.hidden = state.all || fitting <= MOST;
    this.every.textContent = "Show all " + fitting + " rows";
  };

  // ---------------------------------------------------------------- the page

  // An address BENCHMARK/ITEM opens an item; the page's own script follows all others.
  function follow(parts) {
    var hash = window.location.hash.slice(1), slash = hash.indexOf("/");
    if (slash < 0) { return; }
    var name = decodeURIComponent(hash.slice(0, slash)), id = decodeURIComponent(hash.slice(slash + 1));
    parts.some(function (part) {
      if (part.section.dataset.name !== name) { return false; }
      if (parts.length > 1) { pages.select(part.section.dataset.part); }
      return part.items.open(id);
    });
  }

  function controls(parts) {
    var filter = document.getElementById("filter");
    function changed() {
      state.text = filter.value.trim().toLowerCase();
      state.baselines = document.getElementById("baselines").checked;
      state.controls = document.getElementById("control-runs").checked;
      parts.forEach(function (part) { part.models.update(); });
    }
    filter.value = state.text;
    document.getElementById("baselines").checked = state.baselines;
    document.getElementById("control-runs").checked = state.controls;
    all(".choose .controls input").forEach(function (input) { input.addEventListener("input", changed); });
    document.querySelector(".choose .controls").hidden = false;
  }

  var ENDINGS = { csv: "csv", markdown: "md", latex: "tex" };

  function exported(event) {
    var link = make("a"), form = event.currentTarget.dataset.form;
    var texts = JSON.parse(document.getElementById("exports").textContent);
    link.href = URL.createObjectURL(new Blob([texts[form]], { type: "text/plain" }));
    link.download = "models." + ENDINGS[form];
    link.click();
    window.setTimeout(function () { URL.revokeObjectURL(link.href); }, 10000);
  }

  var current = [];

  function start() {
    current = all("section.benchmark").map(function (section) {
      var box = section.querySelector(".items"), data = document.getElementById(box.dataset.source).textContent;
      var items = new Items(box, JSON.parse(data));
      all(".models a[data-run]", section).forEach(function (link) {
        link.addEventListener("click", function () { items.choose(Number(link.dataset.run)); });
      });
      return { section: section, items: items, models: new Models(section) };
    });
    if (!current.length) { return; }
    controls(current);
    document.querySelector(".exports").hidden = false;
    pages.tabs();
  }

  all(".exports button").forEach(function (button) { button.addEventListener("click", exported); });
  pages.start = start;
  start();
  follow(current);
  pages.follow();
  window.addEventListener("hashchange", function () { follow(current); });
}());
