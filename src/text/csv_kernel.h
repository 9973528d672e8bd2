/* csv_kernel.h: finds separators and line ends outside quotes, 64 bytes at a time.
 *
 * For a block, one bit a byte tells where quotes and where separators or line ends ("cuts") are.
 * A prefix XOR over the quotes tells what is inside them; a doubled quote closes and reopens, so it
 * needs no care. Two checks tell whether the bytes are well-formed: an opening quote follows a
 * cut or a closing quote, and what follows a closing quote is a cut or an opening quote. At the
 * first byte that breaks this the kernel stops, and the scanner handles that one field by hand. */
#ifndef DZ_TEXT_CSV_KERNEL_H
#define DZ_TEXT_CSV_KERNEL_H

#include <donmaz/csv.h>

/* Adds to csv->index from csv->scanned on, until it is full, the input ends, or something malformed
 * comes; the latter two set csv->stopped. All kernels leave the same state behind. */
typedef void dz_csv_kernel(dz_csv *csv);

typedef struct dz_csv_kernel_entry {
    const char *name;
    dz_csv_kernel *run;
} dz_csv_kernel_entry;

/* All kernels of this build, the best first; the last one is scalar and always supported. */
const dz_csv_kernel_entry *dz_csv_kernels(size_t *count);

/* Whether this machine can run it. */
bool dz_csv_kernel_supported(const dz_csv_kernel_entry *kernel);

/* The one to use. */
const dz_csv_kernel_entry *dz_csv_kernel_chosen(void);

/* How far the index may count from its window. */
enum { DZ_CSV_WINDOW = 1 << 30 };

#endif
