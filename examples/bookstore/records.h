/* records.h: books as fixed-size records in one buffer, for programs that want to use them without
 * parsing anything.
 *
 * All numbers are little-endian. The buffer holds, one after the other:
 *
 *   header   32 bytes
 *      0  char[8]  "DZBOOKS1"
 *      8  uint32   bytes in a record (32)
 *     12  uint32   number of records
 *     16  uint64   where the text starts, from the start of the buffer
 *     24  uint64   bytes of text
 *   records  32 bytes each, in file order
 *      0  uint64   ISBN as a number, such as 9780441172719
 *      8  uint32   price in cents
 *     12  uint32   stock
 *     16  uint32   where the title starts in the text
 *     20  uint32   where the author starts in the text
 *     24  uint16   bytes of the title
 *     26  uint16   bytes of the author
 *     28  uint32   zero
 *   text     titles and authors, UTF-8, not terminated
 */
#ifndef BOOKSTORE_RECORDS_H
#define BOOKSTORE_RECORDS_H

#include <donmaz/buf.h>
#include <donmaz/csv.h>

#include <stdint.h>

enum { RECORDS_HEADER = 32, RECORDS_SIZE = 32 };

/* Collects books. The text grows in a buffer of its own until records_finish. */
typedef struct records {
    dz_buf books; /* with the header */
    dz_buf text;
} records;

typedef struct catalogue_book {
    uint64_t isbn;
    uint32_t cents, stock;
    dz_csv_field title, author;
} catalogue_book;

/* DZ_E_NOMEM. */
int records_init(records *to);

/* DZ_E_NOMEM; DZ_E_TOO_LARGE: more text than 32 bits can address. */
int records_add(records *to, const catalogue_book *book);

/* Joins all into *out, an owning buffer; *from is empty afterwards. DZ_E_NOMEM: nothing changed. */
int records_finish(records *from, dz_buf *out);

void records_close(records *gone);

#endif
