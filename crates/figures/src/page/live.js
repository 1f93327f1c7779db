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

  // Ticks of a logarithmic axis stand at powers of ten; others would carry no label.
  const axis = (told, grid) => {
    const { x, faint, rule } = grid;
    return {
      label: told.label || undefined,
      labelSize: 22,
      labelFont: "12px system-ui, sans-serif",
      font: "12px system-ui, sans-serif",
      stroke: faint,
      grid: { show: !x, stroke: rule, width: 1 },
      ticks: { stroke: rule, width: 1, size: 4 },
      size: x ? 34 : 58,
      space: x ? 62 : 34,
      values: (_, ticks) => ticks.map((tick) => (tick == null ? "" : shortened(tick))),
    };
  };

  const shortened = (tick) => {
    const size = Math.abs(tick);
    if (size >= 1e9 || (size > 0 && size < 1e-4)) return tick.toExponential(0).replace("e+", "e");
    if (size >= 1e6) return `${Number((tick / 1e6).toPrecision(4))}M`;
    return Number(tick.toPrecision(6)).toLocaleString("en");
  };

  const draw = (figure) => {
    const told = JSON.parse(figure.querySelector("script.data").textContent);
    const card = figure.querySelector(".card");
    const names = style();
    const colour = (name) => names.getPropertyValue(name).trim();
    const series = [{ label: told.x.label || "x", value: (_, value) => written(value) }];
    const tables = [];
    const bands = [];
    told.series.forEach((line, place) => {
      const stroke = colour(`--line-${place % 7}`);
      const table = [line.x, line.y];
      series.push({
        label: line.label || "",
        stroke,
        width: 1.8,
        dash: place < 7 ? undefined : [7, 5],
        value: (_, value) => written(value),
        points: { size: 6, fill: stroke, show: line.x.length <= 40 ? true : undefined },
      });
      if (line.low) {
        const edge = (label) => ({
          label, stroke: "transparent", width: 0, points: { show: false }, value: (_, value) => written(value),
        });
        const name = line.label ? `${line.label}, ` : "";
        series.push(edge(`${name}upper`), edge(`${name}lower`));
        const at = series.length;
        bands.push({ series: [at - 2, at - 1], fill: `${stroke}30` });
        table.push(line.high, line.low);
      }
      tables.push(table);
    });
    const data = tables.length ? uPlot.join(tables) : [[]];
    const all = [data[0][0], data[0][data[0].length - 1]];
    const whole = (low, high) => low <= all[0] && high >= all[1];
    // Zoomed in, the values of the part set the range.
    const range = (plot, low, high) => {
      if (told.y.range && whole(plot.scales.x.min, plot.scales.x.max)) return told.y.range;
      if (low == null) return [0, 1];
      if (told.y.log) return uPlot.rangeLog(low, high, 10, false);
      return uPlot.rangeNum(low, high, 0.1, false);
    };
    const shade = (plot) => {
      if (!told.shaded) return;
      const { left, top, width, height } = plot.bbox;
      const place = (value) => Math.min(Math.max(plot.valToPos(value, "x", true), left), left + width);
      const [from, to] = [place(told.shaded.from), place(told.shaded.to)];
      plot.ctx.fillStyle = colour("--shade");
      plot.ctx.fillRect(from, top, to - from, height);
    };
    const zoomed = (plot) => {
      const { min, max } = plot.scales.x;
      figure.classList.toggle("zoomed", data[0].length > 1 && !whole(min, max));
    };
    const size = () => {
      const inner = getComputedStyle(card);
      const width = card.clientWidth - parseFloat(inner.paddingLeft) - parseFloat(inner.paddingRight);
      return { width: Math.max(Math.floor(width), 200), height: width < 400 ? 230 : 270 };
    };
    const place = document.createElement("div");
    card.querySelector("svg").style.display = "none";
    card.append(place);
    const faint = colour("--faint"), rule = colour("--rule");
    const plot = new uPlot({
      ...size(),
      series,
      bands,
      scales: {
        x: { time: false, distr: told.x.log ? 3 : 1 },
        y: { distr: told.y.log ? 3 : 1, range },
      },
      axes: [axis(told.x, { x: true, faint, rule }), axis(told.y, { x: false, faint, rule })],
      cursor: { drag: { x: true, y: false, setScale: true } },
      legend: { live: true },
      hooks: { drawClear: [shade], setScale: [zoomed] },
    }, data, place);
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
