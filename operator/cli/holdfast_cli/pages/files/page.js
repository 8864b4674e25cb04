// Draws the charts of a page with uPlot. A live page calls `holdfast.draw` again with newer charts.
"use strict";
(() => {
  const COLOURS = 8, FAR = 400;  // curves before colours repeat; points to look for a value
  const drawn = new Map();  // by id of a chart: what is drawn, what is hidden, where it is zoomed to
  const root = document.documentElement;

  const height = () => "paper" in root.dataset ? 190 : 260;
  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  const make = (tag, className, text) => {
    const made = document.createElement(tag);
    made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // 1234 -> 1,234; 0.000012 -> 1.2e-5; at most 5 digits
  const number = (value) => {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size >= 1e6 || (size && size < 1e-3)) return value.toExponential(3).replace(/\.?0+e\+?/, "e");
    return Number(value.toPrecision(5)).toLocaleString("en", {maximumFractionDigits: 6});
  };

  const two = (value) => String(value).padStart(2, "0");
  const day = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;

  const moment = (seconds) => {
    const at = new Date(seconds * 1000);
    return `${day(at)} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  };

  // Times of an axis: the day below the first one, and where another day begins.
  const times = (plot, splits) => splits.map((seconds, place) => {
    const at = new Date(seconds * 1000), before = new Date((splits[place - 1] ?? 0) * 1000);
    const close = splits.length > 1 && splits[1] - splits[0] < 60;
    const clock = `${two(at.getHours())}:${two(at.getMinutes())}${close ? `:${two(at.getSeconds())}` : ""}`;
    return day(at) === day(before) ? clock : `${clock}\n${day(at)}`;
  });

  // Bands behind the curves, where steps were lost.
  const bands = (state) => (plot) => {
    const {left, top, width, height: tall} = plot.bbox;
    plot.ctx.save();
    plot.ctx.fillStyle = colour("lost-band");
    for (const {label, lost, x} of state.curves) {
      if (!lost || state.hidden.has(label)) continue;
      const [from, to] = [x[0], x[x.length - 1]].map((one) => plot.valToPos(one, "x", true));
      const start = Math.max(from, left), end = Math.min(to, left + width);
      if (end > start) plot.ctx.fillRect(start, top, Math.max(end - start, 2), tall);
    }
    plot.ctx.restore();
  };

  const isLost = (chart, label) => chart.curves.every((curve) => curve.label !== label || curve.lost);

  // Of the kept curves first.
  const labels = (chart) => [...new Set(chart.curves.map((curve) => curve.label))]
    .sort((a, b) => isLost(chart, a) - isLost(chart, b));

  const colourOf = (chart, label) => {
    if (isLost(chart, label)) return colour("lost");
    const kept = labels(chart).filter((one) => !isLost(chart, one));
    return colour(`curve-${kept.indexOf(label) % COLOURS}`);
  };

  // Curves on one axis of x: undefined where a curve has no point, null where its value is not a number.
  const joined = (curves) => curves.length ? uPlot.join(curves.map((curve) => [curve.x, curve.y])) : [[], []];

  // The place of the joined axis, at or near `at`, where a curve has a point; null outside of the curve.
  const near = (state, plot, series, at) => {
    const {x, label} = state.curves[series - 1], values = plot.data[series], here = plot.data[0][at];
    if (state.hidden.has(label) || here < x[0] || here > x[x.length - 1]) return null;
    for (let away = 0; away < FAR; away++) {
      if (values[at - away] !== undefined) return at - away;
      if (values[at + away] !== undefined) return at + away;
    }
    return null;
  };

  // Lost curves first: the others are drawn over them.
  const ordered = (chart) => [...chart.curves].sort((a, b) => b.lost - a.lost);

  const read = (state, plot) => {
    const at = plot.cursor.idx;
    if (at === null || at === undefined) {
      state.readout.textContent = "";
      return;
    }
    const x = plot.data[0][at];
    const said = [state.chart.xLabel === "time" ? moment(x) : `${state.chart.xLabel} ${number(x)}`];
    const seen = new Set();
    state.curves.forEach((curve, place) => {
      const found = near(state, plot, place + 1, at);
      if (found !== null && !seen.has(curve.label)) {
        seen.add(curve.label);
        said.push(`${curve.label}: ${number(plot.data[place + 1][found])}`);
      }
    });
    state.readout.textContent = said.join("   ");
  };

  const options = (state, width) => {
    const {chart} = state, time = chart.xLabel === "time";
    const axis = {
      stroke: colour("quiet"), grid: {stroke: colour("line"), width: 1}, ticks: {stroke: colour("line"), width: 1, size: 4},
      font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 18,
    };
    const room = (plot, values) => 14 + 7 * Math.max(2, ...(values || []).map((value) => String(value).length));
    return {
      width, height: height(),
      scales: {x: {time}, y: {range: (plot, low, high) => uPlot.rangeNum(chart.fromZero ? 0 : low ?? 0, high ?? 1, 0.08, true)}},
      legend: {show: false},
      cursor: {
        sync: {key: `holdfast-${chart.xLabel}`}, points: {size: 7}, drag: {x: true, y: false}, y: false,
        dataIdx: (plot, series, at) => series ? near(state, plot, series, at) : at,
      },
      axes: [
        {...axis, values: time ? times : (plot, splits) => splits.map(number), space: 70, size: time ? 50 : 34},
        {...axis, values: (plot, splits) => splits.map(number), size: room},
      ],
      series: [{}, ...state.curves.map((curve) => ({
        label: curve.label, stroke: colourOf(chart, curve.label), width: curve.lost ? 1.25 : 1.75,
        show: !state.hidden.has(curve.label), spanGaps: false, points: curve.x.length < 3 ? {show: true, size: 5} : {},
      }))],
      hooks: {
        drawClear: [bands(state)],
        setCursor: [(plot) => read(state, plot)],
        setScale: [(plot, key) => {
          if (key !== "x" || !plot.data[0].length) return;
          const [low, high] = [plot.data[0][0], plot.data[0][plot.data[0].length - 1]];
          state.zoom = plot.scales.x.min > low || plot.scales.x.max < high ? {...plot.scales.x} : null;
          state.reset.hidden = !state.zoom;
        }],
      },
    };
  };

  const legend = (state) => {
    state.legend.replaceChildren(...labels(state.chart).map((label) => {
      const button = make("button", "legend-item", label), sign = make("span", "legend-sign");
      button.type = "button";
      button.setAttribute("aria-pressed", String(!state.hidden.has(label)));
      sign.style.background = colourOf(state.chart, label);
      button.prepend(sign);
      button.addEventListener("click", () => {
        if (!state.hidden.delete(label)) state.hidden.add(label);
        button.setAttribute("aria-pressed", String(!state.hidden.has(label)));
        state.curves.forEach((curve, place) => {
          if (curve.label === label) state.plot.setSeries(place + 1, {show: !state.hidden.has(label)});
        });
      });
      return button;
    }));
  };

  // What a reader who does not see the picture is told.
  const words = (chart) => {
    const ends = chart.curves.filter((curve) => !curve.lost && curve.y.length);
    if (!ends.length) return `${chart.title}: no values`;
    const first = ends[0].y[0], last = ends[ends.length - 1].y[ends[ends.length - 1].y.length - 1];
    return `${chart.title} over ${chart.xLabel}: ${number(first)} at first, ${number(last)} at last`;
  };

  const build = (state) => {
    const {place, chart} = state, zoom = state.zoom;
    state.plot?.destroy();
    state.curves = ordered(chart);
    state.legend = make("div", "legend");
    state.readout = make("p", "readout");
    state.reset = make("button", "reset", "Whole range");
    state.reset.type = "button";
    state.reset.hidden = true;
    state.reset.addEventListener("click", () => whole(chart.xLabel));
    const head = make("div", "chart-head"), canvas = make("div", "canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", words(chart));
    const title = make("h3", "", chart.title);
    const over = ["step", "time"].includes(chart.xLabel) ? "" : `over ${chart.xLabel}`;
    title.append(make("span", "unit", [chart.yLabel, over].filter(Boolean).join(" ")));
    head.append(title, state.readout, state.reset);
    place.replaceChildren(head, canvas, state.legend);
    state.width = canvas.clientWidth;
    state.plot = new uPlot(options(state, state.width), joined(state.curves), canvas);
    if (zoom) state.plot.setScale("x", {min: zoom.min, max: zoom.max});
    legend(state);
  };

  const whole = (xLabel) => {
    for (const {chart, plot} of drawn.values()) {
      const x = plot.data[0];
      if (chart.xLabel === xLabel && x.length) plot.setScale("x", {min: x[0], max: x[x.length - 1]});
    }
  };

  // Draw charts where the page has a place for them. A chart that was drawn keeps its zoom and what is hidden in it.
  const draw = (charts) => {
    for (const chart of charts) {
      const place = document.getElementById(chart.id);
      if (!place) continue;
      const state = drawn.get(chart.id) || {hidden: new Set(), zoom: null};
      const same = state.chart && state.place === place && place.contains(state.plot.root)
        && JSON.stringify(state.chart.curves.map(({label, lost}) => [label, lost]))
        === JSON.stringify(chart.curves.map(({label, lost}) => [label, lost]));
      Object.assign(state, {chart, place});
      drawn.set(chart.id, state);
      if (same) {
        state.curves = ordered(chart);
        state.plot.setData(joined(state.curves), !state.zoom);
        state.plot.root.parentElement.setAttribute("aria-label", words(chart));
      } else build(state);
    }
  };

  const rebuild = () => drawn.forEach((state) => state.place.isConnected && build(state));

  const resize = () => drawn.forEach((state) => {
    const width = state.place.isConnected ? state.plot.root.parentElement.clientWidth : 0;
    if (width && width !== state.width) {
      state.width = width;
      state.plot.setSize({width, height: height()});
    }
  });

  let waiting = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(resize);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);
  // Paper is white and narrow, also if the screen is dark or wide.
  addEventListener("beforeprint", () => {
    root.dataset.paper = "";
    document.querySelectorAll("details").forEach((one) => { one.dataset.open = one.open; one.open = true; });
    rebuild();
  });
  addEventListener("afterprint", () => {
    delete root.dataset.paper;
    document.querySelectorAll("details").forEach((one) => { one.open = one.dataset.open === "true"; });
    rebuild();
  });

  window.holdfast = {draw};
  draw(JSON.parse(document.getElementById("charts").textContent));
})();
