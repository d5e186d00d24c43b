/* One item's questions: radio buttons that also answer to 1-5, the arrows and Enter. Texts are set as text, never as HTML. */
(function () {
  "use strict";
  var root = document.getElementById("questions"), asked = JSON.parse(document.getElementById("asked").textContent);
  var boxes = [], answers = {}, active = 0, changed = function () {}, finish = function () {};

  function make(tag, text, name) {
    var element = document.createElement(tag);
    if (text) { element.textContent = text; }
    if (name) { element.className = name; }
    return element;
  }

  function option(question, choice, place) {
    var label = make("label"), input = make("input");
    input.type = "radio";
    input.name = question.name;
    input.value = String(place);
    input.checked = answers[question.name] === choice.value;
    input.addEventListener("change", function () { choose(question.name, choice.value, false); });
    label.append(input, make("span", choice.label));
    return label;
  }

  function fieldset(question, place) {
    var box = make("fieldset", "", question.first ? "first" : ""), long = question.options.some(function (choice) { return /\S{9}/.test(choice.label); });
    var options = make("div", "", long ? "options words" : "options");
    box.append(make("legend", question.text));
    if (question.hint) {
      box.append(make("p", question.hint, "hint"));
      box.lastChild.id = "hint-" + place;
      box.setAttribute("aria-describedby", box.lastChild.id);
    }
    options.append.apply(options, question.options.map(function (choice, number) { return option(question, choice, number); }));
    box.append(options);
    box.addEventListener("focusin", function () { mark(place); });
    return box;
  }

  /* The overall choice comes first and alone: what else is asked could change it. */
  function reveal(questions) {
    var chosen = questions.filter(function (one) { return one.first; }).every(function (one) { return one.name in answers; });
    Array.from(root.children).forEach(function (part) { part.hidden = !chosen && part.dataset.rest === "yes"; });
    document.getElementById("comment-box").hidden = !chosen;
  }

  /* The answers as the server keeps them: `scores_a.relevance` lies in an inner object, what is not asked is null. */
  function whole(comment) {
    var made = { task: asked.task, comment: comment };
    asked.questions.forEach(function (question) {
      var steps = question.name.split("."), value = question.name in answers ? answers[question.name] : null;
      if (steps.length === 1) { made[steps[0]] = value; } else { made[steps[0]] = Object.assign(made[steps[0]] || {}, { [steps[1]]: value }); }
    });
    return made;
  }

  function flat(said) {
    var found = {};
    asked.questions.forEach(function (question) {
      var value = question.name.split(".").reduce(function (part, step) { return part[step]; }, said);
      if (value !== undefined) { found[question.name] = value; }
    });
    return found;
  }

  function show(said, paraphrased) {
    var questions = asked.questions.filter(function (one) { return paraphrased || !one.paraphrased; }), group = null, holder = null;
    answers = Object.assign({}, said);
    root.replaceChildren();
    boxes = questions.map(function (question, place) {
      if (question.group !== group) {
        group = question.group;
        holder = make("div", "", question.paired ? "pairs" : "");
        if (group) {
          var heading = make("h2", group);
          heading.dataset.rest = question.first ? "no" : "yes";
          root.append(heading);
        }
        holder.dataset.rest = question.first ? "no" : "yes";
        root.append(holder);
      }
      var box = fieldset(question, place);
      holder.append(box);
      return { box: box, question: question };
    });
    reveal(questions);
    mark(0);
  }

  function mark(place) {
    active = place;
    boxes.forEach(function (one, number) { one.box.classList.toggle("active", number === place); });
  }

  function focus(place) {
    if (!boxes[place]) { return; }
    mark(place);
    var box = boxes[place].box;
    (box.querySelector("input:checked") || box.querySelector("input")).focus({ preventScroll: true });
    box.scrollIntoView({ block: "nearest" });
  }

  function choose(name, value, goOn) {
    var place = boxes.findIndex(function (one) { return one.question.name === name; }), found = boxes[place];
    answers[name] = value;
    found.box.querySelectorAll("input").forEach(function (input, number) {
      input.checked = found.question.options[number].value === value;
    });
    reveal(boxes.map(function (one) { return one.question; }));
    changed();
    if (!goOn) { return; }
    if (place + 1 < boxes.length) { focus(place + 1); } else { last(); }
  }

  function last() {
    var save = document.getElementById("save");
    save.focus({ preventScroll: true });
    save.scrollIntoView({ block: "nearest" });
  }

  function missing() {
    return boxes.findIndex(function (one) { return !(one.question.name in answers); });
  }

  function step(by) {
    var next = active + by;
    if (next >= boxes.length) { last(); } else if (next >= 0 && !boxes[next].box.parentElement.hidden) { focus(next); }
  }

  function digit(key) {
    var one = boxes[active], choice = one && one.question.options[Number(key) - 1];
    if (choice) { choose(one.question.name, choice.value, true); }
    return Boolean(choice);
  }

  /* Keys are ours only where nothing else needs them: not in the comment, and up and down scroll where a text has the focus. */
  function press(event) {
    var at = event.target, radio = at.type === "radio", act = true;
    if (event.isComposing || event.altKey) { return; }
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
      event.preventDefault();
      finish();
    }
    if (event.ctrlKey || event.metaKey || at.tagName === "TEXTAREA") { return; }
    if (/^[1-9]$/.test(event.key)) {
      act = digit(event.key);
    } else if (radio && event.key === "ArrowDown") {
      step(1);
    } else if (radio && event.key === "ArrowUp") {
      step(-1);
    } else if (at.id === "save" && event.key === "ArrowUp") {
      focus(boxes.length - 1);
    } else if (event.key === "Enter" && (radio || at.id === "title" || at === document.body)) {
      if (!radio) { focus(Math.max(missing(), 0)); } else if (missing() < 0) { finish(); } else { step(1); }
    } else { act = false; }
    if (act) { event.preventDefault(); }
  }

  plural.questions = {
    make: make,
    show: show,
    press: press,
    missing: missing,
    focus: focus,
    listen: function (onChange, onFinish) { changed = onChange; finish = onFinish; },
    answers: function () { return answers; },
    whole: whole,
    flat: flat,
    label: function (name, value) {
      var one = asked.questions.find(function (question) { return question.name === name; });
      return one.options.find(function (option) { return option.value === value; }).label;
    },
    firstName: asked.questions[0].name,
    text: function (place) { return boxes[place].question.text; },
  };
}());
