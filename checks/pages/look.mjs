// Opens report pages in a browser and checks them: node look.mjs BROWSER SCREENSHOTS PAGE..
//
// Each page is opened at a desktop's and a phone's width, light and dark, with scripts and without. It fails where
// - the page scrolls sideways, a text of the page or of a chart is smaller than ten CSS pixels,
// - an error is written to the console, a file is asked for that is not the page,
// - a chart shows no values under the pointer or cannot be zoomed although scripts run, or is not shown without them,
// - axe finds something serious.
// SCREENSHOTS is a folder, or empty.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

// The packages lie in the folder where the program is started.
const require = createRequire(join(process.cwd(), "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [executablePath, screenshots, ...pages] = process.argv.slice(2);
const SMALLEST = 10;
const views = [
  { name: "desktop-light", width: 1280, height: 900, colorScheme: "light", scripts: true },
  { name: "desktop-dark", width: 1280, height: 900, colorScheme: "dark", scripts: true },
  { name: "phone-light", width: 390, height: 844, colorScheme: "light", scripts: true },
  { name: "phone-dark", width: 390, height: 844, colorScheme: "dark", scripts: true },
  { name: "phone-still", width: 390, height: 844, colorScheme: "light", scripts: false },
];

const browser = await chromium.launch({
  executablePath,
  headless: true,
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
  ],
});

/** What is wrong with the open page, apart from axe's findings. */
function measured(smallest) {
  const wrong = [];
  const page = document.documentElement;
  if (page.scrollWidth > page.clientWidth) {
    wrong.push(`scrolls sideways: ${page.scrollWidth} of ${page.clientWidth} pixels`);
  }
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = texts.nextNode());) {
    const element = text.parentElement;
    if (!text.data.trim() || element.closest("script, style") || !element.getClientRects().length) continue;
    const drawn = element.closest("svg");
    const scale = drawn ? drawn.getScreenCTM().a : 1;
    const size = parseFloat(getComputedStyle(element).fontSize) * scale;
    if (size < smallest - 0.05) wrong.push(`text of ${size.toFixed(1)} pixels: ${text.data.trim().slice(0, 40)}`);
  }
  return [...new Set(wrong)].slice(0, 5);
}

/** Whether the first chart answers the pointer: what is wrong. */
async function used(tab) {
  const chart = tab.locator("figure.chart").first();
  const wrong = [];
  const box = await chart.locator(".u-over").boundingBox();
  const at = (share) => [box.x + share * box.width, box.y + box.height / 2];
  await tab.mouse.move(...at(0.5));
  const values = await chart.locator(".u-value").allTextContents();
  if (values.every((value) => value === "–")) wrong.push("no values under the pointer");
  const zoomed = () => chart.evaluate((figure) => figure.classList.contains("zoomed"));
  await tab.mouse.move(...at(0.2));
  await tab.mouse.down();
  await tab.mouse.move(...at(0.7), { steps: 4 });
  await tab.mouse.up();
  if (!(await zoomed())) wrong.push("a drag does not zoom in");
  await chart.locator(".back").click();
  if (await zoomed()) wrong.push("the button does not show the whole range");
  await tab.mouse.move(0, 0);
  return wrong;
}

let failures = 0;

async function look(page) {
  const name = basename(dirname(page));
  for (const view of views) {
    const context = await browser.newContext({
      viewport: { width: view.width, height: view.height },
      colorScheme: view.colorScheme,
      javaScriptEnabled: view.scripts,
    });
    const tab = await context.newPage();
    const wrong = [];
    tab.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
    tab.on("console", (said) => said.type() === "error" && wrong.push(`console: ${said.text()}`));
    const address = pathToFileURL(page).href;
    tab.on("request", (asked) => {
      const url = asked.url();
      if (url !== address && !url.startsWith("data:") && !url.startsWith("blob:")) wrong.push(`asks for ${url}`);
    });
    await tab.goto(address);
    wrong.push(...(await tab.evaluate(measured, SMALLEST)));
    const charts = await tab.locator("figure.chart").count();
    const live = await tab.locator("figure.chart .uplot").count();
    const still = await tab.locator("figure.chart svg:visible").count();
    const [expected, shown] = view.scripts ? [live, "live"] : [still, "drawn"];
    if (expected !== charts) wrong.push(`${expected} of ${charts} charts are ${shown}`);
    if (view === views[0] && charts) {
      await tab.locator("figure.chart").first().scrollIntoViewIfNeeded();
      wrong.push(...(await used(tab)));
    }
    if (view.scripts) {
      await tab.evaluate(axe);
      const found = await tab.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
      for (const { id, impact, help, nodes } of found.violations) {
        const where = nodes.slice(0, 2).map((node) => node.target.join(" ")).join("; ");
        const line = `${id} (${impact}): ${help}: ${where}`;
        if (impact === "serious" || impact === "critical") wrong.push(line);
        else console.log(`${name} ${view.name}: note: ${line}`);
      }
    }
    if (screenshots) {
      await tab.screenshot({ path: join(screenshots, `${name}-${view.name}.png`), fullPage: true });
    }
    for (const line of wrong) console.error(`${name} ${view.name}: ${line}`);
    failures += wrong.length;
    await context.close();
  }
}

// Two pages at a time.
const waiting = [...pages];
const worker = async () => {
  while (waiting.length) await look(waiting.shift());
};
await Promise.all([worker(), worker()]);
await browser.close();
console.log(`${pages.length} pages in ${views.length} views: ${failures} findings`);
process.exitCode = failures ? 1 : 0;
