// What a page needs of Vega, as one file: compile a Vega-Lite spec and draw it, with expressions interpreted instead of
// compiled, because the Content-Security-Policy forbids evaluation.
export {parse, View} from "vega";
export {compile} from "vega-lite";
export {expressionInterpreter} from "vega-interpreter";
