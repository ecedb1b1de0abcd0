// Vega without maps, graphs, trees, word clouds and statistics, which no chart here draws: a sixth less to load.
// Vega-Lite imports Vega as well, so this file stands in for the whole package. A chart that needs more of it (density,
// regression, a map) fails with "Unrecognized transform"; then add the package that has the transform.
import {extend} from "vega-util";
import {transforms} from "vega-dataflow";
import * as data from "vega-transforms";
import * as layout from "vega-view-transforms";
import * as encode from "vega-encode";

extend(transforms, data, layout, encode);

export * from "vega-util";
