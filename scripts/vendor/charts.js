// What a page needs of Vega to draw a dataflow, with expressions interpreted instead of compiled, because the
// Content-Security-Policy forbids evaluation.
import "vega";
export {View} from "vega-view";
export {expressionInterpreter} from "vega-interpreter";
