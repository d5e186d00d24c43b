/* What is judged: the question, what is known of the user, the answers. Texts are set as text: nothing in them can act. */
(function () {
  "use strict";
  var make = plural.questions.make, root = document.getElementById("shown");

  function text(value, name) {
    var box = make("div", value, "text " + (name || ""));
    box.dir = "auto";
    return box;
  }

  /* A text that scrolls can be reached by keyboard, and says what it is. */
  function scrolls(box, label) {
    if (box.scrollHeight > box.clientHeight + 1) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", label);
    }
  }

  function posts(list) {
    var fold = make("details"), box = make("div", "", "fold"), items = make("ol", "", "posts");
    fold.id = "posts";
    fold.open = true; // a judgment about this user that did not look at them would be worth nothing
    fold.append(make("summary", list.length === 1 ? "1 post of this user" : list.length + " posts of this user"));
    list.forEach(function (post) {
      var line = make("li");
      line.append(text(post));
      items.append(line);
    });
    box.append(items);
    fold.append(box);
    fold.addEventListener("toggle", function () { scrolls(box, "Posts of this user"); });
    return fold;
  }

  function section(title, value) {
    var body = text(value, "ask");
    root.append(make("h2", title), body);
    scrolls(body, title);
  }

  function answers(list) {
    var grid = make("div", "", "answers");
    list.forEach(function (value, place) {
      var name = "Answer " + "ABCDEFGH".charAt(place), box = make("section", "", "answer"), body = text(value), title = make("h2", name);
      title.id = "answer-" + place;
      box.setAttribute("aria-labelledby", title.id);
      box.append(title, body);
      grid.append(box);
    });
    root.append(grid);
    grid.querySelectorAll(".text").forEach(function (body, place) { scrolls(body, "Text of answer " + "ABCDEFGH".charAt(place)); });
  }

  plural.item = {
    show: function (item) {
      root.replaceChildren();
      section("Question", item.prompt);
      if (item.narrative) { section("Who asks", item.narrative); }
      if (item.paraphrases.length) {
        var list = make("ol", "", "posts");
        item.paraphrases.forEach(function (value) {
          var line = make("li");
          line.append(text(value));
          list.append(line);
        });
        root.append(make("h2", "The question in other words"), list);
      }
      if (item.posts.length) { root.append(posts(item.posts)); }
      answers(item.answers);
      root.scrollTop = 0;
      scrolls(root, "Question and answers");
    },
  };
}());
