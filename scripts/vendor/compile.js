// What a page does not need to draw: from a Vega-Lite spec to the dataflow that Vega runs. It takes as long as drawing, so it is a
// worker of its own, beside the page. Its answer is the dataflow, or in words why there is none.
import "vega";
import {parse} from "vega-parser";
import {compile} from "vega-lite";

addEventListener("message", ({data: spec, ports: [asker]}) => {
  try {
    asker.postMessage({dataflow: parse(compile(spec).spec, null, {ast: true})});
  } catch (error) {
    asker.postMessage({error: String(error)});
  }
});
