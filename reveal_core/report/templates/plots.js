// Draws each figure with Plotly once it nears the view, in the colours of the reader's theme. Everything that it shows
// is in the page without it: as a static drawing and as a table.
(() => {
  "use strict";
  const root = document.documentElement;
  const coarse = window.matchMedia("(pointer: coarse)").matches;
  const drawn = new Map();

  const theme = () => {
    const style = getComputedStyle(root);
    return (name) => style.getPropertyValue("--" + name).trim();
  };
  const faded = (colour, share) => {
    const n = parseInt(colour.slice(1), 16);
    return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${share})`;
  };
  const known = (name) => (["cpu", "gpu", "memory", "network", "storage"].includes(name) ? name : "muted");

  const base = (c, data) => ({
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: c("muted") },
    showlegend: false,
    hovermode: "x",
    dragmode: coarse ? false : "zoom",
    hoverlabel: { bgcolor: c("surface"), bordercolor: c("line"), font: { color: c("ink") } },
    xaxis: { type: "date", range: data.range, gridcolor: c("grid"), showgrid: false, zeroline: false, linecolor: c("line"), ticks: "", nticks: 6, tickformat: "%H:%M:%S", hoverformat: "%H:%M:%S.%L" },
    yaxis: { gridcolor: c("grid"), zeroline: false, linecolor: c("line"), ticks: "", fixedrange: true },
  });
  const spanShape = (x0, x1, colour, yref) => ({ type: "rect", xref: "x", yref, x0, x1, y0: 0, y1: 1, fillcolor: colour, line: { width: 0 }, layer: "below" });

  function metric(data, c) {
    const layout = base(c, data);
    const shapes = [spanShape(data.span[0], data.span[1], faded(c(known(data.subsystem)), 0.16), "paper")];
    const values = data.y.filter((v) => v !== null);
    if (data.low !== null && data.high !== null) {
      values.push(data.low, data.high);
      shapes.push({ type: "rect", xref: "paper", x0: 0, x1: 1, y0: data.low, y1: data.high, fillcolor: c("band"), line: { width: data.low === data.high ? 1 : 0, color: c("band") }, layer: "below" });
    }
    let low = Math.min(...values);
    const high = Math.max(...values);
    if (low >= 0 && low < 0.3 * high) low = 0;
    const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 0.5;
    layout.shapes = shapes;
    layout.margin = { l: 44, r: 8, t: 6, b: 22 };
    layout.xaxis.nticks = 4;
    Object.assign(layout.yaxis, { range: [low === 0 ? 0 : low - room, high + room], nticks: 4 });
    const x = data.y.map((_, n) => data.t0 + n * data.step);
    const trace = { type: "scatter", mode: "lines", x, y: data.y, line: { color: c("trace"), width: 1.5 }, hovertemplate: "%{y:,.4~g} " + data.unit.replace(/[<>&%]/g, (s) => ({ "<": "&lt;", ">": "&gt;", "&": "&amp;", "%": "%" })[s]) + "<extra></extra>" };
    return { traces: [trace], layout };
  }

  const text = (s) => s.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  function lane(items, row, c, colour, hover) {
    return {
      type: "bar", orientation: "h", yaxis: "y2", y: items.map(() => row), base: items.map((i) => i.start),
      x: items.map((i) => Math.max(i.end - i.start, 1)), width: 0.62, marker: { color: items.map(colour), line: { width: 0 } },
      text: items.map((i) => text(i.label)), textposition: "inside", insidetextanchor: "middle", textangle: 0,
      textfont: { color: c("on"), size: 11 }, constraintext: "none", cliponaxis: true,
      hovertext: items.map(hover), hovertemplate: "%{hovertext}<extra></extra>", customdata: items.map((i) => i.anchor || ""),
    };
  }
  function timeline(data, c, width) {
    const layout = base(c, data);
    const found = data.y.filter((v) => v !== null);
    const low = Math.log10(Math.max(Math.min(0.5, ...found), 0.1));
    const high = Math.log10(Math.max(1, ...found) * 1.6);
    const decades = [0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000];
    const rows = [...(data.faults.length ? ["injected"] : []), ...(data.incidents.length || data.faults.length ? ["incidents"] : [])];
    const share = [0, 0.16, 0.27][rows.length];
    layout.margin = { l: 62, r: 12, t: 8, b: 24 };
    layout.barmode = "overlay";
    layout.xaxis.nticks = width < 500 ? 4 : 10;
    const minutes = (data.range[1] - data.range[0]) / 60000;
    layout.xaxis.tickformat = minutes > 2880 ? "%m-%d" : minutes > 4 ? "%H:%M" : "%H:%M:%S";
    if (rows.length) layout.xaxis.anchor = "y2";
    Object.assign(layout.yaxis, { type: "log", range: [low, high], domain: [share && share + 0.05, 1], tickvals: decades, ticktext: decades.map((d) => `${d}×`) });
    if (rows.length) layout.yaxis2 = { domain: [0, share], range: [-0.5, rows.length - 0.5], tickvals: rows.map((_, n) => n), ticktext: rows, fixedrange: true, showgrid: false, zeroline: false, ticks: "" };
    layout.shapes = data.incidents.map((i) => spanShape(i.start, i.end, faded(c(known(i.subsystem)), 0.16), "y domain"));
    layout.shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, yref: "y", y0: 1, y1: 1, line: { color: c("threshold"), width: 1, dash: "dash" } });
    const traces = [];
    for (const [start, end] of data.gaps) {
      traces.push({ type: "scatter", mode: "lines", x: [start, start, end, end], y: [10 ** low, 10 ** high, 10 ** high, 10 ** low], line: { width: 0 }, fill: "toself", fillpattern: { shape: "/", fgcolor: c("hatch"), bgcolor: "rgba(0,0,0,0)", size: 6, solidity: 0.3 }, hoverinfo: "skip" });
    }
    traces.push({ type: "scatter", mode: "lines", x: data.t.map((t) => data.t0 + t), y: data.y, line: { color: c("trace"), width: 1.4 }, hovertemplate: "%{y:.3~g}× threshold<extra></extra>" });
    // A label that is wider than its bar would lie over its neighbours: leave it to the hover text.
    const scale = (width - 74) / (data.range[1] - data.range[0]);
    const fits = (i) => ({ ...i, label: i.label.length * 6.4 + 4 <= (i.end - i.start) * scale ? i.label : "" });
    // A name stands beside its bar where there is room up to the next one.
    const beside = (items, row, name) => items.forEach((i, n) => {
      const next = n + 1 < items.length ? items[n + 1].start : data.range[1];
      if (name(i).length * 6.4 + 12 > (next - i.end) * scale) return;
      layout.annotations.push({ x: i.end, y: row, yref: "y2", text: text(name(i)), showarrow: false, xanchor: "left", xshift: 2, font: { color: c("muted"), size: 11 } });
    });
    layout.annotations = [];
    beside(data.incidents, rows.length - 1, (i) => i.name);
    beside(data.faults, 0, (i) => i.label);
    const span = (i) => `${((i.end - i.start) / 1000).toFixed(1)} s`;
    if (data.incidents.length) traces.push(lane(data.incidents.map(fits), rows.length - 1, c, (i) => c(known(i.subsystem)), (i) => `<b>${text(i.text)}</b><br>${text(i.cause)}<br>${span(i)}`));
    if (data.faults.length) {
      traces.push(lane(data.faults.map((i) => ({ ...fits(i), name: i.label })), 0, c, (i) => faded(c(i.found ? "muted" : "no"), 0.8), (i) => `<b>${text(i.name)}</b>, injected<br>${span(i)}, ${i.found ? "found" : "missed"}`));
    }
    return { traces, layout };
  }

  // Unpacking and running Plotly's five megabytes takes a second or more: the page is read meanwhile, so it waits for
  // idle time. A browser that cannot unpack keeps the static drawings.
  const whenIdle = window.requestIdleCallback || ((then) => setTimeout(then, 50));
  let loaded = null;
  async function unpack() {
    await new Promise((done) => whenIdle(done));
    const bytes = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));
    const script = document.createElement("script");
    script.textContent = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
    document.head.append(script);
  }
  const load = () => (loaded ??= unpack());

  async function draw(figure) {
    await load();
    const frame = figure.querySelector(".frame");
    const first = !drawn.has(figure);
    const data = first ? JSON.parse(figure.querySelector("script").textContent) : drawn.get(figure).data;
    let live = frame.querySelector(".live");
    if (first) {
      live = document.createElement("div");
      live.className = "live";
      live.setAttribute("aria-hidden", "true");
      frame.append(live);
      drawn.set(figure, { data });
    }
    const { traces, layout } = (data.kind === "timeline" ? timeline : metric)(data, theme(), frame.clientWidth);
    await Plotly.react(live, traces, layout, { responsive: true, displayModeBar: false, displaylogo: false, doubleClick: "reset", scrollZoom: false });
    if (first) {
      live.on("plotly_click", (event) => {
        const anchor = event.points.map((p) => p.customdata).find((a) => typeof a === "string" && a);
        if (anchor) location.hash = anchor;
      });
    }
    figure.classList.add("drawn");
  }

  const redraw = () => drawn.forEach((_, figure) => draw(figure));
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watch.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "300px" });
  if (window.DecompressionStream) document.querySelectorAll("figure.plot").forEach((figure) => watch.observe(figure));
  root.addEventListener("themechange", redraw);
})();
