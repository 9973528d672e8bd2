// What a Piscina worker runs.
import { compute } from './work.mjs';

export default ({ work, kind }) => compute(work, kind);
