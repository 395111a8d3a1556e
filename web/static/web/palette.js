// The palette: Ctrl-K lists the pages of the navigation and what the page offers; typed words choose among them.
(() => {
  "use strict";

  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const box = dialog.querySelector("input");
  const list = dialog.querySelector("[role=listbox]");
  const said = dialog.querySelector("[role=status]");
  let chosen = 0;

  const entry = (link, group) => ({ text: link.textContent.trim(), group, address: link.href });
  const offered = () => {
    const pages = [...document.querySelectorAll(".rail > nav a")].map((link) =>
      entry(link, link.closest("ul").getAttribute("aria-label") || ""),
    );
    const here = [...document.querySelectorAll(".page .actions a.button, .tabs a")].map((link) => entry(link, "On this page"));
    const tenants = [...document.querySelectorAll(".switcher a")].map((link) => entry(link, "Elsewhere"));
    return [...pages, ...here, ...tenants];
  };

  const matching = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = offered().filter(({ text, group }) => {
      const whole = `${text} ${group}`.toLowerCase();
      return words.every((word) => whole.includes(word));
    });
    // A page whose name begins as typed stands before one that has it somewhere.
    const begins = ({ text }) => (words.length && text.toLowerCase().startsWith(words[0]) ? 0 : 1);
    matches.sort((left, right) => begins(left) - begins(right));
    const name = box.value.trim();
    if (name && dialog.dataset.topics) {
      const address = `${dialog.dataset.topics}?q=${encodeURIComponent(name)}`;
      matches.push({ text: `Topics named “${name}”`, group: "Search", address });
    }
    return matches;
  };

  const show = () => {
    const matches = matching();
    chosen = Math.max(0, Math.min(chosen, matches.length - 1));
    list.replaceChildren(
      ...matches.map(({ text, group, address }, number) => {
        const option = document.createElement("li");
        option.id = `palette-${number}`;
        option.setAttribute("role", "option");
        option.setAttribute("aria-selected", String(number === chosen));
        option.dataset.address = address;
        const name = document.createElement("span");
        name.textContent = text;
        const kind = document.createElement("span");
        kind.className = "faint";
        kind.textContent = group;
        option.append(name, kind);
        return option;
      }),
    );
    said.textContent = matches.length ? "" : "No page matches.";
    if (matches.length) box.setAttribute("aria-activedescendant", `palette-${chosen}`);
    else box.removeAttribute("aria-activedescendant");
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  };

  const open = () => {
    if (dialog.open) return;
    box.value = "";
    chosen = 0;
    dialog.showModal();
    show();
  };

  const go = (option) => {
    if (option) location.assign(option.dataset.address);
  };

  for (const button of document.querySelectorAll("[data-palette]")) {
    button.hidden = false;
    button.addEventListener("click", open);
  }
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open();
    }
  });
  box.addEventListener("input", () => {
    chosen = 0;
    show();
  });
  box.addEventListener("keydown", (event) => {
    const number = list.children.length;
    if (event.key === "Enter" && !event.isComposing) go(list.children[chosen]);
    else if (event.key === "ArrowDown" && number) chosen = (chosen + 1) % number;
    else if (event.key === "ArrowUp" && number) chosen = (chosen + number - 1) % number;
    else return;
    event.preventDefault();
    show();
  });
  list.addEventListener("click", (event) => go(event.target.closest("[role=option]")));
  // A click beside the box closes it, as Escape does.
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
})();
