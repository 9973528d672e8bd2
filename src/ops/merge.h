/* merge.h: the metrics of several processes as one text. */
#ifndef DZ_OPS_MERGE_H
#define DZ_OPS_MERGE_H

#include <donmaz/buf.h>
#include <donmaz/slice.h>

/* Appends one text that has every sample of `texts`, each with the label worker="N", N counted from
 * 1; empty texts are passed over. The texts must be as dz_metrics_write makes them. DZ_E_NOMEM. */
int dz_metrics_merge(dz_buf *out, const dz_slice *texts, size_t count);

#endif
