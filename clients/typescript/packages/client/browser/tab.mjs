import { within } from "../dist/test/support/waiting.js";

/** A tab with the client. Its scripts report with `tell(line)`, because a hidden tab has no timers for polling. */
export class Tab {
  /** The lines that the page has reported. */
  lines = [];
  /** Unexpected events: errors and warnings of the console, exceptions, unhandled rejections. */
  faults = [];
  #waiting = new Set();

  static async open(context, url) {
    const tab = new Tab();
    const page = await context.newPage();
    tab.page = page;
    page.on("pageerror", (error) => tab.faults.push(`not handled: ${error.message}`));
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) tab.faults.push(`console: ${message.text()}`);
    });
    await page.exposeFunction("tell", (line) => tab.#onLine(line));
    await page.goto(url);
    return tab;
  }

  #onLine(line) {
    this.lines.push(line);
    for (const look of [...this.#waiting]) look();
  }

  /** Runs a function in the page. */
  async run(script, argument) {
    try {
      return await within(this.page.evaluate(script, argument), "result from the page");
    } catch (error) {
      throw new Error(`${error.message}\n${this.#story()}`, { cause: error });
    }
  }

  #story() {
    return [`The page told ${JSON.stringify(this.lines)}`, ...this.faults].join("\n");
  }

  /** Waits until the page has reported this line `count` times. */
  async told(line, times = 1, limitMs = 10_000) {
    let look;
    const found = new Promise((resolve) => {
      look = () => {
        if (this.lines.filter((other) => other === line).length >= times) resolve();
      };
      this.#waiting.add(look);
      look();
    });
    try {
      await within(found, `"${line}" from the page`, limitMs);
    } catch (error) {
      throw new Error(`${error.message}\n${this.#story()}`, { cause: error });
    } finally {
      this.#waiting.delete(look);
    }
  }

  /** Shows another tab in front of this one. */
  async hide() {
    const other = await this.page.context().newPage();
    await other.bringToFront();
    await this.run(
      () =>
        new Promise((resolve) => {
          const look = () => {
            if (globalThis.document.visibilityState === "hidden") resolve();
          };
          globalThis.document.addEventListener("visibilitychange", look);
          look();
        }),
    );
    this.other = other;
  }

  async show() {
    await this.page.bringToFront();
  }

  /** Freezes all tasks of the page, as browsers do with hidden tabs to save energy, or unfreezes them. */
  async setFrozen(isFrozen) {
    this.cdp ??= await this.page.context().newCDPSession(this.page);
    await this.cdp.send("Page.setWebLifecycleState", { state: isFrozen ? "frozen" : "active" });
  }

  async close() {
    await this.other?.close();
    await this.page.close();
  }
}
