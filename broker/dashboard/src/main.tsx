import "uplot/dist/uPlot.min.css";
import "./style/base.css";
import "./style/shell.css";
import "./style/parts.css";
import { render } from "preact";
import { App } from "./app";

const root = document.getElementById("app");
if (root !== null) {
  root.replaceChildren();
  render(<App />, root);
}
