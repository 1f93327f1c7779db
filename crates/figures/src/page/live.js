// Charts with values under the pointer and with zoom, in place of the drawn ones. Without scripts the drawings stay.
(() => {
  "use strict";
  const charts = [...document.querySelectorAll("figure.chart")];
  const drawn = [];
  const style = () => getComputedStyle(document.documentElement);

  const written = (value) => {
    if (value == null) return "–";
    const size = Math.abs(value);
    if (value !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(3);
    return String(Number(value.toPrecision(5)));
  };

  const font = "12px system-ui, sans-serif";
  const longest = (texts) => Math.max(0, ...(texts || []).map((text) => text.length));

  // The distances of ticks where all x are whole numbers.
  const whole = [1, 2, 5].flatMap((digit) => [...Array(12).keys()].map((power) => digit * 10 ** power)).sort((a, b) => a - b);

  const axis = (told, sideways, incrs, faint, rule) => ({
    incrs,
    label: told.label || undefined,
    labelSize: 20,
    labelGap: 0,
    labelFont: font,
    font,
    gap: 4,
    stroke: faint,
    grid: { show: !sideways, stroke: rule, width: 1 },
    ticks: { stroke: rule, width: 1, size: 4 },
    size: sideways ? 24 : (_, texts) => Math.max(26, 7 * longest(texts) + 10),
    space: sideways ? 62 : 34,
    values: (_, ticks) => ticks.map((tick) => (tick == null ? "" : shortened(tick))),
  });

  const shortened = (tick) => {
    const size = Math.abs(tick);
    if (size >= 1e9 || (size > 0 && size < 1e-4)) return tick.toExponential(0).replace("e+", "e");
    if (size >= 1e6) return `${Number((tick / 1e6).toPrecision(4))}M`;
    return tick.toLocaleString("en", { maximumSignificantDigits: 6 });
  };

  const draw = (figure) => {
    const told = JSON.parse(figure.querySelector("script.data").textContent);
    const card = figure.querySelector(".card");
    const names = style();
    const colour = (name) => names.getPropertyValue(name).trim();
    const series = [{ label: told.x.label || "x", value: (_, value) => written(value) }];
    const tables = [];
    const bands = [];
    const edges = [];
    told.series.forEach((line, place) => {
      const stroke = colour(`--line-${place % 7}`);
      const table = [line.x, line.y];
      const at = series.length;
      const values = (plot, index) => {
        const of = (offset) => written(plot.data[at + offset][index]);
        return index == null ? "–" : line.low ? `${of(0)} (${of(2)} to ${of(1)})` : of(0);
      };
      series.push({
        label: line.label || told.y.label || "value",
        stroke,
        width: 1.8,
        dash: place < 7 ? undefined : [7, 5],
        value: (plot, value, _, index) => (value == null ? "–" : values(plot, index)),
        points: { size: 6, fill: stroke, show: line.x.length <= 40 ? true : undefined },
      });
      if (line.low) {
        // The ends of a band: the line of the legend shows them with the value.
        const edge = { stroke: "transparent", width: 0, points: { show: false } };
        edges.push(series.length, series.length + 1);
        series.push({ ...edge }, { ...edge });
        bands.push({ series: [at + 1, at + 2], fill: `${stroke}30` });
        table.push(line.high, line.low);
      }
      tables.push(table);
    });
    const data = tables.length ? uPlot.join(tables) : [[]];
    const all = [data[0][0], data[0][data[0].length - 1]];
    const complete = (low, high) => low <= all[0] && high >= all[1];
    const counted = !told.x.log && data[0].every((x) => Math.abs(x - Math.round(x)) < 1e-6);
    // Zoomed in, the values of the part set the range.
    const range = (plot, low, high) => {
      if (told.y.range && complete(plot.scales.x.min, plot.scales.x.max)) return told.y.range;
      if (low == null) return [0, 1];
      if (told.y.log) return uPlot.rangeLog(low, high, 10, false);
      return uPlot.rangeNum(low, high, 0.1, false);
    };
    const shade = (plot) => {
      if (!told.shaded) return;
      const { left, top, width, height } = plot.bbox;
      const place = (value) => Math.min(Math.max(plot.valToPos(value, "x", true), left), left + width);
      const [from, to] = told.shaded.slice(0, 2).map(place);
      plot.ctx.fillStyle = colour("--shade");
      plot.ctx.fillRect(from, top, to - from, height);
    };
    const zoomed = (plot) => {
      const { min, max } = plot.scales.x;
      figure.classList.toggle("zoomed", data[0].length > 1 && !complete(min, max));
    };
    const size = () => {
      const inner = getComputedStyle(card);
      const width = card.clientWidth - parseFloat(inner.paddingLeft) - parseFloat(inner.paddingRight);
      return { width: Math.max(Math.floor(width), 200), height: width < 400 ? 230 : 270 };
    };
    const place = document.createElement("div");
    card.querySelector("svg").style.display = "none";
    card.append(place);
    const [faint, rule] = [colour("--faint"), colour("--rule")];
    const plot = new uPlot({
      ...size(),
      series,
      bands,
      scales: {
        x: { time: false, distr: told.x.log ? 3 : 1 },
        y: { distr: told.y.log ? 3 : 1, range },
      },
      axes: [axis(told.x, true, counted ? whole : undefined, faint, rule), axis(told.y, false, undefined, faint, rule)],
      cursor: { drag: { x: true, y: false, setScale: true } },
      legend: { live: true, markers: { fill: (_, index) => series[index].stroke } },
      hooks: { drawClear: [shade], setScale: [zoomed] },
    }, data, place);
    const entries = plot.root.querySelectorAll(".u-series");
    for (const index of edges) entries[index].style.display = "none";
    if (told.shaded) {
      const entry = document.createElement("p");
      entry.className = "shaded";
      entry.textContent = told.shaded[2];
      plot.root.append(entry);
    }
    const canvas = plot.root.querySelector("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", card.querySelector("svg").getAttribute("aria-label"));
    const back = document.createElement("button");
    back.textContent = "whole range";
    back.className = "back";
    back.onclick = () => plot.setScale("x", { min: all[0], max: all[1] });
    place.prepend(back);
    drawn.push({ plot, place, size, card });
  };

  const drawAll = () => {
    for (const { plot, place } of drawn.splice(0)) {
      plot.destroy();
      place.remove();
    }
    charts.forEach(draw);
  };
  drawAll();
  // A phone that is turned; other light.
  new ResizeObserver(() => {
    for (const { plot, size } of drawn) {
      const now = size();
      if (now.width !== plot.width) plot.setSize(now);
    }
  }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  for (const hint of document.querySelectorAll(".hint")) hint.hidden = false;
})();
