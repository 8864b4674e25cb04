// Keeps a page current: elements that changed come over /events. It also asks before actions, and counts time.
"use strict";
(() => {
  const live = document.getElementById("live");
  const said = document.getElementById("said");
  let stamp = live.dataset.stamp;
  let source = null;
  let retry = 0;

  // ---- time -------------------------------------------------------------------------------------------------------
  const two = (value) => String(value).padStart(2, "0");

  // As formats.span of the command line: two parts at most.
  function span(milliseconds) {
    const seconds = Math.max(Math.floor(milliseconds / 1000), 0);
    const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
    if (days) return `${days}d${hours % 24}h`;
    if (hours) return `${hours}h${two(minutes % 60)}m`;
    if (minutes) return `${minutes}m${two(seconds % 60)}s`;
    return `${seconds}s`;
  }

  function tick(root = document) {
    const now = Date.now();
    for (const time of root.querySelectorAll("time[data-show]")) {
      const at = Date.parse(time.dateTime);
      const text = span(time.dataset.show === "age" ? now - at : at - now);
      if (time.textContent !== text) time.textContent = text;
    }
  }

  // ---- changes ----------------------------------------------------------------------------------------------------
  // What has the focus keeps it when its element is replaced.
  function keepingFocus(change) {
    const before = document.activeElement;
    const row = before?.closest("tr[data-key]")?.dataset.key;
    const href = before?.getAttribute?.("href");
    change();
    if (!before || before === document.body || document.activeElement === before) return;
    const within = row === undefined ? document : document.querySelector(`tr[data-key="${CSS.escape(row)}"]`);
    const after = before.id
      ? document.getElementById(before.id)
      : href && within?.querySelector(`[href="${CSS.escape(href)}"]`);
    after?.focus({ preventScroll: true });
  }

  function fragment(id, html) {
    const place = document.getElementById(id);
    if (!place || place.querySelector("dialog[open]")) return false;
    place.innerHTML = html;
    tick(place);
    return true;
  }

  // Fragments whose dialog is open wait until it is closed.
  const waiting = new Map();

  function fragments(changed) {
    for (const [id, html] of Object.entries(changed)) {
      if (fragment(id, html)) waiting.delete(id);
      else waiting.set(id, html);
    }
  }

  function rows(place, changed, order) {
    const body = document.getElementById(place);
    if (!body) return;
    const known = new Map(Array.from(body.rows, (row) => [row.dataset.key, row]));
    const holder = document.createElement("template");
    holder.innerHTML = changed;
    tick(holder.content);
    for (const row of Array.from(holder.content.children)) {
      known.get(row.dataset.key)?.replaceWith(row);
      known.set(row.dataset.key, row);
    }
    if (!order) return;
    let next = body.firstElementChild;
    for (const key of order) {
      const row = known.get(key);
      if (row === next) next = next.nextElementSibling;
      else body.insertBefore(row, next);
    }
    while (next) {
      const gone = next;
      next = next.nextElementSibling;
      gone.remove();
    }
  }

  function apply(change) {
    if (change.reload) {
      location.reload();
      return;
    }
    if (change.title) document.title = change.title;
    keepingFocus(() => {
      fragments(change.fragments ?? {});
      if (change.rows) rows(change.rows.place, change.rows.changed, change.rows.order);
    });
    if (change.charts) window.holdfast?.draw(change.charts);
    if (change.said) say(change.said);
    stamp = change.stamp;
  }

  // For readers of screens: only what the server or an answer says in words, never each change.
  function say(text) {
    said.textContent = text;
  }

  // ---- the stream -------------------------------------------------------------------------------------------------
  function state(name, title) {
    live.className = `live ${name}`;
    live.textContent = name || "live";
    live.title = title;
  }

  const AGAIN = 2000; // milliseconds

  // A browser opens few connections to one server, and each stream is one. So only a tab that is seen has a stream.
  function connect() {
    clearTimeout(retry);
    source?.close();
    source = null;
    if (document.hidden) return;
    const page = location.pathname + location.search;
    const address = `/events?${new URLSearchParams({ page, stamp })}`;
    const own = new EventSource(address);
    source = own;
    own.addEventListener("hello", () => state("", "this page shows changes at once"));
    own.addEventListener("change", (event) => apply(JSON.parse(event.data)));
    own.addEventListener("error", () => {
      own.close();
      if (source === own) explain(own, address);
    });
  }

  // The browser does not say why a stream ended. So the address is asked for once more, for its status alone.
  async function explain(own, address) {
    const asking = new AbortController();
    let why = "holdfast ui does not answer: it has ended, or restarts under another address";
    try {
      const answer = await fetch(address, { signal: asking.signal });
      if (answer.ok) why = "the connection was lost";
      else why = `holdfast ui answers ${answer.status}: ${(await answer.text()).trim()}`;
    } catch {
      // it does not answer
    }
    asking.abort();
    if (source !== own) return;
    state("away", why);
    retry = setTimeout(connect, AGAIN);
  }

  document.addEventListener("visibilitychange", connect);

  // ---- filter and order -------------------------------------------------------------------------------------------
  function ask(parts) {
    const query = String(new URLSearchParams(parts.filter(([, value]) => value)));
    history.replaceState(null, "", query ? `/jobs?${query}` : "/jobs");
    connect();
  }

  const field = () => document.getElementById("filter");

  function filter() {
    ask([["filter", field().value.trim()], ["sort", new URLSearchParams(location.search).get("sort")]]);
  }

  let typing = 0;
  document.addEventListener("input", (event) => {
    if (event.target.id !== "filter") return;
    clearTimeout(typing);
    typing = setTimeout(filter, 120);
  });

  // ---- actions ----------------------------------------------------------------------------------------------------
  async function act(form) {
    const refused = form.querySelector(".refused");
    const button = form.querySelector(".do");
    refused.textContent = "";
    button.disabled = true;
    try {
      const answer = await fetch(form.getAttribute("action"), {
        method: "POST",
        headers: { "X-Holdfast-Token": localStorage.getItem("holdfast") ?? "" },
        body: new URLSearchParams(new FormData(form)),
      });
      const text = await answer.text();
      if (answer.ok) {
        form.closest("dialog").close();
        say(text);
        note(text);
      } else refused.textContent = text;
    } catch {
      refused.textContent = "holdfast ui does not answer: it has ended";
    } finally {
      button.disabled = false;
    }
  }

  let fading = 0;
  function note(text) {
    document.querySelector(".toast")?.remove();
    const toast = document.createElement("p");
    toast.className = "toast";
    toast.textContent = text;
    document.body.append(toast);
    clearTimeout(fading);
    fading = setTimeout(() => toast.remove(), 8000);
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.id === "filter-form") {
      event.preventDefault();
      filter();
    } else if ("action" in form.dataset) {
      event.preventDefault();
      act(form);
    }
  });

  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-opens]");
    if (opener) document.getElementById(opener.dataset.opens).showModal();
    if (event.target.closest("[data-closes]")) event.target.closest("dialog").close();
    const link = event.target.closest("a[data-query]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
      event.preventDefault();
      const wanted = new URL(link.href).searchParams;
      field().value = wanted.get("filter") ?? "";
      ask(Array.from(wanted));
    }
  });

  document.addEventListener("close", (event) => {
    if (event.target instanceof HTMLDialogElement) keepingFocus(() => fragments(Object.fromEntries(waiting)));
  }, true);

  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea") || document.querySelector("dialog[open]")) return;
    if (!field()) return;
    event.preventDefault();
    field().focus();
    field().select();
  });

  tick();
  setInterval(tick, 1000);
  connect();
})();
