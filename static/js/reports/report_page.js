// @ts-check
/** A report: read-outs of its charts. */

import "../ui/copy_buttons.js";
import { readings } from "../curves/chart_readings.js";

readings(document);
